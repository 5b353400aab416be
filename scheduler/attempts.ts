// The attempts that are at work now: claiming, taking over, stopping, letting go.

import { setTimeout as delay } from "node:timers/promises";
import { isCode } from "../schemas/errors.ts";
import type { EventNotice } from "../schemas/events.ts";
import { faultPoint } from "../schemas/fault-points.ts";
import { type AttemptRef, taskKey } from "../schemas/ids.ts";
import { nextAttempt } from "../schemas/next-attempt.ts";
import type { Evidence, Run, Task } from "../schemas/task.ts";
import { adopt, clearRest, type LivingShims } from "./adopt.ts";
import { AttemptRunner } from "./attempt.ts";
import type { Bases } from "./bases.ts";
import { Canaries } from "./canary.ts";
import { CheckoutWatch } from "./checkout-watch.ts";
import { attemptDir, attemptName, claimFile, FILES } from "./dirs.ts";
import { claimedBefore, randomHex, writeClaimNote } from "./edges.ts";
import { errorEvidence, evidence } from "./evidence.ts";
import { groupsOf } from "./groups.ts";
import type { Attempt, Hold, Kit } from "./kit.ts";
import { LeaseWatch } from "./lease-watch.ts";
import { DETACH } from "./processes.ts";
import { OLDER, type TakenOver, takeOver } from "./recover.ts";
import { ensureIntegrationBranch } from "./refs.ts";
import { isAway, settleFailed, whileAway } from "./settle.ts";
import { endStrays } from "./strays.ts";
import { removeTaskSocket, sweepTaskSockets } from "./task-sockets.ts";
import type { AheadLanding } from "./train.ts";
import { DISK_GONE_BYTES, lookAtMachine } from "./trouble.ts";

interface Live {
  runner: AttemptRunner;
  done: Promise<void>;
}

export class Attempts {
  readonly #kit: Kit;
  readonly #bases: Bases;
  readonly #wake: () => void;
  readonly #mayStart: (run: string) => Promise<boolean>;
  readonly #live = new Map<string, Live>();
  readonly #claiming = new Set<string>();
  readonly #letGo = new AbortController();
  readonly #canaries: Canaries;
  readonly #leases: LeaseWatch;
  readonly #checkouts: CheckoutWatch;
  #living: LivingShims = new Map();
  /** Runs whose integration branch is there and as the bus knows it. */
  readonly #branches = new Map<string, Promise<void>>();

  /** `mayStart` looks at the branch of a run and says whether anything may start on it. */
  constructor(kit: Kit, bases: Bases, wake: () => void, mayStart: (run: string) => Promise<boolean>) {
    this.#kit = kit;
    this.#bases = bases;
    this.#canaries = new Canaries(bases);
    this.#wake = wake;
    this.#leases = new LeaseWatch(kit.clock);
    this.#mayStart = mayStart;
    this.#checkouts = new CheckoutWatch(kit.control);
  }

  get size(): number {
    return this.#live.size + this.#claiming.size;
  }

  /** Without those that are held. */
  get atWork(): number {
    return this.size - [...this.#live.values()].filter(({ runner }) => runner.attempt.hold).length;
  }

  /** Being claimed, or its last attempt is not wholly over: its processes may still run. */
  isBusy(task: Task): boolean {
    const key = keyOf(task);
    return this.#claiming.has(key) || this.#live.has(key);
  }

  /** While it waits for its run to be let go on. */
  holdOf(task: Task): Hold | undefined {
    return this.#live.get(keyOf(task))?.runner.attempt.hold;
  }

  /** Takes a ready task and starts its attempt. Never rejects. */
  async claim(task: Task): Promise<void> {
    const key = keyOf(task);
    if (this.isBusy(task)) return;
    this.#claiming.add(key);
    try {
      const run = this.#kit.mirror.runs.get(task.run)?.run;
      if (run) await this.#claim(task, run);
    } catch (error) {
      if (isCode(error, "STALE", "NOT_CLAIMABLE", "ILLEGAL_MOVE", "FENCED"))
        this.#kit.mirror.stale.add(task.run);
      else if (!isCode(error, "BUS_AWAY", "SHUTTING_DOWN"))
        this.#kit.log.error("claim failed", { run: task.run, task: task.spec.id, error: String(error) });
      await delay(CLAIM_PAUSE_MS);
    } finally {
      this.#claiming.delete(key);
      this.#wake();
    }
  }

  async #claim(task: Task, run: Run): Promise<void> {
    const kit = this.#kit;
    const fault = await this.#branchFault(run);
    if (fault === HELD || isAway(fault)) return;
    const base = kit.mirror.runs.get(run.run)?.run.head ?? run.head;
    const { attempt, claimed, unnoted } = await this.#take(task, base);
    if (fault)
      await settleFailed(kit, attempt, "infra", errorEvidence("making the integration branch", fault));
    else if (unnoted) await settleFailed(kit, attempt, "infra", errorEvidence("noting the claim", unnoted));
    else this.#go(this.#runner(attempt, claimed, run), (runner) => runner.start());
  }

  async #take(
    task: Task,
    base: string,
    more: { recovers?: string } = {},
  ): Promise<{ attempt: Attempt; claimed: Task; unnoted: unknown }> {
    const kit = this.#kit;
    const { run } = task;
    const number = nextAttempt(task);
    const expected: AttemptRef = { run, task: task.spec.id, attempt: number };
    const dir = attemptDir(
      kit.stateDir,
      expected,
      attemptName(expected, kit.clock.now(), randomHex(kit.random, 6)),
    );
    // Repeated until it is answered: the bus knows a claim by its workspace, which is used once.
    const answer = await whileAway(kit, { ref: expected, abort: this.#letGo }, () => {
      faultPoint("scheduler.claim.before-call");
      return kit.bus.call("claim", {
        run,
        task: task.spec.id,
        state_version: task.state_version,
        worker: kit.worker,
        base,
        workspace: dir,
        ...more,
      });
    });
    const tokens = { shim: answer.shim_token, agent: answer.agent_token };
    const ref = { ...expected, attempt: answer.attempt };
    const attempt: Attempt = { ref, dir, base, tokens, abort: new AbortController() };
    const unnoted = noteOf(claimFile(kit.stateDir, dir), tokens);
    kit.mirror.update(answer.task);
    kit.log.info("attempt claimed", { ...ref, base, dir });
    return { attempt, claimed: answer.task, unnoted };
  }

  /**
   * A landing that the state has forgotten, or has no proof of any more, is proven anew and taken over (recover.ts). What
   * the state takes for running or for another result ends first, free of charge. Rejects while the bus is away.
   */
  async recover(run: string, landing: AheadLanding): Promise<TakenOver> {
    const kit = this.#kit;
    const at = kit.mirror.runs.get(run);
    const task = at?.tasks.get(landing.task);
    if (!at || !task || this.isBusy(task)) return { kind: "later", why: "its task is at work" };
    const key = keyOf(task);
    this.#claiming.add(key);
    try {
      const { attempt, claimed, now } = await this.#forRecovery(task, landing);
      const recovery = { kit, attempt, task: now, run: at.run, landing, canaries: this.#canaries, claimed };
      return await new Promise<TakenOver>((resolve) => {
        this.#go(this.#runner(attempt, now, at.run), async () => resolve(await takeOver(recovery)));
      });
    } catch (error) {
      if (!isCode(error, "STALE", "NOT_CLAIMABLE", "ILLEGAL_MOVE", "FENCED")) throw error;
      kit.mirror.stale.add(run);
      return { kind: "later", why: error.message };
    } finally {
      this.#claiming.delete(key);
      this.#wake();
    }
  }

  async #forRecovery(
    task: Task,
    landing: AheadLanding,
  ): Promise<{ attempt: Attempt; claimed: boolean; now: Task }> {
    const kit = this.#kit;
    const { state } = task;
    if (state.name === "passed" && state.attempt === landing.attempt)
      return { attempt: claimedBefore(kit, task, state), claimed: false, now: task };
    let free = task;
    if (state.name === "running" || state.name === "passed") {
      await settleFailed(kit, claimedBefore(kit, task, state), "lost", evidence(OLDER, { machine: OLDER }));
      free = (await kit.bus.call("get_task", { run: task.run, task: task.spec.id })).task;
      kit.mirror.update(free);
    }
    const { attempt, claimed, unnoted } = await this.#take(free, landing.old, { recovers: landing.commit });
    if (unnoted) throw unnoted;
    return { attempt, claimed: true, now: claimed };
  }

  /**
   * Undefined when the branch of the run is there and right, HELD when the run stands still for it; asked once per run,
   * again after an error, and whenever the bus is back.
   */
  async #branchFault(run: Run): Promise<unknown> {
    const known = this.#branches.get(run.run) ?? this.#makeBranch(run);
    this.#branches.set(run.run, known);
    try {
      await known;
      return undefined;
    } catch (error) {
      this.#branches.delete(run.run);
      return error;
    }
  }

  async #makeBranch(run: Run): Promise<void> {
    await ensureIntegrationBranch(this.#kit.control, run.run, run.spec.base);
    if (!(await this.#mayStart(run.run))) throw HELD;
  }

  /** The bus is back: nothing that was known of branches holds. */
  lookAgain(): void {
    this.#branches.clear();
  }

  #runner(attempt: Attempt, task: Task, run: Run): AttemptRunner {
    const asked = { canaries: this.#canaries, bases: this.#bases, checkouts: this.#checkouts };
    return new AttemptRunner({ kit: this.#kit, attempt, task, run, ...asked });
  }

  #go(runner: AttemptRunner, work: (runner: AttemptRunner) => Promise<void>): void {
    const { run, task } = runner.attempt.ref;
    const key = taskKey(run, task);
    const live: Live = { runner, done: Promise.resolve() };
    this.#live.set(key, live);
    live.done = work(runner).finally(() => {
      if (runner.attempt.abort.signal.reason !== DETACH) removeTaskSocket(this.#kit, runner.attempt.ref);
      if (this.#live.get(key) === live) this.#live.delete(key);
      this.#wake();
    });
  }

  /** At the start: ends what has no right to run. */
  async clear(): Promise<void> {
    this.#living = await clearRest(this.#kit);
    sweepTaskSockets(this.#kit);
  }

  /** Running attempts of ours that nobody works on: of an earlier scheduler, or claimed without our knowing. */
  adopt(): void {
    const kit = this.#kit;
    for (const { run, tasks, underway } of kit.mirror.runs.values())
      for (const id of underway) {
        const task = tasks.get(id);
        const found = task && !this.isBusy(task) && adopt(kit, task, this.#living);
        if (!found) continue;
        const { attempt } = found;
        kit.log.info("attempt taken over", { ...attempt.ref, kind: found.kind, dir: attempt.dir });
        const runner = this.#runner(attempt, task, run);
        if (found.kind === "lost") {
          const said = evidence(found.why, found.innocent ? { machine: found.why } : {});
          this.#go(runner, () => this.#settleLost(attempt, said));
        } else {
          const { ref, dir } = attempt;
          const job = {
            ref,
            kind: "agent",
            name: "agent",
            dir,
            files: AGENT_FILES,
            shim: found.shim,
          } as const;
          const outcome = kit.processes.watch(job, attempt.abort.signal);
          this.#go(runner, () => runner.resume(found.workspace, found.shim, outcome));
        }
      }
    kit.processes.look();
  }

  async #settleLost(attempt: Attempt, said: Evidence): Promise<void> {
    try {
      const { kit, dir } = { kit: this.#kit, dir: attempt.dir };
      const groups = groupsOf(kit.limitHost.groups, kit.stateDir, { dir, name: "agent" });
      await endStrays({ dirs: [dir], groups }, kit.config.kill_grace_ms);
      await settleFailed(this.#kit, attempt, "lost", said);
    } catch (error) {
      this.#kit.log.error("a lost attempt could not be settled; its lease will end", {
        ...attempt.ref,
        error: String(error),
      });
    }
  }

  publish(record: EventNotice): void {
    const { run, task, attempt } = record;
    if (run === undefined || task === undefined) return;
    const live = this.#live.get(taskKey(run, task));
    if (live?.runner.attempt.ref.attempt === attempt) live?.runner.publish();
  }

  /** Stops what the bus has ended: cancelled, lost by its lease, given to another attempt. */
  stopEnded(): void {
    const { mirror } = this.#kit;
    for (const { runner } of this.#live.values()) {
      const { ref, abort } = runner.attempt;
      if (abort.signal.aborted || mirror.stale.has(ref.run)) continue;
      const task = mirror.task(ref.run, ref.task);
      // No such task: the bus came back with a state from before the run.
      if (!task || isOver(task, ref.attempt))
        abort.abort(
          new Error(`the attempt is over: the task is ${task?.state.name ?? "unknown to the bus"}`),
        );
    }
  }

  /**
   * Says that we live, where nothing else does: in prepare, capture and prove. While the agent is at work its shim says
   * so itself, and nobody for it: a shim that is stopped or cannot be seen must not live by our word. Doubts about
   * shims are told when they change.
   */
  renew(leaseMs: number): void {
    const { mirror, bus, log, processes } = this.#kit;
    for (const { runner } of this.#live.values()) {
      const { ref } = runner.attempt;
      const state = mirror.running(ref.run, ref.task, ref.attempt);
      if (!state) continue;
      const doubt = processes.doubtOf(ref) ?? null;
      const isNews = doubt?.why !== state.doubt?.why;
      const isLow = state.phase !== "agent" && this.#leases.isLow(runner, state.lease_until, leaseMs);
      if (!isNews && !isLow) continue;
      if (isNews && doubt) log.warn("nobody can say whether the shim works", { ...ref, ...doubt });
      faultPoint("scheduler.lease.before-renew");
      void bus
        .call("attempt_update", { ...ref, ...(isNews && { doubt }) })
        .catch((error) => log.warn("the bus was not told", { ...ref, error: String(error) }));
    }
  }

  /** While the disk is full: whoever has filled it and has ended gives room back. */
  async relieve(): Promise<void> {
    if ((await lookAtMachine(this.#kit.stateDir)).free >= DISK_GONE_BYTES) return;
    for (const { runner } of this.#live.values()) await runner.relieve();
  }

  /** What no cancelling ends: a landing that is proven anew for a task that has passed. The next scheduler does it again. */
  letGoOfLandings(): void {
    for (const { runner } of this.#live.values()) {
      const { ref, abort } = runner.attempt;
      if (this.#kit.mirror.task(ref.run, ref.task)?.state.name === "passed") abort.abort(DETACH);
    }
  }

  /** Waits until nothing runs; at most `limitMs`. */
  async drain(limitMs: number): Promise<void> {
    const all = Promise.allSettled([...this.#live.values()].map((live) => live.done));
    const limit = new AbortController();
    await Promise.race([all, delay(limitMs, undefined, { signal: limit.signal }).catch(() => {})]);
    limit.abort();
  }

  /** Lets go: agents go on under their shims, checks are told to end, nothing is reported. */
  async detach(): Promise<void> {
    this.#letGo.abort(DETACH);
    for (const { runner } of this.#live.values()) runner.attempt.abort.abort(DETACH);
    await this.drain(DETACH_MS);
  }
}

/** The run stands still by its branch: nothing of it is claimed. */
const HELD = new Error("the run is held by its integration branch");

const AGENT_FILES = { log: FILES.log, outbox: FILES.outbox, done: FILES.done, pid: FILES.pid };
/** A claim that was refused is not tried again at once. */
const CLAIM_PAUSE_MS = 200;
const DETACH_MS = 2_000;

function isOver({ state }: Task, attempt: number): boolean {
  return (state.name !== "running" && state.name !== "passed") || state.attempt !== attempt;
}

/** A claim that cannot be noted is given back at once: the bus has it, and nobody else would until its lease ends. */
function noteOf(path: string, tokens: Attempt["tokens"]): unknown {
  try {
    faultPoint("scheduler.claim.before-note");
    writeClaimNote(path, tokens);
    return undefined;
  } catch (error) {
    return error;
  }
}

function keyOf(task: Task): string {
  return taskKey(task.run, task.spec.id);
}
