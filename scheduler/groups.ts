// The control groups of jobs: where they are, and what is in them when a shim is gone. The shim makes and removes those of
// its own process (shim/group.ts). Their names are made of the repository's key and of the job's directory, so that
// whoever takes an attempt over finds them without believing a file that its agent could have written.

import { createHash } from "node:crypto";
import { readdirSync, rmdirSync, writeFileSync } from "node:fs";
import { basename, join } from "node:path";
import { setTimeout as delay } from "node:timers/promises";
import { groupMembers, removeGroup } from "../bus/client/group-files.ts";
import { faultPoint } from "../schemas/fault-points.ts";
import type { GroupAt, JobGroups, ShimJob } from "../schemas/job.ts";
import { FEATURES, type GroupHost } from "./group-host.ts";

/** Where a job may have a group. */
const PLACES = ["all", ...FEATURES] as const;

/** The groups of one job; undefined where this host has none. `stateDir` is named after the repository's key. */
export function groupsOf(
  host: GroupHost,
  stateDir: string,
  job: Pick<ShimJob, "dir" | "name">,
): JobGroups | undefined {
  return below(host, groupName(stateDir, job));
}

function below(host: GroupHost, name: string): JobGroups | undefined {
  if (!host.all) return undefined;
  const found = PLACES.flatMap((place) => {
    const at = host[place];
    return at ? [[place, { v: at.v, dir: join(at.dir, name) }]] : [];
  });
  return Object.fromEntries(found) as JobGroups;
}

/** The directories of groups, each once. */
function directoriesOf(groups: GroupHost | JobGroups): string[] {
  return [...new Set(PLACES.flatMap((place) => groups[place]?.dir ?? []))];
}

function groupName(stateDir: string, { dir, name }: Pick<ShimJob, "dir" | "name">): string {
  const hash = createHash("sha256").update(`${dir}\0${name}`).digest("hex").slice(0, 16);
  return `${basename(stateDir)}-${hash}`;
}

const GIVE_UP_MS = 5_000;
const LOOK_EVERY_MS = 10;

/** Ends all in these groups at once, and removes them. Returns those that were there, and those that would not end. */
export async function endGroups(groups: JobGroups): Promise<{ found: number[]; survivors: number[] }> {
  const dirs = directoriesOf(groups);
  const { all } = groups;
  const found = members(all.dir);
  const until = performance.now() + GIVE_UP_MS;
  while (members(all.dir).length > 0 && performance.now() < until) {
    killAll(all);
    await delay(LOOK_EVERY_MS);
  }
  for (const dir of dirs) while (!removeGroup(dir) && performance.now() < until) await delay(LOOK_EVERY_MS);
  return { found, survivors: members(all.dir) };
}

function killAll({ v, dir }: GroupAt): void {
  try {
    const [file, value] = v === 2 ? ["cgroup.kill", "1"] : ["pids.max", "0"];
    faultPoint("scheduler.groups.before-kill");
    writeFileSync(join(dir, file), value);
  } catch {
    // gone, or a kernel without it: signals remain
  }
  for (const pid of members(dir)) {
    try {
      faultPoint("scheduler.groups.before-signal");
      process.kill(pid, "SIGKILL");
    } catch {
      // ESRCH: dead by now
    }
  }
}

/** Nobody's number is given to another while the process is in the group. */
function members(dir: string): number[] {
  return groupMembers(dir).filter((pid) => pid > 1 && pid !== process.pid);
}

/** Ends and removes every group of this repository but those of the jobs in `keep`. Returns how many there were. */
export async function sweepGroups(
  host: GroupHost,
  stateDir: string,
  keep: readonly Pick<ShimJob, "dir" | "name">[],
): Promise<number> {
  const kept = new Set(keep.map((job) => groupName(stateDir, job)));
  const names = new Set<string>();
  for (const base of directoriesOf(host))
    for (const name of directories(base))
      if (name.startsWith(`${basename(stateDir)}-`) && !kept.has(name)) names.add(name);
  for (const name of names) await endGroups(below(host, name) as JobGroups);
  return names.size;
}

function directories(dir: string): string[] {
  try {
    return readdirSync(dir, { withFileTypes: true })
      .filter((entry) => entry.isDirectory())
      .map(({ name }) => name);
  } catch {
    return [];
  }
}

/** Removes our own directories where nobody has anything in them any more. */
export function leaveGroups(host: GroupHost): void {
  for (const dir of directoriesOf(host)) {
    try {
      faultPoint("scheduler.groups.before-leave");
      rmdirSync(dir);
    } catch {
      // others work there, or it is gone
    }
  }
}
