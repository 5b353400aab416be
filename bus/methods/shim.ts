// Handlers for shims. The token is the attempt: nothing in the params says whose word it is.

import { BusbarError } from "../../schemas/errors.ts";
import type { AttemptRef } from "../../schemas/ids.ts";
import { HEARTBEAT_MS } from "../../schemas/limits.ts";
import type { Handlers } from "../dispatch.ts";
import { type Alive, complete, heartbeat, register } from "../state/decide-attempt.ts";
import type { CallContext } from "../state/view.ts";
import { type Deps, signsOfLife } from "./deps.ts";

export function shimHandlers(deps: Deps): Handlers {
  const { store, peers, config } = deps;
  const lives = signsOfLife(deps);
  const leaseMs = config.lease_s * 1000;
  // Several fit into every lease.
  const heartbeat_ms = Math.min(HEARTBEAT_MS, Math.floor(leaseMs / 6));
  return {
    register: async (ctx, p) => {
      const ref = attemptOf(ctx);
      peers.add(ref, ctx.peer);
      const alive = await lives(
        ref,
        p.kind,
        store.change(ctx, (d) => register(d, ref, p, leaseMs)),
      );
      endIfAsked(ctx, alive);
      return { heartbeat_ms, lease_until: alive.lease_until };
    },
    heartbeat: async (ctx, p) => {
      const ref = attemptOf(ctx);
      peers.add(ref, ctx.peer); // a shim that came back need not register again
      const alive = await lives(
        ref,
        p.kind,
        store.change(ctx, (d) => heartbeat(d, ref, p, leaseMs)),
      );
      endIfAsked(ctx, alive);
      return { lease_until: alive.lease_until };
    },
    complete: (ctx, p) => {
      const ref = attemptOf(ctx);
      const { outcome } = p;
      if (!sameAttempt(outcome.ref, ref)) {
        throw new BusbarError(
          "INVALID_PARAMS",
          "complete: the outcome is of another attempt than the token",
          {
            param: "outcome.ref",
          },
        );
      }
      return lives(
        ref,
        outcome.kind,
        store.change(ctx, (d) => complete(d, ref, outcome)),
      );
    },
  };
}

function endIfAsked(ctx: CallContext, { end }: Alive): void {
  if (end !== undefined) ctx.peer.notify("cancel", { reason: end });
}

function sameAttempt(a: AttemptRef | undefined, b: AttemptRef): boolean {
  return a?.run === b.run && a.task === b.task && a.attempt === b.attempt;
}

/** The attempt that the token of the connection stands for. */
export function attemptOf(ctx: CallContext): AttemptRef {
  if (ctx.attempt) return ctx.attempt;
  throw new BusbarError("FORBIDDEN", `${ctx.method}: this connection stands for no attempt`);
}
