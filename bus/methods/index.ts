// The handlers that change state, put together; those that only read stand in reads.ts.

import type { AnyEvent } from "../../schemas/events.ts";
import type { Ping } from "../../schemas/methods.ts";
import type { Handlers } from "../dispatch.ts";
import { cancelTask } from "../state/decide-person.ts";
import type { Store } from "../state/store.ts";
import { StateTimers, type TimerSetter } from "../state/timers.ts";
import { agentHandlers } from "./agent.ts";
import type { Deps } from "./deps.ts";
import { AttemptPeers } from "./peers.ts";
import { peopleHandlers } from "./people.ts";
import { schedulerHandlers } from "./scheduler.ts";
import { shimHandlers } from "./shim.ts";
import { Workers } from "./workers.ts";

export interface Methods {
  handlers: Handlers;
  /** Name of the registered scheduler. */
  worker(): Pick<Ping, "worker" | "limits" | "sandbox">;
  /** Cancels every running attempt; its shim is told. */
  cancelRunning(by: string): Promise<void>;
  /** Ends the timers of leases, retries and checkpoints; call before the store is closed. */
  stop(): void;
}

const REAL_TIMER: TimerSetter = {
  set: (fn, ms) => setTimeout(fn, ms).unref(),
  clear: (handle) => clearTimeout(handle as NodeJS.Timeout | undefined),
};

/**
 * Also starts what goes on by itself: the timers of the state, and a listener so that the shims of a cancelled or lost
 * attempt are told to end.
 */
export function makeMethods(
  parts: Omit<Deps, "workers" | "peers" | "signOfLife">,
  timer: TimerSetter = REAL_TIMER,
): Methods {
  const peers = new AttemptPeers();
  const workers = new Workers(parts.store, parts.log);
  const timers = new StateTimers({
    ...parts,
    leaseMs: parts.config.lease_s * 1000,
    hasScheduler: () => workers.current !== null,
    ...timer,
  });
  const signOfLife: Deps["signOfLife"] = (ref, who) => timers.alive(ref, who);
  const deps: Deps = { ...parts, peers, workers, signOfLife };
  parts.store.onRecord(({ run, task, event }) => {
    const reason = event && endReason(event);
    const attempt =
      run !== undefined && task !== undefined && parts.store.view.task(run, task)?.attempts.at(-1);
    if (reason === undefined || !attempt) return;
    peers.cancel({ run: run!, task: task!, attempt: attempt.attempt }, reason);
  });
  const handlers: Handlers = {
    ...agentHandlers(deps),
    ...shimHandlers(deps),
    ...schedulerHandlers(deps),
    ...peopleHandlers(deps),
  };
  return {
    handlers,
    worker: () => workers.facts,
    cancelRunning: (by) => cancelRunning(parts.store, by),
    stop: () => timers.stop(),
  };
}

async function cancelRunning(store: Store, by: string): Promise<void> {
  const running = [...store.view.runs()].flatMap(({ run }) =>
    [...store.view.tasks(run)].filter(({ state }) => state.name === "running"),
  );
  if (running.length === 0) return;
  await store.change({ actor: by }, (d) => {
    for (const { run, spec } of running)
      if (d.task(run, spec.id)?.state.name === "running") cancelTask(d, run, spec.id, by);
  });
}

function endReason(event: AnyEvent): string | undefined {
  if (event.type === "task.cancelled") return `cancelled by ${event.by}`;
  if (event.type === "task.failed" && event.cause === "lost") return event.evidence.summary;
  return undefined;
}
