// A check that is red on the untouched base is red whatever a task does: the gate is at fault, or the machine, and no
// task is blamed for it.
//
// 1. Asked when a check of the common gate is red on a tree that was built on the run's base. A later head was
//    proven green by every check. Acceptance may be red there: what it proves is often what the task is to make.
// 2. That check runs on the base, behind those that come before it in the gate (it may need what they build), once for
//    all who ask. Green is remembered; red until the run was let go on. Only an exit of its own is red: a process that
//    was killed or ran out of time says nothing about the base.
// 3. Red: the run is paused, with what a person can do. Attempts are held as they are: no try is used up, the agent's
//    work is kept, and their slots are free for other runs. Once the run goes on they get slots again, before anybody
//    new (placement.ts), and the gate is asked again.
// 4. A set-up that is red in the workspace of an attempt on the base, before its agent, needs no look of its own: the same.
// 5. Where nothing is found out (trouble of the machine), the red verdict of the tree stands.

import { faultPoint } from "../schemas/fault-points.ts";
import type { Evidence } from "../schemas/task.ts";
import { controlGit } from "./control.ts";
import { checksFor, type PlannedCheck } from "./gate.ts";
import type { GateOrder } from "./gate-order.ts";
import { type GateResult, runGate } from "./gate-runner.ts";
import type { Attempt, Kit } from "./kit.ts";
import { whileAway } from "./settle.ts";

/** What was found on the base: red, in words; undefined when it is green, or cannot be known. */
type Found = string | undefined;

const MAX_WHY_CHARS = 1_000;

export class Bases {
  readonly #looks = new Map<string, Promise<Found>>();
  readonly #wake: () => void;

  /** `wake`: slots have become free. */
  constructor(wake: () => void) {
    this.#wake = wake;
  }

  /** The gate, with a red end that is not the tree's doing as `held`: why nothing of this run can be proven. */
  async prove(
    kit: Kit,
    order: GateOrder,
    builtOn: string,
  ): Promise<GateResult | { kind: "held"; why: string }> {
    const result = await runGate(kit, order);
    if (result.kind === "infra" && result.cure !== undefined) return { kind: "held", why: result.cure };
    if (result.kind !== "fail" || builtOn !== order.run.spec.base || !isCommon(result.of)) return result;
    const found = await this.look(kit, order, result.of);
    return found === undefined ? result : { kind: "held", why: found };
  }

  /**
   * Pauses the run and waits, however long, until it goes on and there is a slot. Rejects when the attempt is stopped.
   * `life`: of the run, before `why` was found; what a person let go on since is not paused for it, it is looked at anew.
   */
  async hold(kit: Kit, attempt: Attempt, why: string, life: number | undefined): Promise<void> {
    const { ref } = attempt;
    const { signal } = attempt.abort;
    if (lifeOf(kit, ref.run) !== life) return;
    await whileAway(kit, attempt, () => pauseRun(kit, ref.run, why));
    kit.log.warn("an attempt is held until its run goes on; it holds no slot", { ...ref });
    try {
      await new Promise<void>((goOn, reject) => {
        signal.throwIfAborted();
        signal.addEventListener("abort", () => reject(signal.reason), { once: true });
        attempt.hold = { life, goOn };
        this.#wake();
      });
    } finally {
      delete attempt.hold;
    }
  }

  /** The check on the base of the run. */
  async look(kit: Kit, order: GateOrder, check: PlannedCheck): Promise<Found> {
    const key = `${order.run.run} ${check.tier} ${check.name}`;
    for (;;) {
      const known = this.#looks.get(key);
      const look = known ?? lookAtBase(kit, order, check);
      this.#looks.set(key, look);
      try {
        const found = await look;
        if (found !== undefined) this.#looks.delete(key);
        return found;
      } catch {
        this.#looks.delete(key);
        order.signal.throwIfAborted();
        // Whoever lent its name to the look was stopped; ours is as good.
        if (!known) return undefined;
      }
    }
  }
}

/** Set-up steps have passed on the base before any agent was there (prepare.ts). */
function isCommon(check: PlannedCheck | undefined): check is PlannedCheck {
  return check !== undefined && check.tier !== "acceptance" && check.tier !== "setup";
}

async function lookAtBase(kit: Kit, order: GateOrder, check: PlannedCheck): Promise<Found> {
  const { base } = order.run.spec;
  const tree = (await controlGit(kit.control, ["rev-parse", `${base}^{tree}`])).stdout.trim();
  const all = checksFor(order.task.spec, order.run.spec.gate, { kind: "canary" });
  const upTo = all.findIndex(({ tier, name }) => tier === check.tier && name === check.name);
  const checks = upTo < 0 ? [check] : all.slice(0, upTo + 1);
  const result = await runGate(kit, { ...order, commit: base, tree, checks, as: "base" });
  return result.kind === "fail" && endedItself(result.evidence)
    ? redOnBase(`check ${result.check}`, base, result.evidence.summary)
    : undefined;
}

/** Not killed, nor by its shell's word, nor out of time. */
export function endedItself({ exit }: Pick<Evidence, "exit">): boolean {
  return typeof exit === "number" && exit <= 128;
}

/** In words, with what a person can do. */
export function redOnBase(what: string, base: string, summary: string): string {
  return `${what} is red on the untouched base ${base.slice(0, 12)}, whatever a task does, so none is blamed: ${summary}; install or mend what it needs and go on, or mend base or gate and run the plan anew`;
}

/** Nothing more of the run starts or lands until a person has looked. */
export async function pauseRun(kit: Pick<Kit, "bus" | "log">, run: string, why: string): Promise<void> {
  kit.log.error("the run is paused", { run, why });
  faultPoint("scheduler.halt.before-pause");
  await kit.bus.call("pause", { run, why: why.slice(0, MAX_WHY_CHARS) });
}

/** Not whether it is paused: the events of a pause, and of its end, may come before or after the answer. */
export function lifeOf({ mirror }: Pick<Kit, "mirror">, run: string): number | undefined {
  return mirror.runs.get(run)?.life;
}
