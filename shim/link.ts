// The shim's line to the bus. It is a help, never a condition: from the moment the process runs, the shim goes on
// whether the bus is there or not.
//
// 1. `register`: connect, hello, `register`; until it is answered, for a bounded time. FENCED = do not start.
// 2. From then on the line is kept: when it breaks, connect and `register` again, after 100 ms, doubled up to
//    RECONNECT_MAX_MS, with jitter so that two hundred shims do not come at once.
// 3. `heartbeat` is sent when the line stands and is not made up for when it does not.
// 4. `complete` is repeated until it is answered. FENCED counts as an answer: somebody else has settled the task.
// 5. FENCED at any other time says that this attempt is over: `onFenced`.

import type { ThinClient } from "../bus/client/thin.ts";
import { BusbarError, isCode } from "../schemas/errors.ts";
import { faultPoint } from "../schemas/fault-points.ts";
import type { Outcome } from "../schemas/job.ts";
import { CALL_TIMEOUT_MS, HEARTBEAT_MS, RECONNECT_MAX_MS } from "../schemas/limits.ts";
import type { Clock, Log, Random } from "../schemas/ports.ts";
import type { Usage } from "./tree.ts";

const RECONNECT_FIRST_MS = 100;

export interface LinkOptions {
  connect(onNotify: (method: string, params: unknown) => void): Promise<ThinClient>;
  who: { kind: "agent" | "check"; name: string; pid: number; start_time: string };
  onCancel(reason: string): void;
  onFenced(): void;
  log: Log;
  clock: Clock;
  random: Random;
}

export type Registered =
  | { kind: "registered"; heartbeatMs: number }
  | { kind: "fenced" }
  | { kind: "failed"; why: string };

export class BusLink {
  readonly #o: LinkOptions;
  #client: ThinClient | undefined;
  #heartbeatMs = HEARTBEAT_MS;
  #fenced = false;
  #closed = false;

  constructor(options: LinkOptions) {
    this.#o = options;
  }

  /** Step 1. Gives up after `withinMs`, when `signal` is aborted, or at once where trying again is no use. */
  async register(withinMs: number, signal: AbortSignal): Promise<Registered> {
    const end = this.#o.clock.monotonic() + withinMs;
    for (let tries = 0; ; tries++) {
      try {
        await this.#open();
        void this.#keep();
        return { kind: "registered", heartbeatMs: this.#heartbeatMs };
      } catch (error) {
        if (isCode(error, "FENCED")) return { kind: "fenced" };
        const why = (error as Error).message;
        if (error instanceof BusbarError && !error.retryable) return { kind: "failed", why };
        if (this.#o.clock.monotonic() >= end) return { kind: "failed", why: `bus away: ${why}` };
        await this.#pause(tries, signal);
        if (signal.aborted) return { kind: "failed", why: "cancelled before the start" };
      }
    }
  }

  /** Step 3; never throws. */
  heartbeat(usage: Usage): void {
    faultPoint("shim.link.before-heartbeat");
    this.#client
      ?.call("heartbeat", { kind: this.#o.who.kind, usage }, HEARTBEAT_MS)
      .catch((error: unknown) => this.#noteFence(error));
  }

  /** Step 4: true when the bus has the outcome (or wants none), false after `withinMs`. */
  async complete(outcome: Outcome, withinMs: number): Promise<boolean> {
    const end = this.#o.clock.monotonic() + withinMs;
    for (let tries = 0; !this.#fenced; tries++) {
      try {
        const client = this.#client ?? (await this.#open());
        faultPoint("shim.link.before-complete");
        await client.call("complete", { outcome }, CALL_TIMEOUT_MS);
        return true;
      } catch (error) {
        if (isCode(error, "FENCED")) return true;
        if (tries === 0) this.#o.log.warn("the outcome waits for the bus", { why: (error as Error).message });
        if (this.#o.clock.monotonic() >= end) return false;
        await this.#pause(tries);
      }
    }
    return true;
  }

  close(): void {
    this.#closed = true;
    this.#client?.close();
  }

  async #open(): Promise<ThinClient> {
    const client = await this.#o.connect((method, params) => this.#hear(method, params));
    try {
      faultPoint("shim.link.before-register");
      const answer = await client.call("register", this.#o.who, CALL_TIMEOUT_MS);
      this.#heartbeatMs = (answer as { heartbeat_ms?: number } | null)?.heartbeat_ms ?? HEARTBEAT_MS;
    } catch (error) {
      client.close();
      throw error;
    }
    if (this.#client)
      client.close(); // another way of ours was faster
    else this.#client = client;
    const current = this.#client as ThinClient;
    void client.closed.then(() => {
      if (this.#client === client) this.#client = undefined;
    });
    return current;
  }

  async #keep(): Promise<void> {
    for (let tries = 0; !this.#closed && !this.#fenced; ) {
      if (this.#client) {
        tries = 0;
        await this.#client.closed;
        continue;
      }
      await this.#pause(tries++);
      if (this.#closed || this.#client) continue;
      await this.#open().catch((error: unknown) => this.#noteFence(error));
    }
  }

  #hear(method: string, params: unknown): void {
    if (method !== "cancel") return;
    const reason = (params as { reason?: unknown } | undefined)?.reason;
    this.#o.onCancel(typeof reason === "string" ? reason : "asked by the bus");
  }

  #noteFence(error: unknown): void {
    if (!isCode(error, "FENCED") || this.#fenced) return;
    this.#fenced = true;
    this.#o.onFenced();
  }

  #pause(tries: number, signal?: AbortSignal): Promise<void> {
    const ms = Math.min(RECONNECT_FIRST_MS * 2 ** Math.min(tries, 10), RECONNECT_MAX_MS);
    return pause(ms * (0.8 + 0.4 * this.#o.random()), signal);
  }
}

function pause(ms: number, signal?: AbortSignal): Promise<void> {
  return new Promise((resolve) => {
    if (signal?.aborted) return resolve();
    const done = () => {
      clearTimeout(timer);
      signal?.removeEventListener("abort", done);
      resolve();
    };
    const timer = setTimeout(done, ms);
    signal?.addEventListener("abort", done, { once: true });
  });
}
