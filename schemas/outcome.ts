// The shape of an outcome that comes from a file. An agent runs as the same user as its shim and can write there, so
// nothing in it is taken for granted. For the scheduler; the shim uses the types only (job.ts).

import { z } from "zod";
import type { EndReason, Outcome } from "./job.ts";

const REASONS = [
  "exit",
  "signal",
  "timeout",
  "memory",
  "pids",
  "cpu",
  "fsize",
  "disk",
  "limit",
  "cancelled",
  "spawn_failed",
  "lost",
] as const satisfies readonly EndReason[];

const Count = z.number().min(0);
const Process = z.object({ pid: z.int(), command: z.string() });

/** What a shim may report; anything else is refused. */
export const OutcomeShape = z
  .object({
    v: z.literal(1),
    ref: z.object({ run: z.string(), task: z.string(), attempt: z.int() }),
    kind: z.enum(["agent", "check"]),
    name: z.string(),
    reason: z.enum(REASONS),
    exit: z.int().nullable(),
    signal: z.string().nullable(),
    started: z.iso.datetime(),
    ended: z.iso.datetime(),
    duration_ms: Count,
    killed_with: z.array(z.string()),
    leftovers: z.array(Process),
    survivors: z.array(Process),
    certain: z.boolean(),
    peak_rss: Count,
    cpu_ms: Count,
    memory_kills: Count.exactOptional(),
    limit_hits: z.array(z.string()).exactOptional(),
    log_bytes: Count,
    log_dropped: Count,
    log_tail: z.string(),
    detail: z.string().exactOptional(),
    sandbox: z.string().exactOptional(),
    limits_missing: z.array(z.string()),
  })
  .refine(({ reason, exit }) => reason !== "exit" || exit !== null);

/** The outcome of exactly this process; undefined when `value` is malformed or of another one. */
export function parseOutcome(
  value: unknown,
  of: Pick<Outcome, "ref" | "kind" | "name">,
): Outcome | undefined {
  const { success, data } = OutcomeShape.safeParse(value);
  if (!success) return undefined;
  const { ref, kind, name } = data;
  const same =
    kind === of.kind &&
    name === of.name &&
    ref.run === of.ref.run &&
    ref.task === of.ref.task &&
    ref.attempt === of.ref.attempt;
  return same ? data : undefined;
}
