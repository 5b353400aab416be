// The scheduler at work: one at a time, as long as its connection lives. Nothing of it is state: after a restart of the
// bus the scheduler registers again.

import { BusbarError } from "../../schemas/errors.ts";
import { showId } from "../../schemas/ids.ts";
import type { LimitFacts } from "../../schemas/limit-plan.ts";
import type { Parsed, Ping } from "../../schemas/methods.ts";
import type { Log } from "../../schemas/ports.ts";
import type { SandboxFacts } from "../../schemas/sandbox.ts";
import type { Store } from "../state/store.ts";
import type { CallContext, Peer } from "../state/view.ts";

export class Workers {
  #live: { worker: string; pid: number; peer: Peer; limits?: LimitFacts; sandbox?: SandboxFacts } | undefined;

  constructor(
    private readonly store: Pick<Store, "change">,
    private readonly log: Log,
  ) {}

  /** Name of the registered scheduler. */
  get current(): string | null {
    return this.#live?.worker ?? null;
  }

  /** For `ping`. */
  get facts(): Pick<Ping, "worker" | "limits" | "sandbox"> {
    const { limits, sandbox } = this;
    return { worker: this.current, ...(limits && { limits }), ...(sandbox && { sandbox }) };
  }

  /** What its host can hold processes to; undefined while nobody has said. */
  get limits(): LimitFacts | undefined {
    return this.#live?.limits;
  }

  /** What it can shut agents in, as it said. */
  get sandbox(): SandboxFacts | undefined {
    return this.#live?.sandbox;
  }

  /** Throws WORKER_EXISTS while another connection holds the place. */
  async register(ctx: CallContext, p: Parsed<"register_worker">): Promise<void> {
    const live = this.#live;
    if (live && live.peer !== ctx.peer) {
      throw new BusbarError(
        "WORKER_EXISTS",
        `scheduler ${showId(live.worker)} works here already, pid ${live.pid}`,
        {
          worker: live.worker,
          pid: live.pid,
        },
      );
    }
    if (live?.worker === p.worker) return;
    const { limits, sandbox } = p;
    const mine = {
      worker: p.worker,
      pid: p.pid,
      peer: ctx.peer,
      ...(limits && { limits }),
      ...(sandbox && { sandbox }),
    };
    this.#live = mine;
    if (!live) ctx.peer.onClose(() => this.#gone(ctx.peer));
    const { worker, host, slots, pid } = p;
    try {
      await this.store.change(ctx, (d) =>
        d.emit({}, { type: "worker.registered", worker, host, slots, pid }),
      );
    } catch (error) {
      if (this.#live === mine) this.#live = live;
      throw error;
    }
  }

  #gone(peer: Peer): void {
    if (this.#live?.peer !== peer) return;
    const { worker } = this.#live;
    this.#live = undefined;
    this.store
      .change({ actor: "bus" }, (d) => d.emit({}, { type: "worker.gone", worker }))
      .catch((error: unknown) => this.log.warn("worker.gone could not be recorded", { why: String(error) }));
  }
}
