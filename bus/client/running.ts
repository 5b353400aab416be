// What runs for a repository beside the bus, read from the state directory alone, so that it is found when the bus
// was killed. A pid is believed only together with its start time and the boot (case 62 stale-socket).
//
//   scheduler/process.json                      the scheduler, written when it has registered
//   runs/<run>/<attempt>/shim.json              the shim of an agent
//   runs/<run>/<attempt>/checks/*.shim.json     the shims of checks

import { readdirSync, readFileSync, rmSync } from "node:fs";
import { dirname, join } from "node:path";
import { faultPoint } from "../../schemas/fault-points.ts";
import { makePrivateDir, writeDurably } from "../paths.ts";
import { bootId, isSameProcess, ownIdentity, type ProcessIdentity } from "./identity.ts";

export interface RunningShim extends ProcessIdentity {
  /** `run/task#attempt`, as far as the directory's name tells. */
  of: string;
}

function schedulerFile(stateDir: string): string {
  return join(stateDir, "scheduler", "process.json");
}

/** Says that this process is the scheduler. Throws UNSAFE_DIRECTORY, DIRECTORY_UNUSABLE, IO. */
export function writeSchedulerFile(stateDir: string): void {
  const file = schedulerFile(stateDir);
  makeSchedulerDir(stateDir);
  faultPoint("scheduler.identity.before-write");
  writeDurably(file, `${JSON.stringify({ v: 1, ...ownIdentity() })}\n`);
}

/** The directory of the file; before anything is promised. Throws UNSAFE_DIRECTORY, DIRECTORY_UNUSABLE. */
export function makeSchedulerDir(stateDir: string): void {
  makePrivateDir(dirname(schedulerFile(stateDir)), process.getuid?.() ?? 0);
}

/** Takes the file away if it names this process. */
export function removeSchedulerFile(stateDir: string): void {
  const { pid, start_time } = ownIdentity();
  const there = readIdentity(schedulerFile(stateDir));
  if (there?.pid === pid && there.start_time === start_time) {
    faultPoint("scheduler.identity.before-remove");
    rmSync(schedulerFile(stateDir), { force: true });
  }
}

/** The scheduler, if exactly the process that wrote the file still runs. */
export function runningScheduler(stateDir: string): ProcessIdentity | undefined {
  const known = readIdentity(schedulerFile(stateDir));
  return known && isSameProcess(known) ? known : undefined;
}

/** Shims of agents and checks that live. */
export function runningShims(stateDir: string): RunningShim[] {
  const found: RunningShim[] = [];
  const top = join(stateDir, "runs");
  for (const run of names(top)) {
    for (const name of names(join(top, run))) {
      const dir = join(top, run, name);
      const checks = names(join(dir, "checks")).filter((file) => file.endsWith(".shim.json"));
      for (const file of ["shim.json", ...checks.map((check) => join("checks", check))]) {
        const shim = readShim(join(dir, file));
        if (shim && isSameProcess(shim)) found.push({ ...shim, of: labelOf(run, name) });
      }
    }
  }
  return found;
}

/** `20260102T030405Z-<task>-<attempt>-<h6>` to `run/task#attempt`. */
function labelOf(run: string, name: string): string {
  const [, task, attempt] = /^[^-]+-(.+)-(\d+)-[^-]+$/.exec(name) ?? [];
  return task === undefined ? `${run}/${name}` : `${run}/${task}#${attempt}`;
}

/** A shim notes boot, start time and PID namespace in one word, `BOOT:TICKS:NAMESPACE`. */
function readShim(file: string): ProcessIdentity | undefined {
  const known = readFields(file);
  const [boot_id = "", start_time = ""] = known?.start_time.split(":") ?? [];
  return known && { pid: known.pid, start_time, boot_id: boot_id || bootId() };
}

function readIdentity(file: string): ProcessIdentity | undefined {
  const known = readFields(file);
  return known && { pid: known.pid, start_time: known.start_time, boot_id: known.boot_id };
}

function readFields(file: string): ProcessIdentity | undefined {
  try {
    const { pid, start_time, boot_id } = JSON.parse(readFileSync(file, "utf8")) as Partial<ProcessIdentity>;
    // 1 and negative numbers must never reach kill().
    if (!Number.isSafeInteger(pid) || (pid as number) <= 1) return undefined;
    return { pid: pid as number, start_time: String(start_time ?? ""), boot_id: String(boot_id ?? "") };
  } catch {
    return undefined; // not there, or half written
  }
}

function names(dir: string): string[] {
  try {
    return readdirSync(dir);
  } catch {
    return [];
  }
}
