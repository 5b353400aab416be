// Waits for the ends of shims. The first of these says how a process ended:
//
// 1. the event `proc.completed` from the bus, which has it from the shim;
// 2. the shim's process is gone: what it left behind is ended first, always (strays.ts). Our own children are seen at
//    once; shims of an earlier scheduler are looked at in the slow tick;
//    a. a check: what the bus took from its shim. Its outbox alone proves nothing: what runs under a shim can write it,
//       and end its shim then (outcomes.ts);
//    b. an agent: the outbox file (the shim writes it before it reports), if it is well formed and of this process. The
//       agent could have written it, so one that says "ended well" is not believed when processes still lived;
//    c. else `lost`.
//
// An abort asks the shim to end (SIGTERM) and waits for one of the above; a shim that does not end within its grace
// time is killed, and its processes with it. An abort with DETACH (the scheduler ends) leaves an agent's shim alone and
// only stops the waiting. A check's is ended like by any abort: what it found would reach nobody, and it is made again.
//
// A shim of which nothing can be known, or that is stopped, is neither killed nor given up here: the doubt is told to
// people (attempts.ts), and the lease, which only its own heartbeats renew, bounds it.

import { join } from "node:path";
import { BusbarError } from "../schemas/errors.ts";
import type { EventNotice } from "../schemas/events.ts";
import { faultPoint } from "../schemas/fault-points.ts";
import { attemptLabel } from "../schemas/ids.ts";
import type { JobGroups, Outcome, ShimJob } from "../schemas/job.ts";
import { KILL_SETTLE_MS } from "../schemas/limits.ts";
import type { Clock, Log } from "../schemas/ports.ts";
import type { Task } from "../schemas/task.ts";
import type { HostEnv } from "./environment.ts";
import type { Doubt, Processes, Watched } from "./kit.ts";
import { type LaunchedShim, launchShim, type ShimProgram } from "./launch.ts";
import { identityOf, type PidFile, type Probed, probe, readPidFile, readStat } from "./liveness.ts";
import { heardFrom, madeUp, readOutbox, reported } from "./outcomes.ts";
import { endStrays, type Quarry } from "./strays.ts";

/** Reason of an abort after which nothing is settled and nothing moved: the scheduler goes, agents stay, checks end. */
export const DETACH = Symbol("detach");

interface Waiting {
  job: Watched;
  /** What stands in BUSBAR_DIR of its processes. */
  mark: string;
  /** Set for our own children. */
  pid?: number;
  /** Whoever started it tells us of its end. */
  told?: true;
  /** Who the shim is, if that is known from another source than its file. */
  shim?: PidFile | undefined;
  signal: AbortSignal;
  /** Its shim is gone and what is left is being ended. */
  ending?: boolean;
  doubt?: Doubt | undefined;
  settle(outcome: Outcome): void;
  /** The end of the waiting. */
  over?: Promise<Outcome>;
}

/** Beyond the grace time and the settling of the shim itself. */
const ABORT_SLACK_MS = 5_000;

export class ShimProcesses implements Processes {
  readonly #waiting = new Map<string, Waiting>();

  constructor(
    readonly deps: {
      program: ShimProgram;
      env: HostEnv;
      clock: Clock;
      log: Log;
      graceMs: number;
      /** Where the control groups of a job are, on a host that has them. */
      groupsOf?(job: Pick<ShimJob, "dir" | "name">): JobGroups | undefined;
      /** The task as the bus has it; waits for a bus that is away. */
      taskOf(ref: Outcome["ref"], signal: AbortSignal): Promise<Task>;
      /** A test's own. */
      probe?: (shim: PidFile) => Probed;
    },
  ) {}

  /** After all was aborted: fulfilled when nobody is waited for any more, checks that take their time to end among them. */
  async ended(): Promise<void> {
    await Promise.allSettled([...this.#waiting.values()].map(({ over }) => over));
  }

  /** Shims that live now, as far as we have started them. */
  get pids(): number[] {
    return [...this.#waiting.values()].flatMap(
      ({ pid, told, shim }) => pid ?? (told && shim ? shim.pid : []),
    );
  }

  async run(job: ShimJob, signal: AbortSignal): Promise<Outcome> {
    signal.throwIfAborted();
    const launched = await launchShim(this.deps.program, job, this.deps.env);
    return await this.#wait(job, job.env.BUSBAR_DIR ?? job.dir, signal, launched);
  }

  async watch(job: Watched, signal: AbortSignal): Promise<Outcome> {
    return await this.#wait(job, job.dir, signal, undefined);
  }

  /** Every event of the bus comes by here. */
  onRecord(record: EventNotice): void {
    if (record.event?.type !== "proc.completed") return;
    const { outcome } = record.event;
    this.#waiting.get(keyOf(outcome))?.settle(outcome);
  }

  /** The slow tick's look: at shims that are not our children, at events that were missed, and for doubts. */
  look(): void {
    for (const waiting of [...this.#waiting.values()]) {
      const probed = this.#probe(waiting);
      waiting.doubt = this.#doubtOf(waiting, probed);
      if (probed.kind === "dead" && !waiting.told) void this.#gone(waiting, "nobody saw it end");
    }
  }

  /** What is not known about the agent's shim of an attempt, after the newest look. */
  doubtOf(ref: Outcome["ref"]): Doubt | undefined {
    return this.#waiting.get(keyOf({ ref, kind: "agent", name: "agent" }))?.doubt;
  }

  #probe({ job, pid }: Waiting): Probed {
    if (pid !== undefined) {
      // Our child: its number stays its own until we have seen its end.
      const stat = readStat(pid);
      return typeof stat === "object" ? { kind: "alive", stopped: stat.stopped } : { kind: "dead" };
    }
    const shim = shimOf(job);
    if (shim === "none") return { kind: "dead" };
    if (shim === "unknown") return { kind: "unknown", why: "its pid file cannot be read" };
    return (this.deps.probe ?? probe)(shim);
  }

  #doubtOf({ job, pid }: Waiting, probed: Probed): Doubt | undefined {
    const shim = shimOf(job);
    const number = pid ?? (typeof shim === "object" ? shim.pid : 0);
    if (probed.kind === "unknown") return { pid: number, why: probed.why };
    if (probed.kind === "alive" && probed.stopped) return { pid: number, why: "it is stopped (SIGSTOP)" };
    return undefined;
  }

  async #wait(job: Watched, mark: string, signal: AbortSignal, launched?: LaunchedShim): Promise<Outcome> {
    const key = keyOf(job);
    if (this.#waiting.has(key))
      throw new BusbarError(
        "INTERNAL",
        `waiting for ${job.name} of ${attemptLabel(job.ref)}: somebody does already`,
      );
    let settle: (outcome: Outcome) => void = () => {};
    const outcome = new Promise<Outcome>((resolve) => {
      settle = resolve;
    });
    const waiting: Waiting = { job, mark, settle, signal, shim: job.shim };
    if (launched) {
      waiting.told = true;
      if (launched.ours) waiting.pid = launched.pid;
      // Its number is its own until we have seen its end, which is not before the next turn of the loop.
      waiting.shim = identityOf(launched.pid);
      void launched.ended.then(({ how, words }) =>
        this.#gone(waiting, `the shim ended (${how}) without an outcome${words ? `: ${words}` : ""}`),
      );
    }
    this.#waiting.set(key, waiting);
    waiting.over = this.#untilAborted(waiting, outcome, signal);
    try {
      return await waiting.over;
    } finally {
      this.#waiting.delete(key);
    }
  }

  async #untilAborted(waiting: Waiting, outcome: Promise<Outcome>, signal: AbortSignal): Promise<Outcome> {
    const aborted = new Promise<"aborted">((resolve) => {
      if (signal.aborted) resolve("aborted");
      signal.addEventListener("abort", () => resolve("aborted"), { once: true });
    });
    const first = await Promise.race([outcome, aborted]);
    if (first !== "aborted") return first;
    if (signal.reason === DETACH && waiting.job.kind === "agent")
      throw new BusbarError(
        "SHUTTING_DOWN",
        `waiting for ${waiting.job.name}: the scheduler ends, the process goes on`,
      );
    this.#signalShim(waiting, "SIGTERM");
    const limit = this.deps.graceMs + KILL_SETTLE_MS + ABORT_SLACK_MS;
    let timer: NodeJS.Timeout | undefined;
    const late = new Promise<"late">((resolve) => {
      timer = setTimeout(() => resolve("late"), limit);
    });
    const second = await Promise.race([outcome, late]).finally(() => clearTimeout(timer));
    if (second !== "late") return second;
    this.#signalShim(waiting, "SIGKILL");
    await endStrays(this.#quarry(waiting), 0);
    return madeUp(waiting.job, "cancelled", "its shim did not end when asked to", this.deps.clock);
  }

  #signalShim(waiting: Waiting, signal: NodeJS.Signals): void {
    const shim = shimOf(waiting.job);
    const pid = waiting.pid ?? (typeof shim === "object" ? shim.pid : undefined);
    if (pid === undefined || this.#probe(waiting).kind !== "alive") return;
    try {
      faultPoint("scheduler.abort.before-signal-shim");
      process.kill(pid, signal);
      faultPoint("scheduler.abort.before-waking-shim");
      if (signal === "SIGTERM") process.kill(pid, "SIGCONT"); // a stopped one can act on it
    } catch {
      // ESRCH: it has ended; `ended` or the next look says so
    }
  }

  /** The shim is gone: nothing of it goes on; then what it told, or lost. */
  async #gone(waiting: Waiting, how: string): Promise<void> {
    const { job } = waiting;
    if (waiting.ending || this.#waiting.get(keyOf(job)) !== waiting) return;
    waiting.ending = true;
    const lived = await this.#endStrays(waiting);
    const left = readOutbox(join(job.dir, job.files.outbox), job);
    waiting.settle(
      job.kind === "check"
        ? await this.#toldOfCheck(waiting, left, how)
        : this.#leftByAgent(waiting, left, lived, how),
    );
  }

  #leftByAgent({ job }: Waiting, left: Outcome | undefined, lived: boolean, how: string): Outcome {
    if (left && !(lived && endedWell(left))) return left;
    const started = left || lived || typeof shimOf(job) === "object";
    const why = left ? "its outbox says that it ended well, but processes of it still ran" : how;
    return madeUp(job, started ? "lost" : "spawn_failed", why, this.deps.clock);
  }

  /** A check is started only after its shim was answered by the bus. */
  async #toldOfCheck(waiting: Waiting, left: Outcome | undefined, how: string): Promise<Outcome> {
    const { job, shim, signal } = waiting;
    const { taskOf, clock, log } = this.deps;
    try {
      const heard = shim && heardFrom(await taskOf(job.ref, signal), job, shim);
      if (heard?.ended) return reported(job, heard.ended, left);
      const why = left ? "its shim told the bus of no end; its outbox alone proves nothing" : how;
      return madeUp(job, heard || !shim ? "lost" : "spawn_failed", why, clock);
    } catch (error) {
      log.warn("the bus cannot say how a check ended", { ...job.ref, name: job.name, error: String(error) });
      return madeUp(job, "lost", how, clock);
    }
  }

  #quarry({ job, mark }: Waiting): Quarry {
    const file = readPidFile(join(job.dir, job.files.pid));
    const root = typeof file === "object" ? file.child : undefined;
    return { dirs: [mark], root, groups: this.deps.groupsOf?.(job) };
  }

  /** Whether any lived. When that cannot be found out, the safe answer: yes. */
  async #endStrays(waiting: Waiting): Promise<boolean> {
    const { mark: dir } = waiting;
    try {
      const { found, survivors } = await endStrays(this.#quarry(waiting), this.deps.graceMs);
      if (survivors.length > 0) this.deps.log.error("processes could not be ended", { dir, survivors });
      return found.length > 0;
    } catch (error) {
      this.deps.log.error("looking for left processes failed", { dir, error: String(error) });
      return true;
    }
  }
}

function shimOf({ shim, dir, files }: Watched): PidFile | "none" | "unknown" {
  return shim ?? readPidFile(join(dir, files.pid));
}

function endedWell({ reason, exit }: Outcome): boolean {
  return reason === "exit" && exit === 0;
}

function keyOf(job: Pick<Outcome, "ref" | "kind" | "name">): string {
  return `${attemptLabel(job.ref)} ${job.kind} ${job.name}`;
}
