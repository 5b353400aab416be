// A gap: records that are known to have been written and are not there any more. The checkpoint or the anchor in the repository
// may be newer than the end of the journal (it was cut off, or restored from a backup), or `busctl repair` took damaged records out.
//
// 1. The start goes on from the newest state that can be proven: the checkpoint, where it is newer, else replay.
// 2. No number is used twice: the journal goes on behind everything that is known to have been given.
// 3. The first record from there on is `journal.gap`. It is sealed like every other and follows the last one that is
//    left, so nobody without the key can make one. `verify` reports it for ever. Where the state came from the
//    checkpoint, the record holds it: a replay of the whole journal goes on to work.
// 4. Attempts of the lost part may still run, and their work is kept under their number: the directories of attempts and
//    their refs in the repository say which numbers were used, and none of them is given again. Looked at in every start:
//    a claim is durable before anything is made for it, so a number that the state does not know is itself proof of a
//    loss, also where neither checkpoint nor anchor saw it (`attempts.passed_over`).

import { join } from "node:path";
import type { GivenUp, JournalRecord } from "../../schemas/events.ts";
import { readAttemptName, readAttemptRef, taskKey } from "../../schemas/ids.ts";
import { nextAttempt } from "../../schemas/next-attempt.ts";
import type { Base } from "./base.ts";
import { bodyOf } from "./chain.ts";
import { type Disk, readWhole } from "./disk.ts";

export interface Missing {
  from: number;
  to: number;
}

const GAP = Buffer.from('"event":{"type":"journal.gap",');

/** The records that this line, number `seq`, says are missing after record `last`; undefined when it says nothing of the kind. */
export function gapOf(line: Buffer, seq: number, last: number): Missing | undefined {
  if (seq <= last + 1 || !line.includes(GAP)) return undefined;
  const { event } = JSON.parse(bodyOf(line)) as JournalRecord;
  if (event?.type !== "journal.gap" || event.from !== last + 1 || event.to !== seq - 1) return undefined;
  return { from: event.from, to: event.to };
}

/** The highest number of an attempt that has a directory or a ref, where that is more than the state knows of. */
export async function usedAttempts(
  disk: Disk,
  runsDir: string,
  base: Base,
  refs: readonly string[] = [],
): Promise<Record<string, number>> {
  const used = new Map<string, number>();
  const note = (run: string, found: { task: string; attempt: number }) => {
    const task = base.task(run, found.task);
    if (!task || found.attempt < nextAttempt(task)) return;
    const key = taskKey(run, found.task);
    used.set(key, Math.max(found.attempt, used.get(key) ?? 0));
  };
  for (const { run } of base.runs()) {
    for (const name of await disk.list(join(runsDir, run))) {
      const found = readAttemptName(name);
      if (found) note(run, found);
    }
  }
  for (const ref of refs) {
    const found = readAttemptRef(ref);
    if (found) note(found.run, found);
  }
  return Object.fromEntries(used);
}

/** What `busctl repair` leaves for the next start: records up to `to` were taken out. */
export interface RepairNote {
  to: number;
  why: string;
  /** The state that is given up with them. */
  former?: GivenUp;
}

export function repairNotePath(dir: string): string {
  return join(dir, "repaired.json");
}

export async function readRepairNote(disk: Disk, dir: string): Promise<RepairNote | undefined> {
  const bytes = await readWhole(disk, repairNotePath(dir));
  if (!bytes) return undefined;
  try {
    const { to, why, former } = JSON.parse(bytes.toString("utf8")) as RepairNote;
    return Number.isSafeInteger(to) && to > 0
      ? { to, why: String(why), ...(former && { former }) }
      : undefined;
  } catch {
    return undefined; // torn: the repair had not begun to cut
  }
}
