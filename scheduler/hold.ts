// The work of an attempt whose agent has ended is held, not lost, while it cannot be written down: our disk is full or
// read-only, or the object store of the repository is. Nobody has to start anything again when that is mended.
//
// 1. A step fails by an error that such a disk gives, or by git, which says it in words of its own.
// 2. The places that we write to are looked at: facts decide. When they can be written, the step is simply done again, a
//    few times; then the error is what it is.
// 3. Else it is said once, with the place and what to do, in the log and to the bus, which shows it to people (`held` in the
//    task's state); and looked at until it can be written. Then the bus is told that it goes on, and the step is done
//    again. Cancelling, or the end of the scheduler, ends the wait; the next scheduler takes back what this one had told.

import { constants } from "node:fs";
import { access, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { setTimeout as delay } from "node:timers/promises";
import { withScratch } from "../bus/git/scratch.ts";
import { isCode } from "../schemas/errors.ts";
import { faultPoint } from "../schemas/fault-points.ts";
import type { Control } from "./control.ts";
import type { Attempt, Kit } from "./kit.ts";
import { whileAway } from "./settle.ts";
import { DISK_GONE_BYTES, lookAtMachine } from "./trouble.ts";

const LOOK_MS = 1_000;
/** Repeats although everything can be written: it came back in between, or another bound is met (EFBIG, a quota). */
const MAX_REPEATS = 3;
/** The least that is worth going on with: an index, a few objects. */
const PROBE_BYTES = 64 * 1024;
const UNWRITABLE = new Set(["ENOSPC", "EDQUOT", "EROFS", "EFBIG", "EACCES", "EPERM"]);

type Places = Pick<Kit, "stateDir"> & { control: Pick<Control, "gitDir" | "objectDir"> };
type Holder = Places & Pick<Kit, "log" | "bus" | "mirror">;
type Waiting = Pick<Attempt, "ref" | "abort">;

/** Does `deed`, and again as long as what it needs cannot be written. */
export async function whileUnwritable<T>(kit: Holder, attempt: Waiting, deed: () => Promise<T>): Promise<T> {
  const { signal } = attempt.abort;
  await letGoOn(kit, attempt);
  for (let repeats = 0; ; ) {
    try {
      return await deed();
    } catch (error) {
      if (signal.aborted || !mayBeTheDisk(error)) throw error;
      if (await waitedForRoom(kit, attempt)) continue;
      if (++repeats > MAX_REPEATS) throw error;
      await delay(LOOK_MS, undefined, { signal });
    }
  }
}

/** False: all that we write to can be written. Else fulfilled once it can; rejects when the attempt is stopped. */
export async function waitedForRoom(kit: Holder, attempt: Waiting): Promise<boolean> {
  const { ref, abort } = attempt;
  const why = await unwritable(kit);
  if (why === undefined) return false;
  kit.log.error("an attempt waits until its work can be written down", { ...ref, why });
  let told = false;
  do {
    // Where the state lies on that disk the bus cannot take it, and says so itself.
    told ||= await tell(kit, ref, why).catch(() => false);
    await delay(LOOK_MS, undefined, { signal: abort.signal });
  } while ((await unwritable(kit)) !== undefined);
  kit.log.info("its work can be written down again", { ...ref });
  if (told) await whileAway(kit, attempt, () => tell(kit, ref, null));
  return true;
}

/** Work that an earlier scheduler held goes on. */
export async function letGoOn(kit: Pick<Kit, "bus" | "mirror" | "log">, attempt: Waiting): Promise<void> {
  const { ref } = attempt;
  const state = kit.mirror.task(ref.run, ref.task)?.state;
  if (state?.name !== "running" && state?.name !== "passed") return;
  if (state.held && state.attempt === ref.attempt) await whileAway(kit, attempt, () => tell(kit, ref, null));
}

/** True: the bus knows it, or knows that the attempt is over. */
async function tell({ bus }: Pick<Kit, "bus">, ref: Attempt["ref"], why: string | null): Promise<boolean> {
  try {
    faultPoint("scheduler.hold.before-tell");
    await bus.call("hold_attempt", { ...ref, why });
  } catch (error) {
    if (!isCode(error, "FENCED", "ILLEGAL_MOVE", "NO_SUCH_TASK", "NO_SUCH_RUN")) throw error;
  }
  return true;
}

function mayBeTheDisk(error: unknown): boolean {
  for (let at: unknown = error; at instanceof Error; at = at.cause)
    if (isCode(at, "GIT_FAILED") || UNWRITABLE.has((at as NodeJS.ErrnoException).code ?? "")) return true;
  return false;
}

/** What cannot be written, why, and what to do; undefined when all can be. */
async function unwritable({ control, stateDir }: Places): Promise<string | undefined> {
  for (const dir of [stateDir, control.objectDir]) {
    const { free, inodes } = await lookAtMachine(dir);
    if (free < DISK_GONE_BYTES) return `the disk of ${dir} is full: make room there`;
    if (inodes === 0) return `the disk of ${dir} has no inode left: remove files there`;
  }
  try {
    await withScratch(control.gitDir, async (scratch) => {
      faultPoint("scheduler.hold.before-probe");
      await writeFile(join(scratch, "probe"), Buffer.alloc(PROBE_BYTES));
    });
  } catch (error) {
    return cannot(stateDir, error);
  }
  try {
    await access(control.objectDir, constants.W_OK);
  } catch (error) {
    return cannot(control.objectDir, error);
  }
  return undefined;
}

function cannot(dir: string, error: unknown): string {
  const { code } = error as NodeJS.ErrnoException;
  return `${dir} cannot be written (${code ?? String(error)}): make it writable, or make room there`;
}
