// What time alone brings about: a retry is due, a lease runs out, a checkpoint is worth writing. The rules stand in
// decide-settle.ts; here is only who asks when. One timer, set to the earliest thing that may happen.
//
// All spans are counted by the clock that never jumps, from the moment when this bus heard of them: a machine that slept,
// or a clock that is set, loses no attempt and holds none. The times in the state are what people read. After a start
// every lease counts from the start on: the shims could not renew while the bus was away. The same when the bus itself
// was held up (stopped, starved): what the shims said meanwhile has still to be read.
//
// An attempt whose agent has ended, and told it, waits for the scheduler, and is not lost for its silence: there is work to
// be counted. Without a scheduler its lease does not run; beside one that says nothing it runs MAX_SILENT times.

import { type AttemptRef, taskKey } from "../../schemas/ids.ts";
import { CHECKPOINT_IDLE_MS, RETRY_MAX_MS } from "../../schemas/limits.ts";
import type { Clock, Log, Random } from "../../schemas/ports.ts";
import type { Task } from "../../schemas/task.ts";
import { speaksFor } from "./decide-attempt.ts";
import { expireLease, retryDue } from "./decide-settle.ts";
import { Rarely } from "./rarely.ts";
import type { Store } from "./store.ts";

/** setTimeout and clearTimeout, or a test's own. */
export interface TimerSetter {
  set(fn: () => void, ms: number): unknown;
  clear(handle: unknown): void;
}

export interface TimerPorts extends TimerSetter {
  store: Store;
  clock: Clock;
  log: Log;
  random: Random;
  leaseMs: number;
  /** Whether a scheduler is registered. */
  hasScheduler(): boolean;
}

/** `at` in milliseconds of the monotonic clock; `of`: the written time that it stands for. */
type Due = {
  at: number;
  of: string;
  ref: AttemptRef;
  kind: "retry" | "lease";
  lastCall?: boolean;
  /** How often it has run out while the end of the agent waited for a silent scheduler. */
  silent?: number;
};

/** After a failed write. */
const AGAIN_MS = 1_000;
/** A timer that comes later than this says that the bus was held up. */
const HELD_UP_MS = 1_000;
/** A lease that has run down ends only after what lies unread in the sockets was read: timers come first in a turn. */
const LAST_CALL_MS = 50;
/** A scheduler that is stopped may come back; one that forgot an attempt must not keep it for ever. */
const MAX_SILENT = 5;
/** Jitter may lengthen a pause by a fifth. */
const LONGEST_PAUSE_MS = RETRY_MAX_MS * 1.2;

export class StateTimers {
  readonly #due = new Map<string, Due>();
  readonly #off: () => void;
  #timer: unknown;
  #wakeAt = Number.POSITIVE_INFINITY;
  #idle: unknown;
  #stopped = false;
  /** A disk may refuse for days. */
  readonly #failing = new Rarely();

  constructor(private readonly ports: TimerPorts) {
    const { store } = ports;
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

  /** The lease of a running attempt counts anew, also when it was not worth an event. */
  alive(ref: AttemptRef, who: "agent" | "check" | "worker"): void {
    const due = this.#due.get(taskKey(ref.run, ref.task));
    const task = this.ports.store.view.task(ref.run, ref.task);
    if (due?.kind !== "lease" || due.ref.attempt !== ref.attempt || !task) return;
    if (who !== "worker" && !speaksFor(task, who)) return;
    due.at = this.ports.clock.monotonic() + this.ports.leaseMs;
    due.lastCall = false;
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
    const { clock, leaseMs } = this.ports;
    const ref = { run: task.run, task: task.spec.id, attempt: task.attempts.at(-1)?.attempt ?? 0 };
    const known = this.#due.get(taskKey(ref.run, ref.task));
    const same = (kind: Due["kind"], of: string) =>
      known?.kind === kind && known.of === of && known.ref.attempt === ref.attempt ? known : undefined;
    if (state.name === "retrying") {
      const of = state.not_before;
      const pause = Math.min(Math.max(0, Date.parse(of) - clock.now()), LONGEST_PAUSE_MS);
      return same("retry", of) ?? { at: clock.monotonic() + pause, of, ref, kind: "retry" };
    }
    if (state.name !== "running") return undefined;
    const of = state.lease_until;
    return same("lease", of) ?? { at: clock.monotonic() + leaseMs, of, ref, kind: "lease" };
  }

  #sleepUntil(at: number): void {
    const { clock, set, clear } = this.ports;
    clear(this.#timer);
    this.#wakeAt = at;
    this.#timer = set(() => void this.#wake(), Math.max(0, at - clock.monotonic()));
  }

  async #wake(): Promise<void> {
    const { clock, log } = this.ports;
    const now = clock.monotonic();
    if (now - this.#wakeAt > HELD_UP_MS) this.#countAnew(now);
    for (const due of this.#due.values())
      if (due.at <= now && !this.#waitsForScheduler(due, now)) this.#callOnce(due, now);
    const ripe = [...this.#due.values()].filter((due) => due.at <= now);
    this.#wakeAt = Number.POSITIVE_INFINITY;
    const ends = await Promise.allSettled(ripe.map((due) => this.#happen(due)));
    for (const [i, end] of ends.entries()) {
      if (end.status === "fulfilled")
        this.#forget(ripe[i]!); // it happened, or an event of the task will note it anew
      else if (this.#failing.isNews(String(end.reason), now))
        log.warn("what was due will be tried again, every second", { why: String(end.reason) });
    }
    const failed = ends.some((end) => end.status === "rejected");
    if (!failed && ends.length > 0) this.#failing.over();
    this.#next(failed);
  }

  #countAnew(now: number): void {
    for (const due of this.#due.values())
      if (due.kind === "lease") Object.assign(due, { at: now + this.ports.leaseMs, lastCall: false });
  }

  #waitsForScheduler(due: Due, now: number): boolean {
    const task = this.ports.store.view.task(due.ref.run, due.ref.task);
    if (due.kind !== "lease" || !task || !agentHasEnded(task)) return false;
    if (this.ports.hasScheduler()) {
      due.silent = (due.silent ?? 0) + 1;
      if (due.silent > MAX_SILENT) return false;
    }
    Object.assign(due, { at: now + this.ports.leaseMs, lastCall: false });
    return true;
  }

  #callOnce(due: Due, now: number): void {
    if (due.kind !== "lease" || due.lastCall) return;
    due.lastCall = true;
    due.at = now + LAST_CALL_MS;
  }

  #forget(due: Due): void {
    const key = taskKey(due.ref.run, due.ref.task);
    if (this.#due.get(key) === due) this.#due.delete(key);
  }

  #next(failed: boolean): void {
    if (this.#stopped || this.#due.size === 0) return;
    const earliest = Math.min(...[...this.#due.values()].map((due) => due.at));
    const soonest = this.ports.clock.monotonic() + (failed ? AGAIN_MS : 0);
    this.#sleepUntil(Math.min(Math.max(earliest, soonest), this.#wakeAt));
  }

  #happen({ ref, kind }: Due): Promise<boolean> {
    const { store, random } = this.ports;
    return store.change({ actor: "bus" }, (d) =>
      kind === "retry" ? retryDue(d, ref.run, ref.task) : expireLease(d, ref, random),
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

/** As the shim told the bus. */
function agentHasEnded({ attempts }: Task): boolean {
  return attempts.at(-1)?.procs?.some(({ kind, ended }) => kind === "agent" && ended !== undefined) ?? false;
}
