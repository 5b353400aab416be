// Tells the bus how an attempt ended. The bus decides what follows. A bus that is away is waited for: the call is
// idempotent, and what was found out must not be lost.

import { setTimeout as delay } from "node:timers/promises";
import { isCode } from "../schemas/errors.ts";
import { faultPoint } from "../schemas/fault-points.ts";
import type { Params } from "../schemas/methods.ts";
import type { Cause, Evidence, SnapshotInfo } from "../schemas/task.ts";
import type { Attempt, Kit } from "./kit.ts";
import { DETACH } from "./processes.ts";

type Settlement = Params<"settle_attempt">["result"];

const AWAY_RETRY_MS = 500;

export type Settled = "settled" | "fenced";

/** "fenced": the attempt is no longer ours; nothing was changed. */
export async function settle(kit: Kit, attempt: Attempt, result: Settlement): Promise<Settled> {
  try {
    const { state } = await whileAway(kit, attempt, () => {
      faultPoint("scheduler.settle.before-call");
      return kit.bus.call("settle_attempt", { ...attempt.ref, result });
    });
    const what = result.kind === "failed" ? { cause: result.cause, why: result.evidence.summary } : {};
    kit.log.info("attempt settled", { ...attempt.ref, result: result.kind, ...what, state });
    return "settled";
  } catch (error) {
    if (!isCode(error, "FENCED", "ILLEGAL_MOVE", "NO_SUCH_TASK", "NO_SUCH_RUN")) throw error;
    kit.log.info("attempt was over already", { ...attempt.ref, result: result.kind, why: error.message });
    return "fenced";
  }
}

export function settleFailed(kit: Kit, attempt: Attempt, cause: Cause, evidence: Evidence): Promise<Settled> {
  return settle(kit, attempt, { kind: "failed", cause, evidence });
}

export function settlePassed(kit: Kit, attempt: Attempt, snapshot: SnapshotInfo | null): Promise<Settled> {
  return settle(kit, attempt, { kind: "passed", snapshot, base: attempt.base });
}

/** The bus is not there, or cannot take it now: the same call may be answered later. */
export function isAway(error: unknown): boolean {
  return isCode(error, "BUS_AWAY", "TIMEOUT", "STORAGE", "SHUTTING_DOWN");
}

/** Repeats an idempotent call until the bus answers, or the scheduler ends. */
export async function whileAway<T>(
  kit: Pick<Kit, "log">,
  attempt: Pick<Attempt, "ref"> & { abort: Pick<AbortController, "signal"> },
  call: () => Promise<T>,
): Promise<T> {
  for (let said = false; ; said = true) {
    try {
      return await call();
    } catch (error) {
      if (!isAway(error)) throw error;
      if (attempt.abort.signal.reason === DETACH) throw error;
      if (!said)
        kit.log.warn("the bus does not take it; trying again", { ...attempt.ref, why: String(error) });
      await delay(AWAY_RETRY_MS);
    }
  }
}
