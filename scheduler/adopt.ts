// At the start: what an earlier scheduler left behind (design section 8).
//
// 1. Whatever runs below our state directory and is not of a running attempt is ended: checks of the earlier one, whose
//    results would reach nobody (they are run again), and agents of attempts that are over. Shims are asked first.
// 2. The earlier one's clean places are removed.
// 3. Each running attempt of ours is taken over. Its shim lives: its end is waited for, also when it is so young that
//    it has not registered yet. Its shim has ended: the outbox says how. Shim gone without outbox: what it left is
//    ended, the attempt is lost (innocent), its work is kept. Whether the shim lives cannot be known: waited for,
//    neither killed nor freed, until the lease ends.
// 4. No shim was started yet: lost; the bus tries again.

import { existsSync, readdirSync } from "node:fs";
import { join } from "node:path";
import { setTimeout as delay } from "node:timers/promises";
import { faultPoint } from "../schemas/fault-points.ts";
import type { Task } from "../schemas/task.ts";
import { claimFile, FILES } from "./dirs.ts";
import { readClaimNote, removeTree } from "./edges.ts";
import { sweepGroups } from "./groups.ts";
import type { Attempt, Kit } from "./kit.ts";
import { identityOf, liveness, type PidFile, readPidFile } from "./liveness.ts";
import { DIR_VARIABLE, endStrays, environmentOf, pids, SHIM_VARIABLE } from "./strays.ts";
import { openWorkspace, type Workspace } from "./workspace.ts";

export type Adopted =
  | { kind: "watch"; attempt: Attempt; workspace: Workspace; shim: PidFile | undefined }
  /** `innocent`: no agent had been started. */
  | { kind: "lost"; attempt: Attempt; why: string; innocent: boolean };

/** Shims that live, by the directory of their job. */
export type LivingShims = ReadonlyMap<string, PidFile>;

/** What to do with a running attempt of ours. */
export function adopt(kit: Kit, task: Task, living: LivingShims): Adopted | undefined {
  const { state } = task;
  if (state.name !== "running" || state.worker !== kit.worker) return undefined;
  const dir = state.workspace;
  const tokens = readClaimNote(claimFile(kit.stateDir, dir));
  const attempt: Attempt = {
    ref: { run: task.run, task: task.spec.id, attempt: state.attempt },
    dir,
    base: state.base,
    tokens: tokens ?? { shim: "", agent: "" },
    abort: new AbortController(),
  };
  const lost = (why: string, innocent: boolean): Adopted => ({ kind: "lost", attempt, why, innocent });
  const shim = registered(task) ?? living.get(dir);
  // The note lies where an agent can remove it.
  if (!tokens) return lost("the scheduler ended right after the claim", shim === undefined);
  if (!shim && readPidFile(join(dir, FILES.pid)) === "none" && !existsSync(join(dir, FILES.outbox)))
    return lost("the scheduler ended before the agent was started", true);
  try {
    return { kind: "watch", attempt, workspace: openWorkspace(kit.control, dir), shim };
  } catch (error) {
    return lost(`the workspace cannot be opened: ${String(error)}`, false);
  }
}

/** The agent's shim, as it told the bus before it started anything. */
function registered(task: Task): PidFile | undefined {
  const proc = task.attempts.at(-1)?.procs?.findLast(({ kind, pid }) => kind === "agent" && pid > 1);
  return proc && { pid: proc.pid, start_time: proc.start_time };
}

/** Steps 1 and 2. Gives the shims of running attempts. */
export async function clearRest(kit: Kit): Promise<LivingShims> {
  const running = new Set(runningDirs(kit));
  const { shims, dirs } = whatRuns(kit.stateDir);
  const rest = [...shims].filter(([dir]) => !running.has(dir)).flatMap(([, list]) => list);
  await endShims(rest, kit.config.kill_grace_ms);
  const over = [...dirs].filter((dir) => !running.has(dir));
  const places = gateDirs(kit);
  if (over.length > 0) {
    const { survivors } = await endStrays({ dirs: [...over, ...places] }, kit.config.kill_grace_ms);
    if (survivors.length > 0) kit.log.error("processes could not be ended", { survivors });
  }
  await sweepGroups(
    kit.limitHost.groups,
    kit.stateDir,
    [...running].map((dir) => ({ dir, name: "agent" })),
  );
  for (const dir of places)
    await removeTree(dir).catch((error) => kit.log.warn("a clean place was left", { error: String(error) }));
  return new Map([...shims].flatMap(([dir, [shim]]) => (running.has(dir) && shim ? [[dir, shim]] : [])));
}

async function endShims(shims: readonly PidFile[], graceMs: number): Promise<void> {
  for (const shim of shims) for (const name of ["SIGTERM", "SIGCONT"] as const) signal(shim, name);
  const limit = performance.now() + graceMs + CLEAR_SLACK_MS;
  while (shims.some((shim) => liveness(shim) === "alive") && performance.now() < limit)
    await delay(LOOK_EVERY_MS);
  for (const shim of shims) if (liveness(shim) === "alive") signal(shim, "SIGKILL");
}

const LOOK_EVERY_MS = 20;
const CLEAR_SLACK_MS = 5_000;

function signal(shim: PidFile, name: NodeJS.Signals): void {
  try {
    faultPoint("scheduler.adopt.before-signal-check");
    process.kill(shim.pid, name);
  } catch {
    // ESRCH: ended by itself
  }
}

/** Living processes with a directory below `stateDir` in their environment. */
function whatRuns(stateDir: string): { shims: Map<string, PidFile[]>; dirs: Set<string> } {
  const shims = new Map<string, PidFile[]>();
  const dirs = new Set<string>();
  for (const pid of pids()) {
    for (const entry of environmentOf(pid)) {
      const [name = "", dir = ""] = entry.split("=", 2);
      if ((name !== DIR_VARIABLE && name !== SHIM_VARIABLE) || !dir.startsWith(`${stateDir}/`)) continue;
      const shim = name === SHIM_VARIABLE ? identityOf(pid) : undefined;
      if (shim) shims.set(dir, [...(shims.get(dir) ?? []), shim]);
      else dirs.add(dir);
    }
  }
  return { shims, dirs };
}

/** Of whoever works on them: what is of another worker is not ours to end. */
function* runningDirs(kit: Kit): Iterable<string> {
  for (const { tasks, underway } of kit.mirror.runs.values())
    for (const id of underway) {
      const state = tasks.get(id)?.state;
      if (state?.name === "running") yield state.workspace;
    }
}

function gateDirs(kit: Kit): string[] {
  const top = join(kit.stateDir, "gate");
  return names(top).map((name) => join(top, name));
}

function names(dir: string): string[] {
  try {
    return readdirSync(dir);
  } catch {
    return [];
  }
}
