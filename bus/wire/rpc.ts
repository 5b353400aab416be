// JSON-RPC 2.0 on top of json-rpc-2.0; the one file that imports it. What the package leaves open is decided here:
//
// - a request object is checked before the package sees it (it fails on `null` inside a batch);
// - an id must come back exactly as sent: a number beyond 2^53 cannot, so it is refused;
// - every error becomes one of the catalogue (the package would send code 0 with the raw text);
// - a batch is run in order, one call after the other, and its answer is one line: it and the memory it takes are
//   bounded; a batch of notifications has no answer;
// - methods of the hot path (`addDirect`) are called without the package's round of promises, which costs more than
//   the read itself; what they get, record and answer is the same;
// - an answer may hold a part that is JSON text already (`RawResult`): it is spliced, never stringified.

import {
  JSONRPCClient,
  type JSONRPCID,
  type JSONRPCRequest,
  type JSONRPCResponse,
  JSONRPCServer,
} from "json-rpc-2.0";
import { BusbarError, fromWireError, toWireError, type WireError } from "../../schemas/errors.ts";
import { MAX_BATCH_CALLS, MAX_FRAME_BYTES, MAX_ID_TEXT_CHARS } from "../../schemas/limits.ts";

/** A result whose JSON text is `head`, then the bytes of `content` (JSON text too), then `tail`. */
export class RawResult {
  constructor(
    readonly head: string,
    readonly content: Buffer,
    readonly tail: string,
  ) {}
}

/** What an answer is made of, in order; ends with a line end. */
export type Pieces = (string | Buffer)[];

/** Calls one method. Throws BusbarError, or anything, which becomes INTERNAL. */
export type CallMethod<C> = (method: string, params: unknown, context: C) => Promise<unknown> | unknown;

/** Server side: takes parsed frames, gives answers as pieces of text. */
export class RpcServer<C> {
  readonly #server: JSONRPCServer<C>;
  readonly #call: CallMethod<C>;
  readonly #direct = new Set<string>();

  constructor(call: CallMethod<C>) {
    this.#call = call;
    this.#server = new JSONRPCServer<C>({ errorListener: () => {} }); // `call` has logged it
    this.#server.mapErrorToJSONRPCErrorResponse = (id, error) => ({
      jsonrpc: "2.0",
      id,
      error: toWireError(error),
    });
  }

  /** The package looks methods up by name; which names exist is the dispatcher's knowledge. */
  addMethods(names: Iterable<string>): void {
    for (const name of names)
      this.#server.addMethod(name, (params, context) => this.#call(name, params, context));
    this.#server.handleMethodNotFound = async (request, context) => {
      await this.#call(request.method, request.params, context as unknown as C);
      return null;
    };
  }

  /** These are answered without a way through the package; notifications and batches of them go through it. */
  addDirect(...names: string[]): void {
    for (const name of names) this.#direct.add(name);
  }

  #answerDirect(request: JSONRPCRequest & { id: JSONRPCID }, context: C): Promise<Pieces> {
    const { id, method, params } = request;
    return Promise.resolve(this.#call(method, params, context)).then(
      (result) => ended(pieces({ jsonrpc: "2.0", id, result })),
      (error: unknown) => ended(pieces(failure(id, error))),
    );
  }

  /** The answer to one frame, or undefined where none is due (notifications). Never throws. */
  receive(frame: unknown, context: C): Promise<Pieces | undefined> {
    const { method, id } = (frame ?? {}) as Partial<JSONRPCRequest>;
    if (id !== undefined && this.#direct.has(method as string) && requestFault(frame) === undefined)
      return this.#answerDirect(frame as JSONRPCRequest & { id: JSONRPCID }, context);
    return this.#receive(frame, context);
  }

  async #receive(frame: unknown, context: C): Promise<Pieces | undefined> {
    if (Array.isArray(frame)) return this.#batch(frame, context);
    const answer = await this.#one(frame, context);
    return answer && ended(pieces(answer));
  }

  async #batch(batch: unknown[], context: C): Promise<Pieces | undefined> {
    const fault = batchFault(batch);
    if (fault) return ended(pieces(failure(null, fault)));
    const line = new BatchLine(batch);
    for (const request of batch) line.add(await this.#one(request, context));
    return line.pieces;
  }

  async #one(request: unknown, context: C): Promise<JSONRPCResponse | undefined> {
    const fault = requestFault(request);
    if (fault) return failure(idOf(request), new BusbarError("INVALID_REQUEST", fault));
    return (await this.#server.receive(request as JSONRPCRequest, context)) ?? undefined;
  }
}

function batchFault(batch: unknown[]): BusbarError | undefined {
  if (batch.length === 0) return new BusbarError("INVALID_REQUEST", "an empty batch");
  if (batch.length <= MAX_BATCH_CALLS) return idsFault(batch);
  const text = `a batch of ${batch.length} calls, at most ${MAX_BATCH_CALLS} are allowed`;
  return new BusbarError("INVALID_REQUEST", text, { limit: MAX_BATCH_CALLS });
}

/** All ids come back in one line. */
function idsFault(batch: unknown[]): BusbarError | undefined {
  let chars = 0;
  for (const request of batch) chars += String(idOf(request)).length;
  if (chars <= MAX_ID_TEXT_CHARS) return undefined;
  const text = `the ids of the batch have ${chars} characters together, at most ${MAX_ID_TEXT_CHARS} are allowed`;
  return new BusbarError("INVALID_REQUEST", text, { limit: MAX_ID_TEXT_CHARS });
}

/** The answer to a batch. What does not fit into the line any more is answered with FRAME_TOO_LARGE. */
class BatchLine {
  readonly #all: Pieces = [];
  /** Bytes left when every call is answered with the shortest error. */
  #room = MAX_FRAME_BYTES;

  constructor(batch: readonly unknown[]) {
    for (const request of batch) this.#room -= leastBytes(idOf(request));
  }

  add(answer: JSONRPCResponse | undefined): void {
    if (!answer) return;
    let text = pieces(answer);
    let more = bytesOf(text) - leastBytes(answer.id);
    if (more > this.#room) {
      text = pieces(failure(answer.id, answerTooLarge(bytesOf(text))));
      more = 0;
    }
    this.#room -= Math.max(0, more);
    this.#all.push(this.#all.length === 0 ? "[" : ",", ...text);
  }

  get pieces(): Pieces | undefined {
    return this.#all.length === 0 ? undefined : [...this.#all, "]\n"];
  }
}

/** What an answer with FRAME_TOO_LARGE takes at most beside its id, with what stands between answers. */
const ERROR_BYTES = 500;

function leastBytes(id: JSONRPCID): number {
  return ERROR_BYTES + (typeof id === "string" ? Buffer.byteLength(JSON.stringify(id)) : 32);
}

function bytesOf(list: Pieces): number {
  let bytes = 0;
  for (const piece of list) bytes += typeof piece === "string" ? Buffer.byteLength(piece) : piece.length;
  return bytes;
}

/** Why this is no request object; the caller's bytes are not repeated. */
function requestFault(request: unknown): string | undefined {
  if (typeof request !== "object" || request === null || Array.isArray(request))
    return "a request must be an object";
  const { jsonrpc, method, id, params } = request as Record<string, unknown>;
  if (jsonrpc !== "2.0") return 'jsonrpc must be "2.0"';
  if (typeof method !== "string") return "method must be a string";
  if (id !== undefined && !isId(id))
    return `id must be a string of at most ${MAX_ID_TEXT_CHARS} characters, a number below 2^53, or null`;
  if (params !== undefined && (typeof params !== "object" || params === null))
    return "params must be an object";
  if ("result" in request || "error" in request) return "a request has neither result nor error";
  return undefined;
}

function isId(id: unknown): id is JSONRPCID {
  if (typeof id === "number") return Math.abs(id) <= Number.MAX_SAFE_INTEGER;
  return id === null || (typeof id === "string" && id.length <= MAX_ID_TEXT_CHARS);
}

function idOf(request: unknown): JSONRPCID {
  const id = (request as { id?: unknown } | null)?.id;
  return isId(id) ? id : null;
}

function failure(id: JSONRPCID, error: unknown): JSONRPCResponse {
  return { jsonrpc: "2.0", id, error: toWireError(error) };
}

/** The answer to a frame that could not even be read. */
export function frameFailure(error: BusbarError): Pieces {
  return ended(pieces(failure(null, error)));
}

/** With the line end. */
function ended(list: Pieces): Pieces {
  list[list.length - 1] += "\n"; // the last piece is text
  return list;
}

function pieces(answer: JSONRPCResponse): Pieces {
  const list = spelledOut(answer);
  // No client takes a longer line: better one failed call than a broken connection. Most are short at first sight.
  let bound = 1;
  for (const piece of list) bound += typeof piece === "string" ? piece.length * 3 : piece.length;
  if (bound <= MAX_FRAME_BYTES) return list;
  const bytes = bytesOf(list);
  return bytes < MAX_FRAME_BYTES ? list : [JSON.stringify(failure(answer.id, answerTooLarge(bytes)))];
}

function spelledOut(answer: JSONRPCResponse): Pieces {
  const raw: unknown = answer.result;
  if (!(raw instanceof RawResult)) return [JSON.stringify(answer)];
  const id = JSON.stringify(answer.id);
  return [`{"jsonrpc":"2.0","id":${id},"result":${raw.head}`, raw.content, `${raw.tail}}`];
}

function answerTooLarge(bytes: number): BusbarError {
  const text = `the answer has ${bytes} bytes, more than there is room for in a message; ask for less at once`;
  return new BusbarError("FRAME_TOO_LARGE", text, { limit: MAX_FRAME_BYTES });
}

export function notification(method: string, params: unknown): string {
  return `${JSON.stringify({ jsonrpc: "2.0", method, params })}\n`;
}

// --- client side -----------------------------------------------------------------------------------

/** Matches answers to calls. The caller sends what `send` is given and hands in what came. */
export class RpcClient {
  readonly #client: JSONRPCClient;

  constructor(send: (request: unknown) => void) {
    this.#client = new JSONRPCClient((request) => send(request));
  }

  /** Throws the bus's error, TIMEOUT after `timeoutMs`, or BUS_AWAY (see `lose`). */
  async call(method: string, params: unknown, timeoutMs: number): Promise<unknown> {
    const local = (id: JSONRPCID): JSONRPCResponse & { error: WireError } => ({
      jsonrpc: "2.0",
      id,
      error: toWireError(
        new BusbarError("TIMEOUT", `${method}: no answer within ${timeoutMs} ms`, { method }),
      ),
    });
    try {
      return await this.#client.timeout(timeoutMs, local).request(method, params);
    } catch (error) {
      throw translated(error, method);
    }
  }

  receive(answer: unknown): void {
    if (typeof answer !== "object" || answer === null) return;
    this.#client.receive(answer as JSONRPCResponse);
  }

  /** The connection is gone: every pending call fails with BUS_AWAY. */
  lose(): void {
    this.#client.rejectAllPendingRequests(LOST);
  }
}

const LOST = "the connection to the bus is closed";

/** The package rejects with its own exception class: our error is in `data`, a lost connection has none. */
function translated(error: unknown, method: string): BusbarError {
  const wire = error as Partial<WireError>;
  if (wire.data?.code !== undefined || (typeof wire.code === "number" && wire.code !== 0))
    return fromWireError(wire as WireError);
  return new BusbarError("BUS_AWAY", `${method}: ${LOST}`, { method });
}
