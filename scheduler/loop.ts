// The scheduler's engine. It works on events; a slow tick is the safety net. Order inside a tick, always this:
//
// 1. settle the dead      shims that are gone, and leases of ours that run down (slow tick)
// 2. receive results      the mirror catches up with the bus; attempts that the bus ended are stopped
// 3. move trains          passed tasks land, one after the other per run
// 4. unblock              done by the bus in the same transaction as the landing; here: runs that are through
//                         (`into`), halted branches (slow tick)
// 5. place                what may be claimed now (placement.ts); nothing while the disk is too full (disk.ts)
// 6. start                claim by compare-and-swap, then the attempt goes its own way (attempt.ts)
//
// A tick never waits for an attempt, a check or a landing. Ticks do not overlap; a wake-up during one makes one more.

import { setTimeout as delay } from "node:timers/promises";
import type { EventNotice } from "../schemas/events.ts";
import { MAX_WORKERS, WORKERS_PER_CORE } from "../schemas/limits.ts";
import type { Task } from "../schemas/task.ts";
import { Attempts } from "./attempts.ts";
import { Bases } from "./bases.ts";
import { DiskGate } from "./disk.ts";
import { Finisher } from "./finisher.ts";
import type { Hold, Kit } from "./kit.ts";
import type { RunMirror } from "./mirror.ts";
import { place, type RunView, slotsOfHost } from "./placement.ts";
import type { ShimProcesses } from "./processes.ts";
import { isAway } from "./settle.ts";
import { Trains } from "./trains.ts";

/** Safety net only: everything that matters comes as an event. */
const SLOW_TICK_MS = 5_000;
const TAKE_OVER_AGAIN_MS = 1_000;

export interface EngineOptions {
  kit: Kit;
  processes: ShimProcesses;
  leaseMs: number;
  /** Run now and then in the slow tick: garbage collection. */
  housekeeping?: () => Promise<void>;
  /** Ends every git call that is still under way; fulfilled when none is. */
  endGit(): Promise<void>;
}

export class Engine {
  readonly #kit: Kit;
  readonly #options: EngineOptions;
  readonly #trains: Trains;
  readonly #attempts: Attempts;
  readonly #finisher: Finisher;
  readonly #disk: DiskGate;
  #ticking = false;
  #again = false;
  #scheduled = false;
  #stopped = false;
  /** False while the bus is away: nothing is placed then. */
  #connected = false;
  /** Counts connections: whoever began under an earlier one has nothing to say any more. */
  #life = 0;
  #cleared: Promise<void> | undefined;
  #slow: NodeJS.Timeout | undefined;
  #freeMemory: number | undefined;

  constructor(options: EngineOptions) {
    this.#options = options;
    this.#kit = options.kit;
    const { kit } = options;
    const bases = new Bases(() => this.wake());
    this.#trains = new Trains(kit, bases, (run, landing) => this.#attempts.recover(run, landing));
    this.#attempts = new Attempts(
      kit,
      bases,
      () => this.wake(),
      (run) => this.#trains.mayStart(run),
    );
    this.#finisher = new Finisher(options.kit);
    this.#disk = new DiskGate(options.kit, () => options.kit.clock.monotonic());
  }

  /** Everything is at rest: no attempt, no landing. */
  get idle(): boolean {
    return this.#attempts.size === 0 && !this.#trains.busy;
  }

  /**
   * The bus has (again) said what there is, and the mirror holds it. It may be older than what we know (a backup was
   * restored, the end of the journal is lost): whatever was concluded from the state before is looked at anew. What
   * fails is tried again as long as this connection lives: until then nothing is placed. Never rejects.
   */
  async connected(): Promise<void> {
    const life = ++this.#life;
    // The bus went away: the connection after it takes over.
    const isOver = () => life !== this.#life || this.#stopped;
    while (!isOver()) {
      try {
        this.#attempts.lookAgain();
        await this.#trains.begin();
        await this.#clear();
        if (!isOver()) this.#setOut();
        return;
      } catch (error) {
        if (isOver()) return;
        this.#kit.log.error("taking over failed; tried again", {
          error: String((error as Error)?.stack ?? error),
        });
        await delay(TAKE_OVER_AGAIN_MS);
      }
    }
  }

  #setOut(): void {
    this.#attempts.adopt();
    this.#connected = true;
    // Several fit into every lease.
    const every = Math.min(SLOW_TICK_MS, this.#options.leaseMs / 4);
    this.#slow ??= setInterval(() => void this.#slowTick(), every);
    this.wake();
  }

  lost(): void {
    this.#life += 1;
    this.#connected = false;
  }

  /** Once; again when it failed. */
  #clear(): Promise<void> {
    this.#cleared ??= this.#attempts.clear().catch((error) => {
      this.#cleared = undefined;
      throw error;
    });
    return this.#cleared;
  }

  /** One record of the journal. */
  onRecord(record: EventNotice): void {
    this.#kit.mirror.follow(record);
    this.#options.processes.onRecord(record);
    if (record.event?.type === "task.publish_requested") this.#attempts.publish(record);
    if (record.event?.type === "run.resumed" && record.run !== undefined && this.#connected)
      void this.#trains.resumed(record.run).then(() => this.wake());
    // While it drains, what the bus cancels still has to be stopped.
    if (this.#stopped) this.#attempts.stopEnded();
    else this.wake();
  }

  /** One tick soon; many wake-ups make one. */
  wake(): void {
    if (this.#stopped || this.#scheduled) return;
    this.#scheduled = true;
    setImmediate(() => {
      this.#scheduled = false;
      void this.#tick();
    });
  }

  /**
   * Claims nothing more. Landings and their checks end at once; the next scheduler takes them up again. `leave`: agents
   * go on under their shims, their checks end. Else: waits until the bus has cancelled what runs and it has ended, at most
   * `limitMs`. Then no git of ours goes on.
   */
  async stop(leave: boolean, limitMs: number): Promise<void> {
    this.#stopped = true;
    clearInterval(this.#slow);
    const trains = this.#trains.detach();
    this.#attempts.letGoOfLandings();
    if (!leave) {
      if (!this.#connected) await this.#endRest();
      await this.#attempts.drain(limitMs);
    }
    await this.#attempts.detach();
    await this.#options.endGit();
    await this.#options.processes.ended();
    await trains;
    await this.#kit.places.close();
  }

  /**
   * Told to end before it had taken over: agents of an earlier scheduler are to end all the same. Those that the bus has not
   * cancelled yet become ours, and end when it does; a look after that finds those cancelled before.
   */
  async #endRest(): Promise<void> {
    try {
      await this.#clear();
      this.#attempts.adopt();
      this.#cleared = undefined;
      await this.#clear();
    } catch (error) {
      this.#kit.log.error("what an earlier scheduler left could not be ended", { error: String(error) });
    }
  }

  async #tick(): Promise<void> {
    if (this.#ticking) {
      this.#again = true;
      return;
    }
    this.#ticking = true;
    try {
      do {
        this.#again = false;
        if (this.#connected && !this.#stopped) await this.#oneTick();
      } while (this.#again && !this.#stopped);
    } catch (error) {
      this.#kit.log.error("tick failed; the slow tick tries again", {
        error: String((error as Error)?.stack ?? error),
      });
    } finally {
      this.#ticking = false;
    }
  }

  async #oneTick(): Promise<void> {
    await this.#catchUp();
    if (this.#stopped) return;
    this.#attempts.stopEnded();
    this.#trains.move();
    await this.#finisher.look();
    const placed = place(this.#views(), this.#slots());
    for (const { task, goesOn } of placed) if (goesOn) this.#attempts.holdOf(task)?.goOn();
    const fresh = placed.filter(({ goesOn }) => !goesOn);
    if (fresh.length > 0 && !(await this.#disk.hasRoom())) return;
    if (this.#stopped) return;
    for (const { task } of fresh) void this.#attempts.claim(task);
  }

  async #slowTick(): Promise<void> {
    if (!this.#connected || this.#stopped) return;
    try {
      this.#options.processes.look();
      this.#attempts.renew(this.#options.leaseMs);
      await this.#attempts.relieve();
      await this.#trains.revisitHalted();
      this.#freeMemory = await this.#kit.machine.freeMemory();
      await this.#kit.usage.sample(this.#options.processes.pids);
      await this.#options.housekeeping?.();
    } catch (error) {
      this.#kit.log.error("slow tick failed", { error: String((error as Error)?.stack ?? error) });
    }
    this.wake();
  }

  /** Runs that the mirror could not follow by events alone are read again. */
  async #catchUp(): Promise<void> {
    const { mirror, bus } = this.#kit;
    for (const run of [...mirror.stale]) {
      mirror.stale.delete(run);
      try {
        const answer = await bus.call("get_run", { run });
        mirror.put(answer.run, answer.tasks);
      } catch (error) {
        if (isAway(error)) mirror.stale.add(run); // still not read
        throw error;
      }
    }
  }

  *#views(): Iterable<RunView> {
    for (const at of this.#kit.mirror.runs.values()) {
      if (at.ready.size === 0 && at.underway.size === 0) continue;
      yield this.#view(at);
    }
  }

  #view(at: RunMirror): RunView {
    const attempts = this.#attempts;
    const tasksOf = (ids: Iterable<string>) => [...ids].flatMap((id) => at.tasks.get(id) ?? []);
    const isBusy = (task: Task) => attempts.isBusy(task);
    const underway = [...tasksOf(at.underway), ...tasksOf(at.ready).filter(isBusy)];
    const mayGoOn = (hold: Hold | undefined) => hold !== undefined && hold.life !== at.life;
    return {
      run: at.run.run,
      paused: at.run.paused || this.#trains.halted.has(at.run.run),
      schedule: at.run.spec.schedule,
      workers: at.run.spec.workers,
      ready: tasksOf(at.ready).filter((task) => !isBusy(task)),
      underway,
      returning: underway.filter((task) => mayGoOn(attempts.holdOf(task))),
      openWave: at.run.spec.schedule === "waves" ? openWave(at) : 0,
      orderOf: (id) => at.order.get(id) ?? 0,
      laneOf: (task) => this.#kit.mirror.laneOf(task),
      holdsSlot: (task) => (task.state.name === "running" || isBusy(task)) && !attempts.holdOf(task),
    };
  }

  #slots(): number {
    const { config, machine, mirror } = this.#kit;
    return slotsOfHost({
      configured: config.workers,
      cores: machine.cores,
      perCore: WORKERS_PER_CORE,
      max: MAX_WORKERS,
      freeMemory: this.#freeMemory,
      meanAttempt: mirror.meanRss(),
      running: this.#attempts.atWork,
    });
  }
}

/** The first wave with a task that still moves by itself. */
function openWave(at: RunMirror): number {
  let first = Number.POSITIVE_INFINITY;
  for (const { state, wave } of at.tasks.values()) {
    const atEnd =
      state.name === "blocked" ||
      state.name === "cancelled" ||
      (state.name === "passed" && state.merged !== null);
    if (!atEnd && wave < first) first = wave;
  }
  return first;
}
