// What a check said about a tree: by a run of its own, or (cached) because a run with the same input said so before.

import { z } from "zod";
import { Id, Oid, Tier } from "./shapes.ts";

/** A hash of all that decides a check (scheduler/verdict-key.ts). */
export const VerdictKey = z.string().regex(/^[0-9a-f]{64}$/);

/** A pass by a run of the check itself: whose, on which tree, when it ended, how long it took. */
export const Earlier = z.strictObject({
  run: Id,
  task: Id,
  attempt: z.int().positive(),
  tree: Oid,
  at: z.string(),
  duration_ms: z.number(),
});
export type Earlier = z.infer<typeof Earlier>;

export const Verdict = z.strictObject({
  check: z.string(),
  tier: z.union([Tier, z.enum(["acceptance", "scope", "canary", "base", "setup"])]),
  /** The tree that the check ran on. */
  tree: Oid,
  verdict: z.enum(["pass", "fail", "infra"]),
  exit: z.int().nullable(),
  duration_ms: z.number(),
  command: z.string(),
  summary: z.string().default(""),
  /** Absent: it stands for this run alone. */
  key: VerdictKey.exactOptional(),
  /** Of one with a key. */
  at: z.string().exactOptional(),
  /** It did not run: this one of the same key stands for it. */
  cached: Earlier.exactOptional(),
  /** It ran although this one of the same key was there, to see whether it still holds. */
  again: Earlier.exactOptional(),
});
export type Verdict = z.infer<typeof Verdict>;
