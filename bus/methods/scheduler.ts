// Handlers for the scheduler: claim, progress of an attempt, results, landings.

import type { Parsed, Result } from "../../schemas/methods.ts";
import type { Random } from "../../schemas/ports.ts";
import type { Handlers } from "../dispatch.ts";
import {
  attemptUpdate,
  claim,
  holdAttempt,
  publishSnapshot,
  recordVerdict,
} from "../state/decide-attempt.ts";
import { reportInto } from "../state/decide-run.ts";
import { land, settle } from "../state/decide-settle.ts";
import { inputsChanged } from "../state/inputs.ts";
import { ProvenInputs } from "../state/proven-inputs.ts";
import type { CallContext } from "../state/view.ts";
import { type Deps, signsOfLife } from "./deps.ts";
import { runsForScheduler } from "./live-runs.ts";

export function schedulerHandlers(deps: Deps): Handlers {
  const { store, random, clock } = deps;
  const proven = new ProvenInputs(store);
  const lives = signsOfLife(deps);
  const leaseMs = deps.config.lease_s * 1000;
  return {
    register_worker: (ctx, p) => registerWorker(deps, ctx, p),
    claim: async (ctx, p) => {
      const nonce = newNonce(random);
      const claimed = await store.change(ctx, (d) => claim(d, p, leaseMs, nonce));
      const ref = { run: p.run, task: p.task, attempt: claimed.attempt };
      return {
        ...claimed,
        shim_token: deps.tokenFor("shim", ref),
        agent_token: deps.tokenFor("agent", ref),
      };
    },
    attempt_update: async (ctx, p) => {
      const answer = store.change(ctx, (d) => attemptUpdate(d, p, leaseMs));
      return p.doubt ? await answer : await lives(p, "worker", answer);
    },
    hold_attempt: (ctx, p) => store.change(ctx, (d) => holdAttempt(d, p)),
    publish_snapshot: (ctx, p) => store.change(ctx, (d) => publishSnapshot(d, p)),
    record_verdict: (ctx, p) => store.change(ctx, (d) => recordVerdict(d, p)),
    settle_attempt: (ctx, p) => store.change(ctx, (d) => settle(d, p, random)),
    land: (ctx, p) => store.change(ctx, (d) => land(d, p)),
    report_into: (ctx, p) => store.change(ctx, (d) => reportInto(d, p)),
    find_verdicts: (_ctx, p) => ({ found: proven.find(p.keys, clock.now()) }),
    inputs_changed: (_ctx, p) => inputsChanged(store.view, p),
  };
}

const NONCE_DIGITS = 16;

/** Need not be secret, the key is: only not the same twice. */
function newNonce(random: Random): string {
  return Array.from({ length: NONCE_DIGITS }, () => Math.floor(random() * 16).toString(16)).join("");
}

/** All state that may still move, so that the scheduler starts from a whole picture at `seq`. */
async function registerWorker(
  deps: Deps,
  ctx: CallContext,
  p: Parsed<"register_worker">,
): Promise<Result<"register_worker">> {
  const { store, config, stateDir, runtimeDir } = deps;
  await deps.workers.register(ctx, p);
  const { runs, tasks } = runsForScheduler(store.view);
  return {
    worker: p.worker,
    lease_ms: config.lease_s * 1000,
    config,
    state_dir: stateDir,
    runtime_dir: runtimeDir,
    runs,
    tasks,
    seq: store.seq,
  };
}
