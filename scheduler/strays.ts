// Ends what a shim left behind that was itself killed (case 71 restart-mid-run: never two agents of one task at the
// same time): TERM, a grace time, then KILL, until nobody is found. To the attempt or check in directory D belong
//
// 1. every process with BUSBAR_DIR=D in its environment, as it was when the program was started;
// 2. the process that the shim had started, if exactly that one (pid and start time) still leads its session;
// 3. all in a session that one of these leads; or that one of these is in, when its leader is gone and nobody in it is
//    older than all of these (else it may be a person's, with an attempt's variable set by hand);
// 4. all that descend from one of these, and all that were found by an earlier look.
//
// 5. where the host has control groups, all in that of the job: they end last, at once, and the group goes.
//
// Without groups, a process that dropped its environment, left the session and whose parents are gone is not found
// (SECURITY.md says so). No guess is made by working directory or open
// files: a person who looks at a log in D would be ended with it.

import { readdirSync, readFileSync } from "node:fs";
import { setTimeout as delay } from "node:timers/promises";
import { faultPoint } from "../schemas/fault-points.ts";
import type { JobGroups } from "../schemas/job.ts";
import { endGroups } from "./groups.ts";
import { liveness, type PidFile, readStat, type Stat } from "./liveness.ts";

const LOOK_EVERY_MS = 50;
/** After KILL only the kernel is in the way; more time would not help. */
const GIVE_UP_MS = 5_000;

/** The variable that every process of an attempt or check has; its value is used once. */
export const DIR_VARIABLE = "BUSBAR_DIR";
/** The one that a shim has itself: the directory of its job. Its children do not inherit it. */
export const SHIM_VARIABLE = "BUSBAR_SHIM_DIR";

export interface Strays {
  /** Those that lived when it began. */
  found: number[];
  /** Those that could not be ended; empty unless something is wrong. */
  survivors: number[];
}

/** What the processes are known by. */
export interface Quarry {
  /** Directories of attempts or checks. */
  dirs: readonly string[];
  /** What the shim had started, as its pid file says. */
  root?: PidFile | undefined;
  groups?: JobGroups | undefined;
}

export async function endStrays(quarry: Quarry, graceMs: number): Promise<Strays> {
  const started = performance.now();
  const known = new Map<number, number>();
  let left = look(quarry, known);
  const found = left.map(({ pid }) => pid);
  signalAll(left, "SIGTERM");
  signalAll(left, "SIGCONT"); // a stopped one can act on it
  while (left.length > 0 && performance.now() - started < graceMs + GIVE_UP_MS) {
    await delay(LOOK_EVERY_MS);
    if (left.some(isThere) && performance.now() - started < graceMs) continue;
    left = look(quarry, known);
    if (performance.now() - started >= graceMs) signalAll(left, "SIGKILL");
  }
  const grouped = quarry.groups && (await endGroups(quarry.groups));
  const union = (a: number[], b: number[] = []) => [...new Set([...a, ...b])];
  return {
    found: union(found, grouped?.found),
    survivors: union(
      left.map(({ pid }) => pid),
      grouped?.survivors,
    ),
  };
}

/** All that belong; `known` is added to. */
function look({ dirs, root }: Quarry, known: Map<number, number>): Stat[] {
  const entries = new Set(dirs.flatMap((dir) => [`${DIR_VARIABLE}=${dir}`, `${SHIM_VARIABLE}=${dir}`]));
  const all = allProcesses();
  const ours = new Map<number, Stat>();
  const rootLives = root !== undefined && liveness(root) === "alive";
  for (const stat of all.values()) {
    const isRoot = rootLives && stat.pid === root.pid && stat.sid === stat.pid;
    if (isRoot || known.get(stat.pid) === stat.start || carries(stat.pid, entries)) ours.set(stat.pid, stat);
  }
  for (let before = -1; before !== ours.size; ) {
    before = ours.size;
    const sessions = sessionsOf(ours, all);
    for (const stat of all.values())
      if (!ours.has(stat.pid) && (ours.has(stat.ppid) || sessions.has(stat.sid))) ours.set(stat.pid, stat);
  }
  const living = [...ours.values()].filter(({ dead }) => !dead);
  for (const { pid, start } of living) known.set(pid, start);
  return living;
}

/** Sessions that are wholly ours. */
function sessionsOf(ours: ReadonlyMap<number, Stat>, all: ReadonlyMap<number, Stat>): Set<number> {
  const oldest = Math.min(...[...ours.values()].map(({ start }) => start));
  const sessions = new Set([...ours.values()].map(({ sid }) => sid));
  for (const stat of all.values()) {
    if (!sessions.has(stat.sid) || ours.has(stat.pid)) continue;
    if (stat.pid === stat.sid || (!all.has(stat.sid) && stat.start < oldest)) sessions.delete(stat.sid);
  }
  return sessions;
}

function allProcesses(): Map<number, Stat> {
  const all = new Map<number, Stat>();
  for (const pid of pids()) {
    const stat = readStat(pid);
    if (typeof stat === "object") all.set(pid, stat);
  }
  return all;
}

/** Not ourselves, and never init. */
export function pids(): number[] {
  return readdirSync("/proc")
    .map(Number)
    .filter((pid) => pid > 1 && pid !== process.pid);
}

/** The environment that a program was started with; empty when it is gone, or not ours to look at. */
export function environmentOf(pid: number): string[] {
  try {
    return readFileSync(`/proc/${pid}/environ`, "latin1").split("\0");
  } catch {
    return [];
  }
}

function carries(pid: number, entries: ReadonlySet<string>): boolean {
  return environmentOf(pid).some((entry) => entries.has(entry));
}

/** Exactly this process, and it runs. */
function isThere({ pid, start }: Stat): boolean {
  const now = readStat(pid);
  return typeof now === "object" && now.start === start && !now.dead;
}

function signalAll(procs: readonly Stat[], signal: NodeJS.Signals): void {
  for (const proc of procs) {
    if (!isThere(proc)) continue; // ended by itself; its number may be another's
    try {
      faultPoint("scheduler.strays.before-signal");
      process.kill(proc.pid, signal);
    } catch {
      // ESRCH: gone this moment; EPERM: not ours to end, it shows up among the survivors
    }
  }
}
