// What happens to a call between the wire and its handler, in this order:
//
// 1. It gets a request id. 2. The method must exist. 3. The role must be allowed to call it.
// 4. The params must have the shape of the method table. 5. The handler runs.
// 6. The call is recorded with its response time, failed ones too. 7. Once the record is written the answer leaves.
//
// Contents of the repository are given out only with a record: where it cannot be written, the read fails with STORAGE.
// Other calls go on while the disk is full, so that people can see what is the matter.
// An error that is not of the catalogue is logged with the request id and answered as INTERNAL.

import { BusbarError, type ErrorCode } from "../schemas/errors.ts";
import type { JournalRecord } from "../schemas/events.ts";
import { type AttemptRef, attemptLabel, showId } from "../schemas/ids.ts";
import { PROTOCOL_VERSION } from "../schemas/limits.ts";
import {
  type HelloAnswer,
  METHODS,
  type MethodName,
  type Parsed,
  type Result,
  type Role,
} from "../schemas/methods.ts";
import type { Clock, Log } from "../schemas/ports.ts";
import type { CallContext, Peer, StateStore } from "./state/view.ts";
import type { Tokens } from "./tokens.ts";
import { type RawResult, RpcServer } from "./wire/rpc.ts";

type Access = NonNullable<JournalRecord["access"]>;

/** A call as handlers see it. What a read looked at is noted in `access`, so that a failure records it too. */
export interface Call extends CallContext {
  access: Access;
}

export type Handler<M extends MethodName> = (
  call: Call,
  params: Parsed<M>,
) => Promise<Result<M> | RawResult> | Result<M> | RawResult;

export type Handlers = { readonly [M in MethodName]?: Handler<M> };

type AnyHandler = (call: Call, params: unknown) => unknown;

/** Who is at the other end; changed by `hello` only. */
export interface Session {
  greeted: boolean;
  role: Role;
  actor: string;
  attempt?: AttemptRef;
  client: string;
  peer: Peer;
}

export function strangerSession(peer: Peer): Session {
  // The least of the roles; nothing but `ping` and `hello` is open to it before it has greeted.
  return { greeted: false, role: "agent", actor: "unknown", client: "", peer };
}

export interface DispatchParts {
  store: StateStore;
  handlers: Handlers;
  tokens: Pick<Tokens, "check">;
  clock: Clock;
  log: Log;
  version: string;
  /** Begins every request id of this life of the bus. */
  life: string;
}

const GIVES_CONTENT: ReadonlySet<string> = new Set<MethodName>(["get_file", "list_files", "write_manifest"]);
/** The longest method name that is recorded as it was sent. */
const METHOD_CHARS = 40;
/** Params longer than this are not kept in the record of a call. */
const PARAMS_CHARS = 500;

export class Dispatcher {
  readonly rpc: RpcServer<Session>;
  readonly #parts: DispatchParts;
  readonly #handlers: ReadonlyMap<string, AnyHandler>;
  #calls = 0;

  constructor(parts: DispatchParts) {
    this.#parts = parts;
    this.#handlers = new Map(Object.entries(parts.handlers) as [string, AnyHandler][]);
    this.rpc = new RpcServer<Session>((method, params, session) => this.call(method, params, session));
    this.rpc.addMethods(Object.keys(METHODS));
    this.rpc.addDirect("get_file");
  }

  /** Runs one call to its end. Rejects with BusbarError and nothing else. */
  call(method: string, params: unknown, session: Session): Promise<unknown> {
    const call = this.#newCall(method, session);
    let result: unknown;
    try {
      result = this.#run(call, params, session);
      if (!(result instanceof Promise)) return this.#done(call, result);
    } catch (error) {
      return this.#failed(call, error);
    }
    return result.then(
      (value) => this.#done(call, value),
      (error) => this.#failed(call, error),
    );
  }

  #newCall(method: string, session: Session): Call {
    this.#calls += 1;
    const call: Call = {
      actor: session.actor,
      role: session.role,
      method: method as MethodName,
      requestId: `${this.#parts.life}-${this.#calls.toString(36)}`,
      arrived: this.#parts.clock.monotonic(),
      peer: session.peer,
      access: {},
    };
    if (session.attempt) call.attempt = session.attempt;
    return call;
  }

  #run(call: Call, raw: unknown, session: Session): unknown {
    const name = allowed(call.method, session);
    const params = parsed(name, raw);
    if (name !== "hello") noteParams(call, params);
    if (name === "hello") return this.#hello(params as Parsed<"hello">, session);
    const handler = this.#handlers.get(name);
    if (!handler) throw new Error(`no handler for ${name}`);
    const result = handler(call, params);
    return name === "register_worker"
      ? named(session, result, (params as { worker: string }).worker)
      : result;
  }

  #hello(params: Parsed<"hello">, session: Session): HelloAnswer {
    const protocol = Math.min(params.protocol.max, PROTOCOL_VERSION);
    if (protocol < params.protocol.min || protocol < 1)
      throw new BusbarError(
        "PROTOCOL_MISMATCH",
        `the client speaks protocol ${params.protocol.min} to ${params.protocol.max}, this bus speaks 1 to ${PROTOCOL_VERSION}`,
        { min: 1, max: PROTOCOL_VERSION, version: this.#parts.version },
      );
    const attempt = this.#parts.tokens.check(params.role, params.token);
    if (session.greeted && (session.role !== params.role || !same(session.attempt, attempt)))
      throw new BusbarError("FORBIDDEN", `this connection has greeted as ${session.actor}; open another one`);
    session.role = params.role;
    session.client = params.client;
    session.actor = attempt ? `${params.role}:${attemptLabel(attempt)}` : params.role;
    if (attempt) session.attempt = attempt;
    session.greeted = true;
    const { store, version } = this.#parts;
    return { protocol, version, role: params.role, seq: store.seq, ...(attempt ? { attempt } : {}) };
  }

  #done(call: Call, result: unknown): Promise<unknown> {
    return this.#record(call, GIVES_CONTENT.has(call.method)).then(() => result);
  }

  async #failed(call: Call, error: unknown): Promise<never> {
    const known = error instanceof BusbarError ? error : this.#internal(call, error);
    call.access.error = known.code;
    try {
      await this.#record(call, false);
    } catch (cause) {
      this.#parts.log.warn("a failed call could not be recorded", {
        request_id: call.requestId,
        cause: String(cause),
      });
    }
    throw known;
  }

  #internal(call: Call, error: unknown): BusbarError {
    const detail = error instanceof Error ? (error.stack ?? error.message) : String(error);
    const request_id = call.requestId;
    this.#parts.log.error("a handler failed", { request_id, method: call.method, detail });
    return new BusbarError("INTERNAL", "internal error", { request_id }, { cause: error });
  }

  /** For an attempt's own calls the record names the attempt; else the task that was asked about. */
  #record(call: Call, required: boolean): Promise<void> {
    const { params, ...facts } = call.access;
    const of = call.attempt ?? taskNamed(params);
    const draft = {
      actor: call.actor,
      method: call.method.slice(0, METHOD_CHARS),
      request_id: call.requestId,
      response_time_ms: Math.round((this.#parts.clock.monotonic() - call.arrived) * 1000) / 1000,
      ...of,
      access: params === undefined ? facts : call.access,
    };
    return this.#parts.store.access(draft, required);
  }
}

/** Once registered, the scheduler's calls are recorded under its name. */
async function named(session: Session, registered: unknown, worker: string): Promise<unknown> {
  const answer = await registered;
  session.actor = `scheduler:${worker}`;
  return answer;
}

function allowed(method: string, session: Session): MethodName {
  if (!Object.hasOwn(METHODS, method))
    throw new BusbarError("METHOD_NOT_FOUND", `there is no method ${showId(method)}`);
  const name = method as MethodName;
  const roles: readonly Role[] | "any" = METHODS[name].roles;
  if (roles === "any") return name;
  if (!session.greeted) throw new BusbarError("NOT_GREETED", `${name}: say hello first`);
  if (roles.includes(session.role)) return name;
  const text = `${name} is for ${roles.join(", ")}, not for ${session.role}`;
  throw new BusbarError("FORBIDDEN", text, { method: name, role: session.role });
}

function parsed(name: MethodName, raw: unknown): unknown {
  const result = METHODS[name].params.safeParse(raw ?? {});
  if (result.success) return result.data;
  const { text, param } = paramFault(result.error);
  throw new BusbarError("INVALID_PARAMS", `${name}: ${text}`, { method: name, param });
}

/** What a parser of the method table says is wrong. */
interface ParamError {
  issues: readonly {
    code?: string;
    path: readonly PropertyKey[];
    message: string;
    keys?: readonly string[];
  }[];
}

/** The first fault, with the param's name: `paths.0: Too small ...`. */
function paramFault(error: ParamError): { text: string; param: string } {
  const issue = error.issues[0]!;
  const unknown = issue.code === "unrecognized_keys" ? issue.keys?.[0] : undefined;
  if (unknown !== undefined)
    return { param: unknown.slice(0, 80), text: `${showId(unknown)}: no such param` };
  const param = issue.path.map(String).join(".").slice(0, 80);
  return { param, text: `${param || "params"}: ${issue.message}` };
}

/** Keeps small params of a call for the audit; the path has its own field. */
function noteParams(call: Call, params: unknown): void {
  const { path, ...rest } = params as Record<string, unknown>;
  if (typeof path === "string") call.access.path = path;
  let some = false;
  for (const key in rest) {
    if (rest[key] !== undefined) some = true;
  }
  if (some && isShort(rest)) call.access.params = rest;
}

function isShort(params: Record<string, unknown>): boolean {
  let chars = 0;
  for (const key in params) {
    const value = params[key];
    if (typeof value === "string") chars += value.length;
    else if (typeof value === "object" && value !== null)
      return JSON.stringify(params).length <= PARAMS_CHARS;
  }
  return chars <= PARAMS_CHARS;
}

function taskNamed(params: unknown): { run?: string; task?: string } {
  const p = (params ?? {}) as { run?: unknown; task?: unknown; task_id?: unknown };
  const task = p.task ?? p.task_id;
  return {
    ...(typeof p.run === "string" ? { run: p.run } : {}),
    ...(typeof task === "string" ? { task } : {}),
  };
}

function same(a: AttemptRef | undefined, b: AttemptRef | undefined): boolean {
  return (a && attemptLabel(a)) === (b && attemptLabel(b));
}

/** For the contract test: what a role gets before any handler is asked. */
export function roleFault(method: MethodName, role: Role): ErrorCode | undefined {
  const roles: readonly Role[] | "any" = METHODS[method].roles;
  return roles === "any" || roles.includes(role) ? undefined : "FORBIDDEN";
}
