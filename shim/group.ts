// The control groups of one process and of all that it starts: what no fork, no new session and no emptied environment
// gets out of. The scheduler says where they lie (scheduler/groups.ts); nothing of what is written here is guessed.
//
// 1. Made before the process is started, with their limits set; what cannot be set is told, and the process runs without.
// 2. The process enters them itself, before it becomes the program (launch.ts): nothing of it is ever outside.
// 3. The end: `kill` ends all at once, also a tree that forks faster than anybody can signal; then they are removed.
//
// Version 1 of the interface has no file that kills: no further process may be made then (pids.max 0), and the signals of
// the caller find everybody.

import { existsSync, mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { basename, join } from "node:path";
import { groupMembers, removeGroup } from "../bus/client/group-files.ts";
import { faultPoint } from "../schemas/fault-points.ts";
import type { JobGroups, LaunchPlan } from "../schemas/job.ts";

/** What the kernel counted. */
export interface GroupFacts {
  /** Processes killed at the limit of memory. */
  memoryKills?: number;
  /** Whether a process could not be made for the limit of their number. */
  pidsHit?: boolean;
  /** Bytes. */
  memoryPeak?: number;
}

/** The kernel keeps a group for some moments after the last process is dead. */
const REMOVE_TRIES = 20;

export class Group {
  readonly #at: JobGroups;
  readonly #dirs: string[];

  private constructor(at: JobGroups) {
    this.#at = at;
    this.#dirs = dirsOf(at);
  }

  /** Undefined when none can be made; what is asked for and cannot be had is added to `missing`. */
  static make(at: JobGroups | undefined, writes: LaunchPlan["writes"], missing: string[]): Group | undefined {
    if (!at) return undefined;
    const group = new Group(onlyFor(at, writes));
    try {
      for (const dir of group.#dirs) {
        faultPoint("shim.group.before-make");
        mkdirSync(dir, { recursive: true });
      }
    } catch (error) {
      const asked = writes.flatMap((write) => write.asked ?? []);
      missing.push([`control group: ${(error as Error).message}`, ...asked].join("; so not held: "));
      return undefined;
    }
    for (const write of writes) group.#limit(write, missing);
    return group;
  }

  #limit({ in: feature, file, value, asked }: LaunchPlan["writes"][number], missing: string[]): void {
    const { dir } = this.#at[feature] ?? this.#at.all;
    try {
      faultPoint("shim.group.before-limit");
      writeFileSync(join(dir, file), value);
    } catch (error) {
      if (asked !== undefined) missing.push(`${asked}: ${(error as Error).message}`);
    }
  }

  /** Files through which a process enters, by writing 0 into them. */
  get doors(): string[] {
    return this.#dirs.map((dir) => join(dir, "cgroup.procs"));
  }

  /** All that live in it, as far as it has not been emptied. */
  pids(): number[] {
    return groupMembers(this.#at.all.dir);
  }

  /** Nobody who lives is left; a group that somebody removed held nobody. Dead ones that nobody has waited for do not count. */
  isEmpty(): boolean {
    const { v, dir } = this.#at.all;
    if (!existsSync(dir)) return true;
    if (v === 1) return groupMembers(dir).length === 0;
    return /^populated 0$/m.test(read(join(dir, "cgroup.events")) ?? "");
  }

  kill(): void {
    const { v, dir } = this.#at.all;
    try {
      const [file, value] = v === 2 ? ["cgroup.kill", "1"] : ["pids.max", "0"];
      faultPoint("shim.group.before-kill");
      writeFileSync(join(dir, file), value);
    } catch {
      // an older kernel: the signals of the caller remain
    }
  }

  facts(): GroupFacts {
    const { memory, pids } = this.#at;
    const facts: GroupFacts = {};
    if (memory) {
      const v1 = memory.v === 1;
      const kills = field(memory.dir, v1 ? "memory.oom_control" : "memory.events", "oom_kill");
      const peak = Number(read(join(memory.dir, v1 ? "memory.max_usage_in_bytes" : "memory.peak")));
      if (kills !== undefined) facts.memoryKills = kills;
      if (peak > 0) facts.memoryPeak = peak;
    }
    if (pids) facts.pidsHit = (field(pids.dir, "pids.events", "max") ?? 0) > 0;
    return facts;
  }

  /** Of all that are and were in it, in ms; undefined where this group does not count it. */
  cpuMs(): number | undefined {
    const { v, dir } = this.#at.all;
    if (v === 1) return undefined;
    const used = field(dir, "cpu.stat", "usage_usec");
    return used === undefined ? undefined : Math.round(used / 1000);
  }

  /** Names of its directories, as the kernel's log has them. */
  get names(): string[] {
    return this.#dirs.map((dir) => basename(dir));
  }

  /** Removes it; one that still holds somebody stays, for the scheduler to find. */
  async remove(): Promise<void> {
    for (const dir of this.#dirs)
      for (let tries = 0; tries < REMOVE_TRIES && !removeGroup(dir); tries += 1)
        await new Promise((resolve) => setTimeout(resolve, 2 ** Math.min(tries, 5)));
  }
}

function dirsOf(at: JobGroups): string[] {
  return [...new Set(Object.values(at).map(({ dir }) => dir))];
}

/** A group is made for a limit that is asked for, not for one that could be. */
function onlyFor(at: JobGroups, writes: LaunchPlan["writes"]): JobGroups {
  const result: JobGroups = { all: at.all };
  for (const { in: feature } of writes) {
    const place = at[feature];
    if (place) result[feature] = place;
  }
  return result;
}

function field(dir: string, file: string, name: string): number | undefined {
  const found = new RegExp(`^${name} (\\d+)$`, "m").exec(read(join(dir, file)) ?? "")?.[1];
  return found === undefined ? undefined : Number(found);
}

function read(path: string): string | undefined {
  try {
    return readFileSync(path, "utf8");
  } catch {
    return undefined;
  }
}
