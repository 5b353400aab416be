// A client that comes back: for programs that outlive the bus (the scheduler).
//
// connecting -> connected -> (connection lost) -> waiting -> connecting ...  until `close`
//
// The wait is 100 ms, doubled up to RECONNECT_MAX_MS, and begins anew after a connection that worked. After
// each connect `onConnect` runs before anybody else may call: that is where a program registers again. If it
// throws, the connection is given up and tried again, but for errors that no repetition can mend.

import { BusbarError, isCode } from "../../schemas/errors.ts";
import { RECONNECT_MAX_MS } from "../../schemas/limits.ts";
import type { MethodName, Params, Result } from "../../schemas/methods.ts";
import type { BusClient, CallOptions } from "./client.ts";

/** The first pause before another try. */
const RECONNECT_FIRST_MS = 100;

export interface SessionOptions {
  /** Makes one connection; called again for each try, so that it may look for the bus anew. */
  connect(): Promise<BusClient>;
  onConnect?(client: BusClient): Promise<void>;
  onLost?(): void;
  /** Called once when no further try makes sense (PROTOCOL_MISMATCH, WORKER_EXISTS ...). */
  onGiveUp?(error: BusbarError): void;
  maxWaitMs?: number;
}

export class BusSession {
  readonly #options: SessionOptions;
  #client: BusClient | undefined;
  #closed = false;
  #wake = () => {};
  #waiting: (() => void)[] = [];
  /** Fulfilled when the session is over: closed, or given up. */
  readonly ended: Promise<void>;

  constructor(options: SessionOptions) {
    this.#options = options;
    this.ended = this.#live();
  }

  /** The live connection, if there is one just now. */
  get client(): BusClient | undefined {
    return this.#client;
  }

  /** Fulfilled when connected and `onConnect` is through. Rejects with BUS_AWAY once the session is over. */
  async ready(): Promise<BusClient> {
    while (!this.#client) {
      if (this.#closed) throw new BusbarError("BUS_AWAY", "the session with the bus is over");
      await new Promise<void>((resolve) => this.#waiting.push(resolve));
    }
    return this.#client;
  }

  /** One call on the live connection; BUS_AWAY at once when there is none. Nothing is repeated by itself. */
  async call<M extends MethodName>(method: M, params: Params<M>, options?: CallOptions): Promise<Result<M>> {
    if (!this.#client) throw new BusbarError("BUS_AWAY", `${method}: not connected to the bus`, { method });
    return this.#client.call(method, params, options);
  }

  async close(): Promise<void> {
    this.#closed = true;
    this.#client?.close();
    this.#wake();
    await this.ended;
  }

  async #live(): Promise<void> {
    let wait = RECONNECT_FIRST_MS;
    while (!this.#closed) {
      if (await this.#once()) wait = RECONNECT_FIRST_MS;
      if (this.#closed) break;
      await this.#pause(wait);
      wait = Math.min(wait * 2, this.#options.maxWaitMs ?? RECONNECT_MAX_MS);
    }
    this.#closed = true;
    this.#release();
  }

  /** One connection from begin to end; true when it had become usable. */
  async #once(): Promise<boolean> {
    let client: BusClient | undefined;
    try {
      client = await this.#options.connect();
      await this.#options.onConnect?.(client);
    } catch (error) {
      client?.close();
      if (!(error instanceof BusbarError)) throw error; // a fault of the program, not of the connection
      if (!isHopeless(error)) return false;
      this.#closed = true;
      this.#options.onGiveUp?.(error);
      return false;
    }
    if (this.#closed) client.close();
    else {
      this.#client = client;
      this.#release();
    }
    await client.closed;
    this.#client = undefined;
    if (!this.#closed) this.#options.onLost?.();
    return true;
  }

  #release(): void {
    for (const resolve of this.#waiting.splice(0)) resolve();
  }

  #pause(ms: number): Promise<void> {
    return new Promise((resolve) => {
      const timer = setTimeout(resolve, ms);
      this.#wake = () => {
        clearTimeout(timer);
        resolve();
      };
    });
  }
}

/** Time does not mend these. A token may be new after a bus was set up anew: `connect` reads it each time. */
const HOPELESS = [
  "PROTOCOL_MISMATCH",
  "WORKER_EXISTS",
  "FORBIDDEN",
  "NOT_A_REPOSITORY",
  "UNSAFE_DIRECTORY",
  "DIRECTORY_UNUSABLE",
] as const;

function isHopeless(error: BusbarError): boolean {
  return isCode(error, ...HOPELESS);
}
