// How a process ends. One place, first reason wins:
//
// 1. Running: whoever is first says why it ends: its own exit, or `stop` (timeout, cancel, lost).
// 2. After `stop`: TERM (and CONT, so that a stopped process can act on it) to the group and to all that belong,
//    then the grace time, or less when nobody is left.
// 3. KILL to all that are left, by their control group where there is one, again and again, until nobody is left or
//    KILL_SETTLE_MS have passed.
// 4. After an exit of its own: whoever it left behind is ended the same way, with a short grace, and listed. In a sandbox
//    nobody is left: the kernel ends all in it.
// 5. Whoever is still alive then is listed as a survivor; nothing is passed over.
//
// No signal goes to a pid below 2, to a number that another process has by now (its start time is compared), or
// to a group of which no member was seen in the same pass. ESRCH and EPERM end quietly.

import { faultPoint } from "../schemas/fault-points.ts";
import type { EndReason } from "../schemas/job.ts";
import { KILL_SETTLE_MS, LEFTOVER_GRACE_MS } from "../schemas/limits.ts";
import type { Clock } from "../schemas/ports.ts";
import { commandOf, type Exit, type Proc } from "./proc.ts";
import { isAlive, type Tree } from "./tree.ts";

/** Between two looks whether all are gone. */
const LOOK_FIRST_MS = 5;
const LOOK_MAX_MS = 50;
/** A fork bomb must not become a report of megabytes. */
const MAX_LISTED = 200;

export interface Named {
  pid: number;
  command: string;
}

export interface Ending {
  reason: EndReason;
  exit: number | null;
  signal: string | null;
  killed_with: string[];
  leftovers: Named[];
  survivors: Named[];
  /** Proven that nobody is left. */
  certain: boolean;
  detail?: string;
}

export class Supervision {
  readonly #tree: Tree;
  readonly #graceMs: number;
  readonly #clock: Clock;
  readonly #killedWith: string[] = [];
  readonly #leftovers = new Map<number, Named>();
  #reason: EndReason | undefined;
  #detail: string | undefined;
  #exit: Exit | undefined;
  #wake: () => void = () => {};
  readonly #woken = new Promise<void>((resolve) => {
    this.#wake = resolve;
  });

  constructor(tree: Tree, graceMs: number, clock: Clock) {
    this.#tree = tree;
    this.#graceMs = graceMs;
    this.#clock = clock;
  }

  /** The process itself has ended. */
  exited(exit: Exit): void {
    this.#exit ??= exit;
    this.#reason ??= exit.signal === null ? "exit" : "signal";
    this.#wake();
  }

  /** Ends the process for `reason`, unless it is ending already. */
  stop(reason: EndReason, detail?: string): void {
    if (this.#reason !== undefined) return;
    this.#reason = reason;
    this.#detail = detail;
    this.#wake();
  }

  get ending(): boolean {
    return this.#reason !== undefined;
  }

  /** Waits for the first reason, then leaves nobody alive. */
  async ended(): Promise<Ending> {
    await this.#woken;
    const grace = this.#exit ? Math.min(this.#graceMs, LEFTOVER_GRACE_MS) : this.#graceMs;
    const survivors = await this.#endAll(grace);
    return {
      reason: this.#reason as EndReason,
      exit: this.#exit?.code ?? null,
      signal: this.#exit?.signal ?? null,
      killed_with: this.#killedWith,
      leftovers: [...this.#leftovers.values()],
      survivors: survivors.slice(0, MAX_LISTED).map((p) => ({ pid: p.pid, command: commandOf(p.pid) })),
      certain: survivors.length === 0 && this.#tree.isProvenEmpty(),
      ...(this.#detail === undefined ? {} : { detail: this.#detail }),
    };
  }

  async #endAll(graceMs: number): Promise<Proc[]> {
    if (this.#exit) await this.#emptySandbox(this.#clock.monotonic() + LEFTOVER_GRACE_MS);
    let left = this.#look();
    if (left.length > 0) {
      this.#killedWith.push("TERM");
      const polite = this.#tree.polite(left);
      this.#send(polite, "SIGTERM");
      this.#send(polite, "SIGCONT");
      left = await this.#waitGone(left, graceMs);
    }
    if (left.length > 0) this.#killedWith.push("KILL");
    const end = this.#clock.monotonic() + KILL_SETTLE_MS;
    while (left.length > 0 && this.#clock.monotonic() < end) {
      this.#tree.killGroup();
      this.#send(left, "SIGKILL");
      left = await this.#waitGone(left, LOOK_MAX_MS);
    }
    await this.#emptyGroup(end);
    await this.#waitForExit(end);
    return left;
  }

  /** What forks faster than a look through /proc is in none of them, but in the group; and the kernel empties it in its time. */
  async #emptyGroup(end: number): Promise<void> {
    while (this.#tree.isGrouped && !this.#tree.isProvenEmpty() && this.#clock.monotonic() < end) {
      for (const pid of this.#tree.members()) this.#note(pid);
      this.#tree.killGroup();
      await sleep(LOOK_FIRST_MS);
    }
  }

  /** All inside are dying with it; the kernel takes a moment. */
  async #emptySandbox(end: number): Promise<void> {
    while (!this.#tree.isSandboxEmpty && this.#clock.monotonic() < end) await sleep(LOOK_FIRST_MS);
  }

  /** Who is alive; those that outlived the process itself are noted. */
  #look(): Proc[] {
    const left = this.#tree.scan();
    if (this.#exit) for (const { pid } of left) this.#note(pid);
    return left;
  }

  #note(pid: number): void {
    if (pid === this.#tree.root.pid || this.#leftovers.size >= MAX_LISTED || this.#leftovers.has(pid)) return;
    this.#leftovers.set(pid, { pid, command: commandOf(pid) });
  }

  /** Looks at the known ones often, at the whole machine only when these are gone or the time is over. */
  async #waitGone(known: Proc[], ms: number): Promise<Proc[]> {
    const end = this.#clock.monotonic() + ms;
    for (let wait = LOOK_FIRST_MS; ; wait = Math.min(wait * 2, LOOK_MAX_MS)) {
      await sleep(Math.max(1, Math.min(wait, end - this.#clock.monotonic())));
      if (known.some(isAlive) && this.#clock.monotonic() < end) continue;
      known = this.#look();
      if (known.length === 0 || this.#clock.monotonic() >= end) return known;
    }
  }

  #send(procs: Proc[], signal: NodeJS.Signals): void {
    const group = this.#tree.root.pid;
    if (group > 1 && procs.some((p) => p.pgrp === group && isAlive(p))) kill(-group, signal);
    for (const proc of procs)
      if (proc.pid > 1 && proc.pgrp !== group && isAlive(proc)) kill(proc.pid, signal);
  }

  /** The exit event comes a moment after the death. */
  async #waitForExit(end: number): Promise<void> {
    while (!this.#exit && this.#clock.monotonic() < end) await sleep(LOOK_FIRST_MS);
  }
}

function kill(pid: number, signal: NodeJS.Signals): void {
  try {
    faultPoint("shim.end.before-signal");
    process.kill(pid, signal);
  } catch {
    // ESRCH: gone by itself; EPERM: not ours to end, it shows up among the survivors
  }
}

function sleep(ms: number): Promise<void> {
  return new Promise((resolve) => setTimeout(resolve, ms));
}
