// One train per run: takes the first of the queue, lands it, takes the next, until none is left or the run is paused.
// What the bus did to a task meanwhile (cancel) aborts its turn.

import { setTimeout as delay } from "node:timers/promises";
import { attemptLabel, candidateRef, integrationBranch, integrationRef } from "../schemas/ids.ts";
import type { Task } from "../schemas/task.ts";
import { type Bases, lifeOf, pauseRun } from "./bases.ts";
import { claimedBefore } from "./edges.ts";
import { errorEvidence } from "./evidence.ts";
import { letGoOn, waitedForRoom } from "./hold.ts";
import type { Attempt, Kit } from "./kit.ts";
import type { RunMirror } from "./mirror.ts";
import { DETACH } from "./processes.ts";
import { type ReconcileAnswer, reconcileRun } from "./reconcile.ts";
import type { TakenOver } from "./recover.ts";
import { heldLock, readRef } from "./refs.ts";
import { isAway, settleFailed } from "./settle.ts";
import { type AheadLanding, trainOrder } from "./train.ts";
import { landOne, type Passenger } from "./train-runner.ts";

/** `unseen`: git failed, which says nothing of the branch. The slow tick looks again; nothing lands or starts before. */
type Looked = ReconcileAnswer | { kind: "unseen"; why: string };

interface Train {
  done: Promise<void>;
  attempt: Attempt | undefined;
}

/** Turns of one attempt that may end by trouble of ours. */
const MAX_TURNS = 3;
const TURN_PAUSE_MS = 1_000;
/** Looks in a row that fail, before a person is asked. */
const MAX_LOOKS = 4;

export class Trains {
  readonly #kit: Kit;
  readonly #bases: Bases;
  readonly #active = new Map<string, Train>();
  /** Turns that are over; the mirror may learn of it a moment later. */
  readonly #had = new Set<string>();
  /** Turns that met trouble of ours and are to be taken again. */
  readonly #turns = new Map<string, number>();
  /** Looks at a branch that failed in a row. */
  readonly #unseen = new Map<string, number>();
  /** Runs whose branch somebody else moved, or could not be looked at: what was found. */
  readonly halted = new Map<string, string>();

  /** Takes over a landing that the state has forgotten (attempts.ts). */
  readonly #recover: (run: string, landing: AheadLanding) => Promise<TakenOver>;
  /** Runs in which one is being taken over. */
  readonly #recovering = new Set<string>();

  constructor(kit: Kit, bases: Bases, recover: (run: string, landing: AheadLanding) => Promise<TakenOver>) {
    this.#kit = kit;
    this.#bases = bases;
    this.#recover = recover;
  }

  get busy(): boolean {
    return this.#active.size > 0 || this.#recovering.size > 0;
  }

  /**
   * At the start, and whenever the bus is back (it may have come back with an older state): what was moved and not
   * reported is reported, and what the state has forgotten is taken over, before anything else lands. A run whose branch
   * cannot be looked at stands still by itself. Rejects only while the bus is away.
   */
  async begin(): Promise<void> {
    this.#had.clear();
    this.#turns.clear();
    for (const [run, at] of this.#kit.mirror.runs) {
      // A turn that goes on moves the branch itself, and sees what is wrong with it.
      if (at.run.paused || this.#active.has(run) || !(await this.#mayBeAhead(run, at))) continue;
      await this.#act(run, await this.#look(run));
    }
  }

  /** Something can land still, or was on its way when the scheduler ended and was cancelled since. */
  async #mayBeAhead(run: string, { run: facts, tasks, underway }: RunMirror): Promise<boolean> {
    if (underway.size > 0) return true;
    const mayLand = ({ state, attempts }: Task) =>
      state.name === "ready" ||
      state.name === "retrying" ||
      (state.name !== "passed" && attempts.at(-1)?.result === "passed");
    // The branch of a run that is over is the person's to remove.
    if (![...tasks.values()].some(mayLand)) return false;
    const head = await readRef(this.#kit.control, integrationRef(run));
    return head !== null && head !== facts.head;
  }

  /** Before anything of the run starts: whether its branch is as the bus has it. */
  async mayStart(run: string): Promise<boolean> {
    if (this.halted.has(run)) return false;
    await this.#act(run, await this.#look(run));
    return !this.halted.has(run);
  }

  /** What a look at the branch asks for. */
  async #act(run: string, answer: Looked): Promise<void> {
    if (answer.kind === "unseen") {
      this.halted.set(run, answer.why);
      this.#kit.log.warn("the run waits until its branch was looked at", { run, why: answer.why });
    } else if (answer.kind === "foreign") await this.#halt(run, answer.why);
    else if (answer.kind === "forgotten" && !this.#recovering.has(run)) this.#takeOver(run, answer.landing);
  }

  /** Nothing else lands or starts meanwhile; checks take their time, so nobody waits for it. */
  #takeOver(run: string, landing: AheadLanding): void {
    const { commit, task, attempt } = landing;
    this.halted.set(run, `landing ${commit} of ${task}#${attempt} is being proven anew`);
    this.#recovering.add(run);
    this.#kit.log.warn("a landing on the branch is not known to the state; it is proven anew", {
      run,
      ...landing,
    });
    void this.#recover(run, landing)
      .catch((error: unknown): TakenOver => ({ kind: "later", why: String(error) }))
      .then(async (taken) => {
        this.#recovering.delete(run);
        if (taken.kind === "red") await this.#halt(run, `${taken.error.code}: ${taken.error.message}`);
        else if (taken.kind === "landed") await this.revisitHalted();
        else this.#kit.log.warn("a landing is not taken over yet; tried again", { run, why: taken.why });
      })
      .catch((error: unknown) =>
        this.#kit.log.warn("the slow tick looks at the branch again", { run, error: String(error) }),
      );
  }

  async #look(run: string): Promise<Looked> {
    try {
      const answer = await reconcileRun(this.#kit, run);
      this.#unseen.delete(run);
      return answer;
    } catch (error) {
      if (isAway(error)) throw error;
      const why = `the integration branch cannot be looked at: ${String(error)}`;
      const looks = (this.#unseen.get(run) ?? 0) + 1;
      this.#unseen.set(run, looks);
      return { kind: looks < MAX_LOOKS ? "unseen" : "foreign", why };
    }
  }

  /** Starts the trains that have something to do; aborts turns of tasks that are not on their way any more. */
  move(): void {
    for (const [run, { run: facts }] of this.#kit.mirror.runs) {
      const train = this.#active.get(run);
      if (train) this.#check(train);
      else if (!facts.paused && !this.halted.has(run) && this.#next(run)) this.#start(run);
    }
  }

  /** Ends all turns without a word to the bus. */
  async detach(): Promise<void> {
    for (const { attempt } of this.#active.values()) attempt?.abort.abort(DETACH);
    await Promise.allSettled([...this.#active.values()].map((train) => train.done));
  }

  /**
   * A person may have mended the branch: looked at again in the slow tick. Never left silently: a run that was resumed
   * and whose branch is still not right is paused again, with the reason.
   */
  async revisitHalted(): Promise<void> {
    for (const run of [...this.halted.keys()]) {
      if (this.#recovering.has(run)) continue;
      const facts = this.#kit.mirror.runs.get(run)?.run;
      const answer = await this.#look(run);
      if (answer.kind === "same" || answer.kind === "reported") {
        this.halted.delete(run);
        this.#kit.log.info("the integration branch is as the bus has it", { run });
      } else if (facts && !facts.paused) await this.#act(run, answer);
    }
  }

  /** A person let the run go on: nothing lands or starts before its branch was looked at, as patiently as at first. */
  async resumed(run: string): Promise<void> {
    const at = this.#kit.mirror.runs.get(run);
    this.#unseen.delete(run);
    // A turn that goes on meanwhile moves the branch itself and sees what is wrong with it.
    if (!at || this.#active.has(run) || (at.underway.size === 0 && !this.halted.has(run))) return;
    if (!this.halted.has(run)) this.halted.set(run, "its branch is being looked at");
    try {
      await this.revisitHalted();
    } catch (error) {
      this.#kit.log.warn("looking at the branch failed; the slow tick tries again", {
        run,
        error: String(error),
      });
    }
  }

  #check({ attempt }: Train): void {
    if (!attempt) return;
    const state = this.#kit.mirror.task(attempt.ref.run, attempt.ref.task)?.state;
    const onItsWay = state?.name === "passed" && state.attempt === attempt.ref.attempt;
    if (!onItsWay) attempt.abort.abort(new Error("the task is not on its way to land any more"));
  }

  #start(run: string): void {
    const train: Train = { done: Promise.resolve(), attempt: undefined };
    this.#active.set(run, train);
    train.done = this.#ride(run, train)
      .catch((error) =>
        this.#kit.log.error("the train stopped", { run, error: String(error?.stack ?? error) }),
      )
      .finally(() => this.#active.delete(run));
  }

  async #ride(run: string, train: Train): Promise<void> {
    for (;;) {
      const facts = this.#kit.mirror.runs.get(run)?.run;
      if (!facts || facts.paused || this.halted.has(run)) return;
      const task = this.#next(run);
      if (!task) return;
      const passenger = this.#board(task);
      if (!passenger) return;
      train.attempt = passenger.attempt;
      const went = await this.#turn(passenger);
      const { signal } = passenger.attempt.abort;
      train.attempt = undefined;
      if (!went || signal.reason === DETACH) return;
    }
  }

  /** False: the bus is away, which is nobody's fault; the next tick with a bus takes the same turn again. */
  async #turn(passenger: Passenger): Promise<boolean> {
    const { kit, attempt, run } = passenger;
    const life = lifeOf(kit, run.run);
    try {
      await letGoOn(kit, attempt);
      const landed = await landOne(passenger).catch(
        (error: unknown) => ({ kind: "trouble", error }) as const,
      );
      switch (landed.kind) {
        case "foreign":
          await this.#mend(run.run);
          break;
        case "held":
          // What a person let go on meanwhile is looked at anew.
          if (lifeOf(kit, run.run) === life) await pauseRun(kit, run.run, landed.why);
          break;
        case "trouble":
          await this.#trouble(passenger, landed.error);
          break;
        default:
          this.#had.add(attemptLabel(attempt.ref));
      }
      return true;
    } catch (error) {
      if (!isAway(error)) throw error;
      kit.log.warn("the train waits for the bus", { ...attempt.ref, why: String(error) });
      return false;
    }
  }

  /** Brings branch and bus together, or pauses the run. True: they are as they were, nothing was found. */
  async #mend(run: string): Promise<boolean> {
    const answer = await this.#look(run);
    await this.#act(run, answer);
    return answer.kind === "same";
  }

  async #trouble(passenger: Passenger, error: unknown): Promise<void> {
    const { attempt, run } = passenger;
    const { aborted, reason } = attempt.abort.signal;
    if (!aborted) return await this.#again(passenger, error);
    this.#had.add(attemptLabel(attempt.ref));
    // The turn may have ended anywhere; the next scheduler looks by itself.
    if (reason !== DETACH) await this.#mend(run.run);
  }

  /**
   * Trouble of ours with a task whose work is proven and kept: never settled before branch and bus are one, and the same
   * turn again, so often. Then it is a lock that nobody gives back, for a person to see; or goes back as infra.
   */
  async #again(passenger: Passenger, error: unknown): Promise<void> {
    if (isAway(error)) throw error;
    const { kit, attempt, run } = passenger;
    const label = attemptLabel(attempt.ref);
    const turns = (this.#turns.get(label) ?? 0) + 1;
    kit.log.error("landing met an error of ours", { ...attempt.ref, turns, error: String(error) });
    if (!(await this.#mend(run.run))) return;
    // Nobody's turn is used up by a disk that is full or read-only.
    if (await waitedForRoom(kit, attempt).catch(() => true)) return;
    this.#turns.set(label, turns);
    if (turns < MAX_TURNS) {
      const { signal } = attempt.abort;
      await delay(TURN_PAUSE_MS * turns, undefined, { signal }).catch(() => {});
      return;
    }
    this.#turns.delete(label);
    const lock = heldLock(kit.control, [integrationRef(run.run), candidateRef(run.run)]);
    if (lock) return await this.#halt(run.run, `nothing can land while somebody holds ${lock}`);
    this.#had.add(label);
    await settleFailed(kit, attempt, "infra", errorEvidence("landing", error));
  }

  /** Nobody lands on a branch that somebody else moved; a person has to look at it. */
  async #halt(run: string, why: string): Promise<void> {
    this.halted.set(run, why);
    const branch = integrationBranch(run);
    await pauseRun(this.#kit, run, why.includes(branch) ? why : `${why}; look at ${branch}`);
  }

  #next(run: string): Task | undefined {
    const { mirror } = this.#kit;
    const at = mirror.runs.get(run);
    if (!at) return undefined;
    const underway = [...at.underway].flatMap((id) => at.tasks.get(id) ?? []);
    const order = trainOrder(
      underway,
      (id) => at.order.get(id) ?? 0,
      (id) => mirror.isMerged(run, id) || !at.tasks.has(id),
    );
    return order.find(
      (task) => !this.#had.has(attemptLabel({ run, task: task.spec.id, attempt: task.state.attempt })),
    );
  }

  #board(task: Task): Passenger | undefined {
    const kit = this.#kit;
    const at = kit.mirror.runs.get(task.run);
    const { state } = task;
    if (!at || state.name !== "passed" || state.snapshot === null) return undefined;
    const attempt = claimedBefore(kit, task, state);
    return { kit, bases: this.#bases, attempt, task, run: at.run, snapshot: state.snapshot };
  }
}
