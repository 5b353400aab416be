// A small JSON-RPC client for programs that must start fast and stay small (the shim): no packages, only the
// framing. It speaks what client.ts speaks:
//
// 1. connect, 2. `hello` with role and token, 3. calls with ids 1, 2, ..., each with its own time-out,
// 4. notifications go to `onNotify`, 5. when the connection ends, every pending call fails with BUS_AWAY.

import type { Socket } from "node:net";
import { BusbarError, fromWireError, type WireError } from "../../schemas/errors.ts";
import {
  CALL_TIMEOUT_MS,
  HANDSHAKE_TIMEOUT_MS,
  LONGEST_ANSWER_MS,
  PROTOCOL_VERSION,
} from "../../schemas/limits.ts";
import { encodeFrame, FrameSplitter, OVERSIZED, parseFrame } from "../wire/framing.ts";
import { openSocket } from "./open-socket.ts";

export interface ThinOptions {
  socket: string;
  role: "person" | "scheduler" | "shim" | "agent";
  token: string;
  /** Name and version of the program, for the bus log. */
  client: string;
  onNotify?: (method: string, params: unknown) => void;
  /** For connecting and `hello` together. */
  timeoutMs?: number;
}

export interface ThinClient {
  /** Throws what the bus answered, TIMEOUT, or BUS_AWAY. */
  call(method: string, params?: unknown, timeoutMs?: number): Promise<unknown>;
  close(): void;
  /** Fulfilled when the connection is gone, whoever ended it. */
  readonly closed: Promise<void>;
}

interface Pending {
  method: string;
  resolve(value: unknown): void;
  reject(error: Error): void;
  timer: NodeJS.Timeout;
}

interface Answer {
  id?: unknown;
  method?: unknown;
  params?: unknown;
  result?: unknown;
  error?: WireError;
}

/** What a client waits for the answer to `method`. */
export function answerTimeoutMs(method: string): number {
  return method === "publish" ? LONGEST_ANSWER_MS : CALL_TIMEOUT_MS;
}

/** Connects and greets. Throws BUS_AWAY (nobody there), TIMEOUT, BAD_TOKEN, PROTOCOL_MISMATCH. */
export async function connectThin(options: ThinOptions): Promise<ThinClient> {
  const client = await openThin(options.socket, options.onNotify, options.timeoutMs);
  const hello = {
    protocol: { min: PROTOCOL_VERSION, max: PROTOCOL_VERSION },
    role: options.role,
    token: options.token,
    client: options.client,
  };
  try {
    await client.call("hello", hello, options.timeoutMs ?? HANDSHAKE_TIMEOUT_MS);
    return client;
  } catch (error) {
    client.close();
    throw error;
  }
}

/** Connects without a greeting: good for `ping` only. */
export async function openThin(
  path: string,
  onNotify: ThinOptions["onNotify"] = () => {},
  timeoutMs = HANDSHAKE_TIMEOUT_MS,
): Promise<ThinClient> {
  return new Thin(await openSocket(path, timeoutMs), path, onNotify);
}

class Thin implements ThinClient {
  readonly closed: Promise<void>;
  readonly #socket: Socket;
  readonly #path: string;
  readonly #onNotify: (method: string, params: unknown) => void;
  readonly #pending = new Map<number, Pending>();
  readonly #splitter = new FrameSplitter();
  #lastId = 0;
  #gone = false;

  constructor(socket: Socket, path: string, onNotify: (method: string, params: unknown) => void) {
    this.#socket = socket;
    this.#path = path;
    this.#onNotify = onNotify;
    socket.on("error", () => {}); // "close" follows and tells all
    socket.on("data", (chunk: Buffer) => this.#read(chunk));
    this.closed = new Promise((resolve) => {
      socket.once("close", () => {
        this.#lose();
        resolve();
      });
    });
  }

  call(method: string, params: unknown = {}, timeoutMs = answerTimeoutMs(method)): Promise<unknown> {
    if (this.#gone) return Promise.reject(this.#away(method));
    this.#lastId += 1;
    const id = this.#lastId;
    return new Promise((resolve, reject) => {
      const timer = setTimeout(() => {
        this.#pending.delete(id);
        reject(new BusbarError("TIMEOUT", `${method}: no answer within ${timeoutMs} ms`, { method }));
      }, timeoutMs);
      this.#pending.set(id, { method, resolve, reject, timer });
      this.#socket.write(encodeFrame({ jsonrpc: "2.0", id, method, params }));
    });
  }

  close(): void {
    this.#lose();
    this.#socket.destroy();
  }

  #away(method: string): BusbarError {
    return new BusbarError("BUS_AWAY", `${method}: the connection to ${this.#path} is closed`, { method });
  }

  #lose(): void {
    this.#gone = true;
    for (const [id, call] of this.#pending) {
      this.#pending.delete(id);
      clearTimeout(call.timer);
      call.reject(this.#away(call.method));
    }
  }

  #read(chunk: Buffer): void {
    this.#splitter.push(chunk);
    for (let frame = this.#splitter.next(); frame !== undefined; frame = this.#splitter.next()) {
      const answer = frame === OVERSIZED ? undefined : parsed(frame);
      if (answer === undefined) {
        this.close(); // whoever that is, it is not a bus
        return;
      }
      this.#take(answer);
    }
  }

  #take(answer: Answer): void {
    if (typeof answer.method === "string") {
      this.#onNotify(answer.method, answer.params);
      return;
    }
    const call = this.#pending.get(answer.id as number);
    if (!call) return; // came after its time-out
    this.#pending.delete(answer.id as number);
    clearTimeout(call.timer);
    if (answer.error) call.reject(fromWireError(answer.error));
    else call.resolve(answer.result);
  }
}

function parsed(frame: Buffer): Answer | undefined {
  try {
    const value = parseFrame(frame);
    return typeof value === "object" && value !== null ? value : undefined;
  } catch {
    return undefined;
  }
}
