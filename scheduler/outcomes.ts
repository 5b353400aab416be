// How a process ended, when its shim is gone and the scheduler did not hear it: from the outbox, from the bus, or made up.
// An outbox is a file that whatever ran under the shim could have written. For an agent that is of no use: what it made
// is proven all the same. The end of a check is the proof, so for a check only what the bus took from the shim counts
// (with the token that nothing under the shim is given); its outbox then gives the log, if it tells of the same end.

import { closeSync, constants, fstatSync, openSync, readFileSync } from "node:fs";
import type { Outcome } from "../schemas/job.ts";
import { LOG_TAIL_BYTES } from "../schemas/limits.ts";
import { parseOutcome } from "../schemas/outcome.ts";
import type { Clock } from "../schemas/ports.ts";
import type { ProcRecord, Task } from "../schemas/task.ts";
import type { PidFile } from "./liveness.ts";

type Process = Pick<Outcome, "ref" | "kind" | "name">;

/** The end of a log, each byte of it escaped. */
const MAX_OUTBOX_BYTES = 6 * LOG_TAIL_BYTES + 1024 * 1024;

/** The outcome that a shim left on disk; undefined when there is none that can be read and is of this process. */
export function readOutbox(path: string, of: Process): Outcome | undefined {
  let fd: number | undefined;
  try {
    // A FIFO or a link in its place must not hold us up or lead elsewhere.
    fd = openSync(path, constants.O_RDONLY | constants.O_NOFOLLOW | constants.O_NONBLOCK);
    const stat = fstatSync(fd);
    if (!stat.isFile() || stat.size > MAX_OUTBOX_BYTES) return undefined;
    return parseOutcome(JSON.parse(readFileSync(fd, "utf8")), of);
  } catch {
    return undefined;
  } finally {
    if (fd !== undefined) closeSync(fd);
  }
}

/**
 * What the bus heard from exactly this shim. Checks that bear one name (their directory lies where they can write) are
 * told apart by the shim's identity, which the shim said itself; one that could not read its start time has its number.
 */
export function heardFrom(task: Task, of: Process, shim: PidFile): ProcRecord | undefined {
  const { procs } = task.attempts.find(({ attempt }) => attempt === of.ref.attempt) ?? {};
  return procs?.findLast(
    ({ kind, name, pid, start_time }) =>
      kind === of.kind &&
      name === of.name &&
      pid === shim.pid &&
      (start_time === shim.start_time || !(Number(start_time.split(":")[1]) > 0)),
  );
}

/** The outcome as the bus has it. `left`: what the outbox says. */
export function reported(of: Process, ended: NonNullable<ProcRecord["ended"]>, left?: Outcome): Outcome {
  const isSame =
    left?.reason === ended.reason &&
    left.exit === ended.exit &&
    left.signal === ended.signal &&
    left.started === ended.started &&
    left.ended === ended.ended;
  if (isSame) return left;
  const duration_ms = Math.max(0, Date.parse(ended.ended) - Date.parse(ended.started));
  return { ...BLANK, ...identityIn(of), ...ended, duration_ms };
}

/** An outcome for a process that nobody reported about. */
export function madeUp(of: Process, reason: Outcome["reason"], detail: string, clock: Clock): Outcome {
  const now = new Date(clock.now()).toISOString();
  return { ...BLANK, ...identityIn(of), reason, started: now, ended: now, detail };
}

function identityIn({ ref, kind, name }: Process): Process {
  return { ref, kind, name };
}

const BLANK = {
  v: 1,
  exit: null,
  signal: null,
  duration_ms: 0,
  killed_with: [],
  leftovers: [],
  survivors: [],
  certain: false,
  peak_rss: 0,
  cpu_ms: 0,
  log_bytes: 0,
  log_dropped: 0,
  log_tail: "",
  limits_missing: [],
} as const satisfies Partial<Outcome>;
