// One attempt from claim to settlement. Nothing that goes wrong in it goes further than it: an error that is nobody's
// settles the attempt as infra, with the step's name.
//
// 1. prepare (prepare.ts)  2. agent: a shim is started and its outcome waited for  3. conclude (conclude.ts)
// Cancelled or fenced by the bus: the processes are ended, what is on the disk is kept (harvest, capture), nothing is
// reported. The scheduler ends (DETACH): agents go on under their shims; the next scheduler takes them over.

import { join } from "node:path";
import { faultPoint } from "../schemas/fault-points.ts";
import type { Outcome, ShimJob } from "../schemas/job.ts";
import type { Run, Task } from "../schemas/task.ts";
import type { Bases } from "./bases.ts";
import type { Canaries } from "./canary.ts";
import type { CheckoutWatch } from "./checkout-watch.ts";
import { Coalesced } from "./coalesced.ts";
import { conclude } from "./conclude.ts";
import { endingWith } from "./control.ts";
import { FILES } from "./dirs.ts";
import { errorEvidence } from "./evidence.ts";
import { whileGone } from "./gone.ts";
import { whileUnwritable } from "./hold.ts";
import type { Attempt, Kit } from "./kit.ts";
import { liveness, type PidFile, readPidFile } from "./liveness.ts";
import { makeRoom } from "./make-room.ts";
import { type Prepared, prepare, StepFailed } from "./prepare.ts";
import { DETACH } from "./processes.ts";
import { publishOnRequest } from "./publish.ts";
import { settleFailed, whileAway } from "./settle.ts";
import { type Concluding, keep } from "./snapshot.ts";
import { type Ended, explained, lookAtMachine, type MachineLook, troubleBetween } from "./trouble.ts";
import { removeWorkspace, type Workspace } from "./workspace.ts";

export interface AttemptWork {
  kit: Kit;
  attempt: Attempt;
  task: Task;
  run: Run;
  canaries: Canaries;
  bases: Bases;
  checkouts: CheckoutWatch;
}

export class AttemptRunner {
  /** Its git calls end when the attempt is stopped. */
  readonly #work: AttemptWork;
  /** What of an attempt that was cancelled is kept is kept with this; only the end of the scheduler ends its git. */
  readonly #kit: Kit;
  #workspace: Workspace | undefined;
  /** Secrets that the agent has. */
  #given: ShimJob["secrets"] | undefined;
  /** The machine when the agent was started. */
  #before: Partial<MachineLook> = {};
  /** What the agent filled the disk with, once it was removed. */
  #filled: string | undefined;
  /** Captures of one workspace go one after the other. */
  readonly #captures = new Coalesced();

  constructor(work: AttemptWork) {
    this.#kit = work.kit;
    const control = endingWith(work.kit.control, work.attempt.abort.signal);
    this.#work = { ...work, kit: { ...work.kit, control } };
  }

  get attempt(): Attempt {
    return this.#work.attempt;
  }

  #at(workspace: Workspace): Concluding {
    return { ...this.#work, workspace, ...(this.#given ? { given: this.#given } : {}) };
  }

  /** The bus was asked by the agent for a new snapshot. */
  publish(): void {
    const workspace = this.#workspace;
    if (!workspace) return;
    this.#captures.ask(() => publishOnRequest(this.#at(workspace)));
  }

  /** A fresh attempt. Never rejects. */
  async start(): Promise<void> {
    const { kit, attempt, run, canaries, checkouts } = this.#work;
    const lease = kit.ports.lease();
    try {
      checkouts.begin(run.run);
      void canaries.ask(kit, this.#work);
      const prepared = await this.#prepare(lease.port);
      if (!prepared) return;
      this.#workspace = prepared.workspace;
      this.#given = prepared.job.secrets;
      await whileAway(kit, attempt, () => {
        faultPoint("scheduler.attempt.before-agent-phase");
        return kit.bus.call("attempt_update", { ...attempt.ref, phase: "agent" });
      });
      this.#before = await lookAtMachine(kit.stateDir);
      const outcome = await kit.processes.run(prepared.job, attempt.abort.signal);
      await this.#end(prepared.workspace, await this.#ended(outcome));
    } catch (error) {
      await this.#failed(error);
    } finally {
      lease.release();
    }
  }

  /** An attempt of an earlier scheduler whose agent has ended, or ends under its own shim. Never rejects. */
  async resume(workspace: Workspace, shim: PidFile | undefined, outcome: Promise<Outcome>): Promise<void> {
    this.#workspace = workspace;
    this.#before = { boot: bootOf(shim) };
    try {
      await this.#end(workspace, await this.#ended(await outcome));
    } catch (error) {
      await this.#failed(error);
    }
  }

  async #prepare(port: number): Promise<Prepared | undefined> {
    const { kit, attempt } = this.#work;
    const fresh = async () => {
      try {
        return await prepare(this.#work, port);
      } catch (error) {
        // No agent has been here yet: nothing to keep.
        if (attempt.abort.signal.reason !== DETACH) await removeWorkspace(kit.control, attempt.dir);
        throw error;
      }
    };
    try {
      return await whileGone(this.#work, fresh);
    } catch (error) {
      if (!(error instanceof StepFailed)) throw error;
      await settleFailed(kit, attempt, "infra", error.evidence);
      return undefined;
    }
  }

  /**
   * For the slow tick. On a full disk the end of an agent cannot be told: its shim can write no outbox, the bus no record.
   * Then what the agent wrote goes before anybody hears of its end.
   */
  async relieve(): Promise<void> {
    const shim = readPidFile(join(this.attempt.dir, FILES.pid));
    if (typeof shim === "object" && shim.child && liveness(shim.child) === "dead") await this.#makeRoom();
  }

  async #makeRoom(): Promise<void> {
    const { kit, attempt } = this.#work;
    this.#filled ??= await makeRoom(kit.stateDir, attempt.dir, this.#before.free);
    if (this.#filled !== undefined)
      kit.log.error("an attempt filled the disk", { ...attempt.ref, what: this.#filled });
  }

  /** The disk first: nothing about the end can be written on one that is full. */
  async #ended(outcome: Outcome): Promise<Ended> {
    await this.#makeRoom();
    if (this.#filled !== undefined) return { outcome, filled: this.#filled };
    return explained(this.#work.kit.stateDir, this.#before, outcome);
  }

  async #end(workspace: Workspace, ended: Ended): Promise<void> {
    const at = this.#at(workspace);
    await this.#captures.idle();
    const { signal } = at.attempt.abort;
    if (signal.aborted) return await this.#keepOnly(at);
    try {
      await whileUnwritable(this.#kit, at.attempt, () => whileGone(at, () => conclude(at, ended)));
    } catch (error) {
      // A cancel may come at any step; what is on the disk is kept all the same.
      if (signal.aborted && signal.reason !== DETACH) return await this.#keepOnly(at);
      throw error;
    }
  }

  async #keepOnly(at: Concluding): Promise<void> {
    if (at.attempt.abort.signal.reason === DETACH) return;
    // With the versions that were published meanwhile, if the bus can be asked.
    const { run, task: id } = at.attempt.ref;
    const newest = await at.kit.bus.call("get_task", { run, task: id }).catch(() => undefined);
    const { version, changed } = await keep({ ...at, kit: this.#kit, task: newest?.task ?? at.task });
    at.kit.log.info("attempt ended by the bus; its work is kept", {
      ...at.attempt.ref,
      version,
      changed: changed.length,
    });
  }

  async #failed(error: unknown): Promise<void> {
    const { kit, attempt } = this.#work;
    if (attempt.abort.signal.aborted) {
      kit.log.info("attempt stopped", {
        ...attempt.ref,
        why: error instanceof Error ? error.message : String(error),
      });
      return;
    }
    kit.log.error("attempt met an error of ours", {
      ...attempt.ref,
      error: error instanceof Error ? (error.stack ?? error.message) : String(error),
    });
    try {
      // git says in words of its own that the disk is full; the disk says it in figures.
      const machine = troubleBetween({}, await lookAtMachine(kit.stateDir));
      const said = errorEvidence("working on the attempt", error);
      await settleFailed(kit, attempt, "infra", machine === undefined ? said : { machine, ...said });
    } catch (again) {
      kit.log.error("and it could not be settled; its lease will end", {
        ...attempt.ref,
        error: String(again),
      });
    }
  }
}

/**
 * The boot in which a shim was started, as it told the bus: its file lies where the agent can write, and another boot
 * would make any end of it free of charge. "" when that is not known.
 */
function bootOf(shim: PidFile | undefined): string {
  return shim?.start_time.split(":")[0] ?? "";
}
