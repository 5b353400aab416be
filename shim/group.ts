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
import { join } from "node:path";
import { groupMembers, removeGroup } from "../bus/client/group-files.ts";
import { faultPoint } from "../schemas/fault-points.ts";
import type { JobGroups, ShimJob } from "../schemas/job.ts";

type Limits = Pick<ShimJob["limits"], "memory" | "pids">;

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
  static make(at: JobGroups | undefined, limits: Limits, missing: string[]): Group | undefined {
    const wanted = at && without(at, limits);
    try {
      for (const dir of wanted ? dirsOf(wanted) : []) {
        faultPoint("shim.group.before-make");
        mkdirSync(dir, { recursive: true });
      }
    } catch (error) {
      missing.push(`control group: ${(error as Error).message}`);
      return undefined;
    } finally {
      for (const name of ["memory", "pids"] as const)
        if (limits[name] !== undefined && wanted?.[name] === undefined)
          missing.push(`${name}: ${limits[name]} asked, no control group for it here`);
    }
    if (!wanted) return undefined;
    const group = new Group(wanted);
    group.#limit(limits, missing);
    return group;
  }

  #limit(limits: Limits, missing: string[]): void {
    const { memory, pids } = this.#at;
    const set = (name: string, dir: string, file: string, value: number) => {
      try {
        faultPoint("shim.group.before-limit");
        writeFileSync(join(dir, file), String(value));
      } catch (error) {
        if (name !== "") missing.push(`${name}: ${value} asked, ${(error as Error).message}`);
      }
    };
    if (memory && limits.memory !== undefined) {
      const v1 = memory.v === 1;
      set("memory", memory.dir, v1 ? "memory.limit_in_bytes" : "memory.max", limits.memory);
      // Where swap is not counted there is nothing to forbid.
      if (v1) set("", memory.dir, "memory.memsw.limit_in_bytes", limits.memory);
      else set("", memory.dir, "memory.swap.max", 0);
    }
    if (pids && limits.pids !== undefined) set("pids", pids.dir, "pids.max", limits.pids);
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

  /** Removes it; one that still holds somebody stays, for the scheduler to find. */
  async remove(): Promise<void> {
    for (const dir of this.#dirs)
      for (let tries = 0; tries < REMOVE_TRIES && !removeGroup(dir); tries += 1)
        await new Promise((resolve) => setTimeout(resolve, 2 ** Math.min(tries, 5)));
  }
}

function dirsOf(at: JobGroups): string[] {
  return [...new Set([at.all, at.memory, at.pids].flatMap((group) => (group ? [group.dir] : [])))];
}

/** A group is made for a limit that is asked for, not for one that could be. */
function without(at: JobGroups, limits: Limits): JobGroups {
  const { all, memory, pids } = at;
  return {
    all,
    ...(memory && limits.memory !== undefined ? { memory } : {}),
    ...(pids && limits.pids !== undefined ? { pids } : {}),
  };
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
