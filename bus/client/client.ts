// The full client of the bus: typed calls by the method table, over one connection. A lost connection is not
// repaired here; session.ts does that.

import type { Socket } from "node:net";
import { BusbarError } from "../../schemas/errors.ts";
import { HANDSHAKE_TIMEOUT_MS, PROTOCOL_VERSION } from "../../schemas/limits.ts";
import type { HelloAnswer, MethodName, Notifications, Params, Result, Role } from "../../schemas/methods.ts";
import { encodeFrame, FrameSplitter, OVERSIZED, parseFrame } from "../wire/framing.ts";
import { RpcClient } from "../wire/rpc.ts";
import { openSocket } from "./open-socket.ts";
import { answerTimeoutMs } from "./thin.ts";

export interface ConnectOptions {
  socket: string;
  role: Role;
  token: string;
  /** Name and version of the program, for the bus log. */
  client: string;
  /** For connecting and `hello`. */
  timeoutMs?: number;
  /** Default of each call; without it, by method. */
  callTimeoutMs?: number;
}

export interface CallOptions {
  timeoutMs?: number;
}

type Listener<N extends keyof Notifications> = (params: Notifications[N]) => void;

export interface BusClient {
  /** Throws what the bus answered (BusbarError), TIMEOUT, or BUS_AWAY. */
  call<M extends MethodName>(method: M, params: Params<M>, options?: CallOptions): Promise<Result<M>>;
  /** Returns the way off. */
  on<N extends keyof Notifications>(name: N, listener: Listener<N>): () => void;
  readonly hello: HelloAnswer;
  /** Fulfilled when the connection is gone, whoever ended it. */
  readonly closed: Promise<void>;
  close(): void;
}

/** Connects and greets. Throws BUS_AWAY, TIMEOUT, BAD_TOKEN, PROTOCOL_MISMATCH. */
export async function connectBus(options: ConnectOptions): Promise<BusClient> {
  const timeoutMs = options.timeoutMs ?? HANDSHAKE_TIMEOUT_MS;
  const link = new Link(await openSocket(options.socket, timeoutMs), options.callTimeoutMs);
  try {
    const params: Params<"hello"> = {
      protocol: { min: PROTOCOL_VERSION, max: PROTOCOL_VERSION },
      role: options.role,
      token: options.token,
      client: options.client,
    };
    link.hello = await link.call("hello", params, { timeoutMs });
    return link;
  } catch (error) {
    link.close();
    throw error;
  }
}

class Link implements BusClient {
  hello!: HelloAnswer; // set before anybody gets the object
  readonly closed: Promise<void>;
  readonly #socket: Socket;
  readonly #rpc: RpcClient;
  readonly #callTimeoutMs: number | undefined;
  readonly #splitter = new FrameSplitter();
  readonly #listeners = new Map<string, Set<(params: never) => void>>();
  #gone = false;

  constructor(socket: Socket, callTimeoutMs: number | undefined) {
    this.#socket = socket;
    this.#callTimeoutMs = callTimeoutMs;
    this.#rpc = new RpcClient((request) => socket.write(encodeFrame(request)));
    socket.on("error", () => {}); // "close" follows and tells all
    socket.on("data", (chunk: Buffer) => this.#read(chunk));
    this.closed = new Promise((resolve) => {
      socket.once("close", () => {
        this.#lose();
        resolve();
      });
    });
  }

  call<M extends MethodName>(method: M, params: Params<M>, options: CallOptions = {}): Promise<Result<M>> {
    if (this.#gone)
      return Promise.reject(
        new BusbarError("BUS_AWAY", `${method}: the connection to the bus is closed`, { method }),
      );
    const timeoutMs = options.timeoutMs ?? this.#callTimeoutMs ?? answerTimeoutMs(method);
    return this.#rpc.call(method, params, timeoutMs) as Promise<Result<M>>;
  }

  on<N extends keyof Notifications>(name: N, listener: Listener<N>): () => void {
    const all = this.#listeners.get(name) ?? new Set();
    this.#listeners.set(name, all);
    all.add(listener);
    return () => all.delete(listener);
  }

  close(): void {
    this.#lose();
    this.#socket.destroy();
  }

  #lose(): void {
    this.#gone = true;
    this.#rpc.lose();
  }

  #read(chunk: Buffer): void {
    this.#splitter.push(chunk);
    for (let frame = this.#splitter.next(); frame !== undefined; frame = this.#splitter.next()) {
      if (frame === OVERSIZED || !this.#take(frame)) {
        this.close(); // whoever that is, it is not a bus
        return;
      }
    }
  }

  #take(frame: Buffer): boolean {
    let answer: unknown;
    try {
      answer = parseFrame(frame);
    } catch {
      return false;
    }
    const { method, params } = (answer ?? {}) as { method?: unknown; params?: never };
    if (typeof method !== "string") this.#rpc.receive(answer);
    else for (const listener of this.#listeners.get(method) ?? []) listener(params as never);
    return true;
  }
}
