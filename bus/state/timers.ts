// What time alone brings about: a retry is due, a lease runs out, a checkpoint is worth writing. The rules stand in
// decide-settle.ts; here is only who asks when. One timer, set to the earliest thing that may happen.
//
// After a start every lease counts from the start on: the shims could not renew while the bus was away.

import { type AttemptRef, taskKey } from "../../schemas/ids.ts";
import { CHECKPOINT_IDLE_MS, LEASE_MS } from "../../schemas/limits.ts";
import type { Clock, Log, Random } from "../../schemas/ports.ts";
import type { Task } from "../../schemas/task.ts";
import { expireLease, retryDue } from "./decide-settle.ts";
import type { Store } from "./store.ts";

export interface TimerPorts {
  store: Store;
  clock: Clock;
  log: Log;
  random: Random;
  /** setTimeout and clearTimeout, or a test's own. */
  set(fn: () => void, ms: number): unknown;
  clear(handle: unknown): void;
}

type Due = { at: number; ref: AttemptRef; kind: "retry" | "lease" };

/** After a failed write, and as the longest sleep (a clock may be set). */
const AGAIN_MS = 1_000;
const LONGEST_MS = 30_000;

export class StateTimers {
  readonly #due = new Map<string, Due>();
  readonly #graceUntil: number;
  readonly #off: () => void;
  #timer: unknown;
  #wakeAt = Number.POSITIVE_INFINITY;
  #idle: unknown;
  #stopped = false;

  constructor(private readonly ports: TimerPorts) {
    const { store, clock } = ports;
    this.#graceUntil = clock.now() + LEASE_MS;
    for (const run of store.view.runs()) for (const task of store.view.tasks(run.run)) this.#note(task);
    this.#off = store.onRecord(({ kind, run, task }) => {
      if (kind !== "event") return;
      const found = run !== undefined && task !== undefined && store.view.task(run, task);
      if (found) this.#note(found);
      this.#checkpoint();
    });
    if (store.eventsSinceCheckpoint > 0) this.#checkpoint();
  }

  stop(): void {
    this.#stopped = true;
    this.#off();
    this.ports.clear(this.#timer);
    this.ports.clear(this.#idle);
  }

  #note(task: Task): void {
    const key = taskKey(task.run, task.spec.id);
    const due = this.#dueOf(task);
    if (!due) {
      this.#due.delete(key);
      return;
    }
    this.#due.set(key, due);
    if (due.at < this.#wakeAt) this.#sleepUntil(due.at);
  }

  #dueOf(task: Task): Due | undefined {
    const { state } = task;
    const ref = { run: task.run, task: task.spec.id, attempt: task.attempts.at(-1)?.attempt ?? 0 };
    if (state.name === "retrying") return { at: Date.parse(state.not_before), ref, kind: "retry" };
    if (state.name !== "running") return undefined;
    return { at: Math.max(Date.parse(state.lease_until), this.#graceUntil), ref, kind: "lease" };
  }

  #sleepUntil(at: number): void {
    const { clock, set, clear } = this.ports;
    clear(this.#timer);
    this.#wakeAt = at;
    const ms = Math.min(Math.max(0, at - clock.now()), LONGEST_MS);
    this.#timer = set(() => void this.#wake(), ms);
  }

  async #wake(): Promise<void> {
    const { clock, log } = this.ports;
    const now = clock.now();
    const ripe = [...this.#due.values()].filter((due) => due.at <= now);
    this.#wakeAt = Number.POSITIVE_INFINITY;
    const ends = await Promise.allSettled(ripe.map((due) => this.#happen(due)));
    for (const [i, end] of ends.entries()) {
      if (end.status === "rejected")
        log.warn("what was due will be tried again", { why: String(end.reason) });
      else this.#forget(ripe[i]!); // it happened, or an event of the task will note it anew
    }
    this.#next(ends.some((end) => end.status === "rejected"));
  }

  #forget(due: Due): void {
    const key = taskKey(due.ref.run, due.ref.task);
    if (this.#due.get(key) === due) this.#due.delete(key);
  }

  #next(failed: boolean): void {
    if (this.#stopped || this.#due.size === 0) return;
    const earliest = Math.min(...[...this.#due.values()].map((due) => due.at));
    const soonest = this.ports.clock.now() + (failed ? AGAIN_MS : 0);
    this.#sleepUntil(Math.min(Math.max(earliest, soonest), this.#wakeAt));
  }

  #happen({ ref, kind }: Due): Promise<boolean> {
    const { store, random } = this.ports;
    return store.change({ actor: "bus" }, (d) =>
      kind === "retry" ? retryDue(d, ref.run, ref.task) : expireLease(d, ref, this.#graceUntil, random),
    );
  }

  /** At once when a start would take long, else when it has been quiet for a while. */
  #checkpoint(): void {
    const { store, set, clear } = this.ports;
    if (store.checkpointDue) {
      void store.checkpoint();
      return;
    }
    clear(this.#idle);
    this.#idle = set(() => void store.checkpoint(), CHECKPOINT_IDLE_MS);
  }
}
