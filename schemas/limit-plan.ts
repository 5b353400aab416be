// What is asked of limits, and what a host can hold. Pure, for all: the bus refuses what must not start, the scheduler
// plans with it (scheduler/limit-plan.ts), people are told by it.
//
// Of plan, check and configuration the stricter one counts. What no process of this host can be held to is named with the
// reason; with `strict` nothing starts then.

import { z } from "zod";
import { BusbarError } from "./errors.ts";
import type { Limits } from "./limit-spec.ts";
import { limitWords } from "./limit-words.ts";

/** Version of the kernel's control groups that holds something; 0 where none does. */
const Version = z.union([z.literal(0), z.literal(1), z.literal(2)]);

/** What was found at the start of the scheduler, by trying. */
export const LimitFacts = z.strictObject({
  uid: z.int().min(0),
  /** Hard limits that the scheduler itself has; absent: none. */
  hard_nofile: z.int().min(0).exactOptional(),
  hard_nproc: z.int().min(0).exactOptional(),
  /** prlimit(1), which alone can set some. */
  prlimit: z.boolean(),
  /** Number of the disk under the workspaces, `259:2`; absent where it has none of its own. */
  disk: z
    .string()
    .regex(/^\d+:\d+$/)
    .exactOptional(),
  groups: z.strictObject({ kill: Version, memory: Version, pids: Version, cpu: Version, io: Version }),
});
export type LimitFacts = z.infer<typeof LimitFacts>;
export type GroupFeature = "memory" | "pids" | "cpu" | "io";

/** Which control group holds which limit; the others are of one process, or are watched. */
export const HELD_BY_GROUP = {
  memory: "memory",
  pids: "pids",
  cpus: "cpu",
  cpu_weight: "cpu",
  io_read: "io",
  io_write: "io",
} as const satisfies Partial<Record<keyof Limits, GroupFeature>>;

type Bound = Exclude<keyof Limits, "strict">;

/** The smaller of each; strict where one of them is. */
export function stricter(a: Limits, b: Limits): Limits {
  const result: Limits = { ...a };
  for (const [name, value] of Object.entries(b) as [Bound, number][])
    if (typeof value === "number") result[name] = Math.min(value, a[name] ?? value);
  if (a.strict || b.strict) result.strict = true;
  return result;
}

/** What of `limits` cannot be held here, each with the reason: `memory 1 GiB: no control group for it here`. */
export function missingLimits(limits: Limits, facts: LimitFacts): string[] {
  return (Object.entries(limits) as [Bound, number | boolean][]).flatMap(([name, value]) => {
    if (typeof value !== "number") return [];
    const why = whyNot(name, value, facts);
    return why === undefined ? [] : [`${limitWords(name, value)}: ${why}`];
  });
}

function whyNot(name: Bound, value: number, facts: LimitFacts): string | undefined {
  if (name in HELD_BY_GROUP) {
    const feature = HELD_BY_GROUP[name as keyof typeof HELD_BY_GROUP];
    if (facts.groups[feature] === 0) return "no control group for it here";
    if (feature === "io" && facts.disk === undefined) return "the workspaces lie on no disk of their own";
  }
  if (name === "nproc") {
    if (facts.uid === 0) return "root is not held by it";
    if (!facts.prlimit) return "prlimit is not installed";
  }
  const hard = name === "nofile" ? facts.hard_nofile : name === "nproc" ? facts.hard_nproc : undefined;
  if (hard !== undefined && value > hard && facts.uid !== 0) return `the hard limit here is ${hard}`;
  return undefined;
}

/** Throws LIMIT_NOT_HELD when one of `limits` cannot be held and they are strict. `who`: the task or process. */
export function mustHold(limits: Limits, facts: LimitFacts, who: string): void {
  const missing = limits.strict ? missingLimits(limits, facts) : [];
  if (missing.length === 0) return;
  throw new BusbarError(
    "LIMIT_NOT_HELD",
    `${who} is not started: its limits are strict, and this host cannot hold ${missing.join("; ")}`,
    { missing },
  );
}

/** What holds whom, on one line. */
export function inForceLine({ groups, uid, prlimit }: LimitFacts): string {
  const { kill, memory, pids, cpu, io } = groups;
  const by = (v: 0 | 1 | 2, names: readonly string[]) =>
    names.length === 0 ? [] : [`${names.join(", ")} by control group v${v}`];
  const features = Object.entries({ kill, memory, pids, cpu, io });
  const of = (v: number) => features.filter(([, version]) => version === v).map(([name]) => name);
  const none = of(0);
  return [
    ...by(2, of(2)),
    ...by(1, of(1)),
    `files, CPU time, file size${uid !== 0 && prlimit ? ", nproc" : ""} by ulimit`,
    ...(none.length > 0 ? [`not held: ${none.join(", ")}`] : []),
  ].join("; ");
}
