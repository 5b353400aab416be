// Who belongs to the process of a job. Two ways of asking:
//
// - `sample` (once a second): walks down from what is known by /proc/PID/task/*/children. Costs the tree, not the
//   machine. Everything seen is remembered by pid and start time, so that a child stays known after its parent
//   has died and init has adopted it.
// - `scan` (at the end): one pass over all of /proc. A process belongs when it carries the mark in its
//   environment, is in the session or group of the root, or descends from something known.
//
// Neither is certain: a process that forks away, drops its environment and changes its session between two
// samples is missed. Where the host has control groups, theirs knows everybody: whoever is in it belongs, too, and when
// it is empty nobody is left. What was in a sandbox dies with it (sandbox.ts).

import type { Group } from "./group.ts";
import { childrenOf, commandOf, hasEnvironment, listPids, type Proc, pageBytes, readProc } from "./proc.ts";
import type { Sandbox } from "./sandbox.ts";

export interface Usage {
  /** Bytes resident, summed over the tree. */
  rss: number;
  cpu_ms: number;
  processes: number;
}

export interface Largest {
  pid: number;
  rss: number;
  command: string;
}

export class Tree {
  readonly root: { pid: number; start: number };
  readonly #mark: string;
  readonly #known = new Map<number, number>();
  readonly #pageBytes = pageBytes();
  /** While somebody lives in the group or session of the root, its number cannot be given to others. */
  #groupLives = true;

  readonly #group: Group | undefined;
  readonly #sandbox: Sandbox | undefined;
  #largest: Omit<Largest, "command"> = { pid: 0, rss: 0 };
  #named: Omit<Largest, "rss"> = { pid: 0, command: "" };

  /** `mark` is the whole environment entry, "NAME=value"; `group`: the process is in it; `sandbox`: it is inside that. */
  constructor(rootPid: number, mark: string, group?: Group, sandbox?: Sandbox) {
    this.#group = group;
    this.#sandbox = sandbox;
    this.root = { pid: rootPid, start: readProc(rootPid)?.start ?? 0 };
    this.#mark = mark;
    this.#known.set(rootPid, this.root.start);
  }

  /** What the tree uses now. */
  sample(): Usage {
    const usage: Usage = { rss: 0, cpu_ms: 0, processes: 0 };
    this.#largest = { pid: 0, rss: 0 };
    const queue = [...this.#known.keys()];
    const seen = new Set<number>(queue);
    for (let pid = queue.pop(); pid !== undefined; pid = queue.pop()) {
      const proc = this.#look(pid);
      if (!proc) continue;
      this.#known.set(pid, proc.start);
      if (proc.dead) continue;
      const rss = proc.rssPages * this.#pageBytes;
      usage.rss += rss;
      if (rss > this.#largest.rss) this.#largest = { pid, rss };
      usage.cpu_ms += proc.cpuMs;
      usage.processes += 1;
      for (const child of childrenOf(pid) ?? []) {
        if (seen.has(child)) continue;
        seen.add(child);
        queue.push(child);
      }
    }
    return usage;
  }

  /** Numbers of all that were seen and not yet found gone. */
  known(): Iterable<number> {
    return this.#known.keys();
  }

  /** The process that held most memory when it was last looked, with its command line. */
  largest(): Largest {
    const { pid, rss } = this.#largest;
    if (this.#named.pid !== pid) this.#named = { pid, command: commandOf(pid) };
    return { pid, rss, command: this.#named.command };
  }

  /** CPU time of all that belonged, dead ones too; undefined where no group counts it. */
  groupCpuMs(): number | undefined {
    return this.#group?.cpuMs();
  }

  /** The process under a pid, forgotten when it is gone or another has its number. */
  #look(pid: number): Proc | undefined {
    const proc = readProc(pid);
    const start = this.#known.get(pid);
    if (proc && (start === undefined || start === proc.start)) return proc;
    if (start !== undefined && pid !== this.root.pid) this.#known.delete(pid);
    return undefined;
  }

  /** All that belong and are alive, the root first when it is among them. */
  scan(): Proc[] {
    const all = new Map<number, Proc>();
    for (const pid of listPids()) {
      const proc = pid === process.pid ? undefined : readProc(pid);
      if (proc) all.set(pid, proc);
    }
    const ours = new Map<number, Proc>();
    const grouped = new Set(this.members());
    for (const proc of all.values())
      if (grouped.has(proc.pid) || this.#belongs(proc)) ours.set(proc.pid, proc);
    this.#addDescendants(ours, all);
    this.#groupLives &&= [...ours.values()].some((p) => this.#inGroup(p));
    const alive = [...ours.values()].filter((p) => !p.dead && p.pid > 1);
    for (const proc of alive) this.#known.set(proc.pid, proc.start);
    return alive.sort((a, b) => Number(b.pid === this.root.pid) - Number(a.pid === this.root.pid));
  }

  get isGrouped(): boolean {
    return this.#group !== undefined;
  }

  /** Who lives in its group now. */
  members(): number[] {
    return this.#group?.pids() ?? [];
  }

  /** All of its group die at once; without a group nobody does. */
  killGroup(): void {
    this.#group?.kill();
  }

  /** Whether it is proven that nobody is left. */
  isProvenEmpty(): boolean {
    return this.#group?.isEmpty() ?? this.#sandbox?.isEmpty() ?? false;
  }

  /** Whether all have died that were in a sandbox; also true without one. */
  get isSandboxEmpty(): boolean {
    return this.#sandbox?.isEmpty() ?? true;
  }

  /** Those that a polite signal is for: not the sandbox's own, unless nobody is inside. */
  polite(procs: readonly Proc[]): Proc[] {
    const inside = procs.filter((proc) => !this.#sandbox?.isOwn(proc));
    return inside.length > 0 ? inside : [...procs];
  }

  #belongs(proc: Proc): boolean {
    if (this.#known.get(proc.pid) === proc.start) return true;
    if (proc.start < this.root.start) return false;
    if (this.#groupLives && this.#inGroup(proc)) return true;
    return !proc.dead && hasEnvironment(proc.pid, this.#mark);
  }

  #inGroup(proc: Proc): boolean {
    return proc.pgrp === this.root.pid || proc.sid === this.root.pid;
  }

  #addDescendants(ours: Map<number, Proc>, all: Map<number, Proc>): void {
    for (let grown = true; grown; ) {
      grown = false;
      for (const proc of all.values()) {
        if (ours.has(proc.pid) || !ours.has(proc.ppid)) continue;
        ours.set(proc.pid, proc);
        grown = true;
      }
    }
  }
}

/** True while exactly this process (not another under its number) runs. */
export function isAlive(proc: { pid: number; start: number }): boolean {
  const now = readProc(proc.pid);
  return now !== undefined && !now.dead && now.start === proc.start;
}
