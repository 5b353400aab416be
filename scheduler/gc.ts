// W9: idle workspaces are archived and removed. Called by the slow tick, and by `busctl gc` through gc-program.ts.
//
// 1. A candidate is a directory that an attempt of a known task names. What nobody names is never touched.
// 2. In use: the task runs or waits to land by this attempt, or a process of it lives, or that cannot be known.
// 3. Captured: snapshot.ts has noted that the attempt's work was kept, and what could not be.
// 4. Idle since the end of its agent, by the wall clock: one that jumps ahead archives early (nothing is lost by that), one
//    that is set back archives late. archive.ts decides (`archivable`) and does it; the reason of a "no" is told.
// 5. What is cheap is asked first. Processes are looked at once per collection, and only when something is to go;
//    between attempts the loop is let go.

import { existsSync, mkdirSync, readFileSync, statSync, utimesSync } from "node:fs";
import { rm } from "node:fs/promises";
import { basename, join } from "node:path";
import { setImmediate as turn } from "node:timers/promises";
import { faultPoint } from "../schemas/fault-points.ts";
import type { AttemptRecord, Task } from "../schemas/task.ts";
import { archivable, archive, type StayKind } from "./archive.ts";
import type { Control } from "./control.ts";
import { claimFile, FILES } from "./dirs.ts";
import type { Kit } from "./kit.ts";
import { liveness, readPidFile } from "./liveness.ts";
import { markedDirs } from "./marks.ts";
import { CAPTURED_FILE, type CapturedNote } from "./snapshot.ts";
import { openWorkspace, type Workspace } from "./workspace.ts";

/** A file system's clock may run a little behind ours, or before it. */
const CLOCKS_DIFFER_MS = 2_000;

export interface GcOrder {
  control: Control;
  stateDir: string;
  tasks: Iterable<Task>;
  idleMs: number;
  now: number;
  /** Only say what would be done. */
  dry: boolean;
  /** Directories with a living process; asked once at most. */
  marked?: () => Promise<ReadonlySet<string>>;
}

export interface GcAnswer {
  archived: { workspace: string; run: string; task: string; archive: string }[];
  kept: { workspace: string; run: string; task: string; kind: StayKind; why: string }[];
}

export async function collect(order: GcOrder): Promise<GcAnswer> {
  const answer: GcAnswer = { archived: [], kept: [] };
  let known: Promise<ReadonlySet<string>> | undefined;
  const marked = () => {
    known ??= (order.marked ?? markedDirs)();
    return known;
  };
  for (const task of order.tasks)
    for (const record of task.attempts) {
      const { workspace } = record;
      await turn();
      if (!existsSync(workspace)) continue;
      const stays = await collectOne({ ...order, marked }, task, record);
      const named = { workspace, run: task.run, task: task.spec.id };
      if (stays) answer.kept.push({ ...named, ...stays });
      else answer.archived.push({ ...named, archive: archivePlace(order.stateDir, task.run, workspace) });
    }
  return answer;
}

/** Why it stays, or undefined when it is gone (or would be). */
async function collectOne(
  order: Required<GcOrder>,
  task: Task,
  { attempt, workspace: dir, base }: AttemptRecord,
): Promise<{ kind: StayKind; why: string } | undefined> {
  const note = capturedNote(dir);
  const decision = archivable({
    inUse: isInUse(task, attempt),
    captured: note !== undefined || !existsSync(join(dir, "work")),
    harvestProblems: note?.problems ?? [],
    lastUsed: lastUsed(dir, order),
    now: order.now,
    idleMs: order.idleMs,
  });
  if (!decision.archive) return { kind: decision.kind, why: decision.why };
  if (await mayBeAlive(dir, order.marked)) return { kind: "in_use", why: "in use" };
  if (order.dry) return undefined;
  try {
    const to = archivePlace(order.stateDir, task.run, dir);
    faultPoint("scheduler.gc.before-make-archive");
    mkdirSync(join(to, ".."), { recursive: true, mode: 0o700 });
    await archive({
      control: order.control,
      workspace: workspaceAt(order.control, dir),
      base,
      to,
      merged: isMergedBy(task, attempt),
    });
    faultPoint("scheduler.gc.before-remove-claim");
    await rm(claimFile(order.stateDir, dir), { force: true });
    return undefined;
  } catch (error) {
    return { kind: "failed", why: error instanceof Error ? error.message : String(error) };
  }
}

export function archivePlace(stateDir: string, run: string, workspace: string): string {
  return join(stateDir, "archive", run, basename(workspace));
}

function isInUse({ state }: Task, attempt: number): boolean {
  if (state.name === "running" && state.attempt === attempt) return true;
  if (state.name === "passed" && state.attempt === attempt && state.merged === null) return true;
  return state.name === "blocked" && state.needs.kind === "review";
}

async function mayBeAlive(dir: string, marked: () => Promise<ReadonlySet<string>>): Promise<boolean> {
  const shim = readPidFile(join(dir, FILES.pid));
  if (shim === "unknown" || (shim !== "none" && liveness(shim) !== "dead")) return true;
  return (await marked()).has(dir);
}

function isMergedBy({ state }: Task, attempt: number): boolean {
  return state.name === "passed" && state.attempt === attempt && state.merged !== null;
}

function capturedNote(dir: string): CapturedNote | undefined {
  try {
    const note = JSON.parse(readFileSync(join(dir, CAPTURED_FILE), "utf8")) as CapturedNote;
    return note.v === 1 && Array.isArray(note.problems) ? note : undefined;
  } catch {
    return undefined;
  }
}

/** Milliseconds since 1970, not later than now. A time of a clock that was ahead would keep it for ever: it counts anew. */
function lastUsed(dir: string, { now, dry }: Pick<GcOrder, "now" | "dry">): number {
  for (const name of [FILES.done, CAPTURED_FILE, "."]) {
    const path = join(dir, name);
    const at = statSync(path, { throwIfNoEntry: false })?.mtimeMs;
    if (at === undefined) continue;
    if (at - now > CLOCKS_DIFFER_MS && !dry) {
      faultPoint("scheduler.gc.before-set-time");
      utimesSync(path, now / 1000, now / 1000);
    }
    return Math.min(at, now);
  }
  return now;
}

/** A directory whose facts are gone is archived as what stands in it. */
function workspaceAt(control: Control, dir: string): Workspace {
  try {
    return openWorkspace(control, dir);
  } catch {
    const [work, index] = [join(dir, "work"), join(dir, "index")];
    return { dir, work, index, sparse: false, paths: [], submodules: [] };
  }
}

/** A look at a thousand directories takes a moment; idle times are hours. */
const COLLECT_EVERY_MS = 60_000;

/** For the slow tick. */
export function housekeeper(kit: Kit): () => Promise<void> {
  let next = kit.clock.monotonic() + COLLECT_EVERY_MS;
  return async () => {
    if (kit.clock.monotonic() < next) return;
    next = kit.clock.monotonic() + COLLECT_EVERY_MS;
    const { control, stateDir, clock, config } = kit;
    const tasks = [...kit.mirror.runs.values()].flatMap((at) => [...at.tasks.values()]);
    const idleMs = config.gc_idle_s * 1000;
    const { archived } = await collect({ control, stateDir, tasks, idleMs, now: clock.now(), dry: false });
    for (const { workspace, archive: to } of archived) kit.log.info("workspace archived", { workspace, to });
  };
}
