// Watching a run to its end. The bus tells; nothing is polled but for a slow look whether bus and scheduler
// still live.
//
// 1. get_run gives the tasks at sequence number N, subscribe goes on after N: no gap, nothing twice.
// 2. Every record goes to the sink and into the rows.
// 3. When no row can move by itself any more, get_run is asked again; the bus decides whether the run has ended.
// 4. The connection is lost: `connect` is asked for a new one, with pauses, for RECONNECT_MS; then on with 1,
//    the records from the last one seen. How long it was away is told, once.
// 5. Where nobody is there who would see it (`stillMs`): the scheduler paused the run, no agent works, and nothing was
//    heard of it for that long: the watch ends, the run stays as it is.
// 6. The bus said before that it ends on purpose (`shutdown`): the watch ends too, and starts nothing again.

import { BusbarError, isCode } from "../../schemas/errors.ts";
import type { JournalRecord } from "../../schemas/events.ts";
import type { Notifications, Result } from "../../schemas/methods.ts";
import type { Bus } from "./context.ts";
import { pause } from "./daemons.ts";
import { awaitsInto } from "./render/into-outcome.ts";
import type { Model } from "./render/progress.ts";
import { applyRecord, isResting, type Row, rowOf } from "./render/row.ts";
import { millis } from "./render/time.ts";

const RECONNECT_MS = 30_000;
const LOOK_MS = 5_000;
/** A scheduler that was killed just then is started again first. */
const INTO_PATIENCE_MS = 20_000;
/** A replay that sends nothing for this long is over. */
const QUIET_MS = 150;

export type RunState = Result<"get_run">;

/** Somebody ended the bus on purpose, before the run was through. */
export interface Stopped {
  stopped: Notifications["shutdown"];
}

/** The scheduler paused the run, with why, and nothing of it moves. */
export interface Standing {
  standing: { why: string };
}

export interface Sink {
  /** The rows as they are when the watch begins, and after every reconnection. */
  begin(model: Model, first: boolean): void;
  record(record: JournalRecord, model: Model): void;
  /** Nothing happened, but something may look different. */
  trouble(model: Model): void;
  /** The bus was away for so long, and the watch goes on. */
  back(awayMs: number): void;
}

export interface WatchOptions {
  run: string;
  /** A connection; called again when one is lost. */
  connect(): Promise<Bus>;
  sink: Sink;
  /** Every LOOK_MS; what it says is shown. */
  look(bus: Bus): Promise<string | undefined>;
  /** The watch ends when a run that the scheduler paused stands still for so long; undefined: it waits. */
  stillMs?: number | undefined;
  /** True: the end comes only when no task waits for a person. */
  keepGoing: boolean;
  /** Fulfilled when the person wants to leave. */
  left: Promise<"left">;
}

export type WatchEnd = RunState | Standing | Stopped | "left";

/** The final state, "left", why it stands still, or who ended the bus. Throws BUS_AWAY when the bus stays away. */
export async function watchRun(options: WatchOptions): Promise<WatchEnd> {
  let seen = -1;
  let awaySince: number | undefined;
  for (let first = true; ; ) {
    try {
      const bus = await options.connect();
      if (awaySince !== undefined && !first) options.sink.back(performance.now() - awaySince);
      awaySince = undefined;
      const follower = new Follower(bus, options, seen);
      try {
        const end = await follower.follow(first);
        first = false;
        if (end !== "lost") return end;
        awaySince = performance.now();
      } catch (error) {
        if (follower.ordered) return { stopped: follower.ordered };
        throw error;
      } finally {
        seen = follower.seen;
        follower.stop();
      }
    } catch (error) {
      if (!isCode(error, "BUS_AWAY", "TIMEOUT", "SHUTTING_DOWN", "BUS_NOT_ANSWERING")) throw error;
      awaySince ??= performance.now();
      if (performance.now() - awaySince > RECONNECT_MS) throw error;
    }
    const left = await Promise.race([options.left, pause(200)]);
    if (left === "left") return "left";
  }
}

class Follower {
  seen: number;
  /** The bus has said that it ends on purpose. */
  ordered: Notifications["shutdown"] | undefined;
  readonly #bus: Bus;
  readonly #options: WatchOptions;
  readonly #rows = new Map<string, Row>();
  #model: Model | undefined;
  #tasksAt = 0;
  #behind = false;
  #timer: NodeJS.Timeout | undefined;
  /** Wakes the loop: a record came, or time to look. */
  #wake: () => void = () => {};
  #dirty = true;
  #heardAt = performance.now();
  /** When every task was merged, while it is not said yet what became of `into`. */
  #through: number | undefined;

  constructor(bus: Bus, options: WatchOptions, seen: number) {
    this.#bus = bus;
    this.#options = options;
    this.seen = seen;
  }

  async follow(first: boolean): Promise<WatchEnd | "lost"> {
    const { run, sink } = this.#options;
    const state = await this.#read();
    if (this.seen < 0) this.seen = state.seq;
    this.#behind = this.seen < state.seq;
    sink.begin(this.#fresh(state), first);
    this.#bus.on("event", (record) => this.#take(record));
    this.#bus.on("shutdown", (notice) => {
      this.ordered = notice;
    });
    await this.#bus.call("subscribe", { run, from_seq: this.seen });
    const lost = this.#bus.closed.then(() => "lost" as const);
    this.#timer = setInterval(() => void this.#look(), LOOK_MS);
    for (;;) {
      const standing = await this.#standing();
      if (standing) return standing;
      if (this.#dirty && this.#resting()) {
        this.#dirty = false;
        const end = await this.#read();
        if (this.#ended(end)) {
          await this.#caughtUp();
          return this.ordered && end.summary.status !== "merged" ? { stopped: this.ordered } : end;
        }
      }
      const woken = new Promise<"woken">((resolve) => {
        this.#wake = () => resolve("woken");
      });
      if (this.#dirty && this.#resting()) continue;
      const why = await Promise.race([woken, lost, this.#options.left]);
      if (why === "lost" && this.ordered) return { stopped: this.ordered };
      if (why !== "woken") return why;
    }
  }

  /** What is held in a phase of the scheduler's looks like what works in it, so only time tells them apart. */
  async #standing(): Promise<Standing | undefined> {
    const { stillMs } = this.#options;
    if (stillMs === undefined || !this.#model?.paused || this.#resting()) return undefined;
    if (performance.now() - this.#heardAt < stillMs) return undefined;
    for (const { shown, detail } of this.#rows.values())
      if (shown === "running" && detail === "agent") return undefined;
    const { summary } = await this.#read();
    const { status, paused_why: why } = summary;
    return status === "paused" && why !== undefined ? { standing: { why } } : undefined;
  }

  /** After a reconnection the records that were missed come after the rows: they are still told. */
  async #caughtUp(): Promise<void> {
    for (let before = -1; this.#behind && before < this.seen; ) {
      before = this.seen;
      await pause(QUIET_MS);
    }
  }

  stop(): void {
    clearInterval(this.#timer);
    this.#bus.close();
  }

  #read(): Promise<RunState> {
    return this.#bus.call("get_run", { run: this.#options.run });
  }

  #fresh(state: RunState): Model {
    this.#rows.clear();
    for (const task of state.tasks) this.#rows.set(task.spec.id, rowOf(task));
    this.#tasksAt = state.seq;
    this.#model = {
      run: state.run.run,
      rows: this.#rows,
      paused: state.run.paused,
      ...(state.run.paused_why === undefined ? {} : { pausedWhy: state.run.paused_why }),
      started: millis(state.run.created),
    };
    return this.#model;
  }

  #take(record: JournalRecord): void {
    if (record.seq <= this.seen || !this.#model) return;
    this.seen = record.seq;
    this.#heardAt = performance.now();
    // A record older than the rows (after a reconnection) is told, but changes nothing.
    if (record.seq > this.#tasksAt) this.#apply(record, this.#model);
    this.#options.sink.record(record, this.#model);
    this.#dirty = true;
    this.#wake();
  }

  #apply(record: JournalRecord, model: Model): void {
    const { event, task } = record;
    if (event?.type === "run.paused" || event?.type === "run.resumed") {
      model.paused = event.type === "run.paused";
      delete model.pausedWhy;
      if (event.type === "run.paused" && event.why !== undefined) model.pausedWhy = event.why;
    }
    if (event?.type === "run.tasks_added") void this.#refresh();
    const row = task === undefined ? undefined : this.#rows.get(task);
    if (row && task !== undefined) this.#rows.set(task, applyRecord(row, record));
  }

  async #refresh(): Promise<void> {
    try {
      this.#options.sink.begin(this.#fresh(await this.#read()), false);
      this.#wakeDirty();
    } catch {
      // The connection is going; the loop sees it.
    }
  }

  async #look(): Promise<void> {
    const model = this.#model;
    if (!model || this.ordered) return; // a scheduler that goes because it is told to is not started again
    const trouble = await this.#options.look(this.#bus).catch((error: unknown) => {
      return error instanceof BusbarError ? error.message : String(error);
    });
    if (trouble === undefined) delete model.trouble;
    else model.trouble = trouble;
    this.#options.sink.trouble(model);
    this.#wakeDirty();
  }

  #wakeDirty(): void {
    this.#dirty = true;
    this.#wake();
  }

  #resting(): boolean {
    for (const row of this.#rows.values()) if (!isResting(row.shown)) return false;
    return true;
  }

  #ended(state: RunState): boolean {
    const { status } = state.summary;
    if (status === "active" || status === "paused") return false;
    if (awaitsInto(state.run, state.summary)) {
      this.#through ??= performance.now();
      if (performance.now() - this.#through < INTO_PATIENCE_MS) return false;
    }
    return !this.#options.keepGoing || !state.tasks.some((task) => task.state.name === "blocked");
  }
}
