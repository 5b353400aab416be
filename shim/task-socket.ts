// The agent's door to the bus: a Unix socket that only this attempt knows. A connection to it *is* the attempt.
//
// 1. Listen: directory 0700 and ours, socket 0600 from its first moment, path length checked.
// 2. For each connection: connect to the bus, say `hello` as agent with this attempt's token, take the answer.
// 3. From then on bytes go both ways, each side waiting for the other (back-pressure). Towards the bus declared secrets
//    are replaced: what an agent tells the bus stands in journal and events (L6). Frames are looked at one by one, so that
//    nothing of a call is held back.
// 4. When the agent has closed its half (`printf ... | nc -U`), the bus side stays until the answers to all lines
//    are there, for a bounded time.
// 5. Bus away: tried again for TASK_SOCKET_WAIT_MS, then one JSON-RPC error line, and the connection is closed.

import { mkdirSync, statSync, unlinkSync } from "node:fs";
import { connect, createServer, type Server, type Socket } from "node:net";
import { dirname } from "node:path";
import { BusbarError, type ErrorCode, ioError, toWireError } from "../schemas/errors.ts";
import { faultPoint } from "../schemas/fault-points.ts";
import {
  HANDSHAKE_TIMEOUT_MS,
  LONGEST_ANSWER_MS,
  MAX_SOCKET_PATH_BYTES,
  MAX_TASK_CONNECTIONS,
  PROTOCOL_VERSION,
  TASK_SOCKET_WAIT_MS,
} from "../schemas/limits.ts";
import { frameRedactor, type Secret } from "./redact.ts";

const NEWLINE = 0x0a;
const RETRY_MS = 100;
const MAX_HELLO_BYTES = 64 * 1024;

export interface TaskSocketOptions {
  path: string;
  bus: string;
  token: string;
  client: string;
  secrets?: readonly Secret[];
  waitMs?: number;
}

export interface TaskSocket {
  /** Ends all connections and removes the socket. */
  close(): void;
}

/** Throws SOCKET_PATH_TOO_LONG, UNSAFE_DIRECTORY or IO. */
export async function openTaskSocket(options: TaskSocketOptions): Promise<TaskSocket> {
  const { path } = options;
  const bytes = Buffer.byteLength(path);
  if (bytes > MAX_SOCKET_PATH_BYTES)
    throw new BusbarError(
      "SOCKET_PATH_TOO_LONG",
      `opening the task socket ${path}: ${bytes} bytes, at most ${MAX_SOCKET_PATH_BYTES} are possible`,
    );
  prepare(path);
  const open = new Set<Socket>();
  const server = createServer({ allowHalfOpen: true, pauseOnConnect: true }, (agent) => {
    agent.on("error", () => {});
    open.add(agent);
    agent.once("close", () => open.delete(agent));
    if (open.size > MAX_TASK_CONNECTIONS)
      refuse(agent, "FORBIDDEN", `more than ${MAX_TASK_CONNECTIONS} connections at the task socket`);
    else void serve(agent, options);
  });
  await listen(server, path);
  return {
    close: () => {
      server.close();
      for (const socket of open) socket.destroy();
      remove(path);
    },
  };
}

function prepare(path: string): void {
  const dir = dirname(path);
  try {
    faultPoint("shim.socket.before-make-directory");
    mkdirSync(dir, { recursive: true, mode: 0o700 });
    const { uid, mode } = statSync(dir);
    if (uid !== process.getuid?.() || (mode & 0o077) !== 0)
      throw new BusbarError("UNSAFE_DIRECTORY", `opening the task socket: ${dir} is open to others`, { dir });
  } catch (error) {
    if (error instanceof BusbarError) throw error;
    throw ioError("making the directory of the task socket", dir, error);
  }
  remove(path); // of an earlier shim of this same attempt
}

function remove(path: string): void {
  try {
    faultPoint("shim.socket.before-remove");
    unlinkSync(path);
  } catch {
    // not there
  }
}

function listen(server: Server, path: string): Promise<void> {
  return new Promise((resolve, reject) => {
    server.once("error", (error) => reject(ioError("opening the task socket", path, error)));
    const old = process.umask(0o177); // bind happens inside listen()
    faultPoint("shim.socket.before-listen");
    server.listen(path, resolve);
    process.umask(old);
  });
}

async function serve(agent: Socket, options: TaskSocketOptions): Promise<void> {
  const end = performance.now() + (options.waitMs ?? TASK_SOCKET_WAIT_MS);
  for (;;) {
    try {
      const { bus, rest } = await greet(options);
      if (agent.destroyed) bus.destroy();
      else join(agent, bus, { rest, secrets: options.secrets ?? [] });
      return;
    } catch (error) {
      if (!(error instanceof BusbarError) || !error.retryable || performance.now() >= end) {
        const known = error instanceof BusbarError ? error : undefined;
        return refuse(agent, known?.code ?? "INTERNAL", known?.message ?? "greeting the bus failed");
      }
      await new Promise((resolve) => setTimeout(resolve, RETRY_MS));
      if (agent.destroyed) return;
    }
  }
}

function refuse(agent: Socket, code: ErrorCode, message: string): void {
  const error = toWireError(new BusbarError(code, message));
  agent.end(`${JSON.stringify({ jsonrpc: "2.0", id: null, error })}\n`);
  agent.resume();
}

/** A greeted connection to the bus, and what came after the answer. */
function greet(options: TaskSocketOptions): Promise<{ bus: Socket; rest: Buffer }> {
  return new Promise((resolve, reject) => {
    const bus = connect({ path: options.bus, allowHalfOpen: true });
    let held = Buffer.alloc(0);
    const fail = (code: ErrorCode, message: string) => {
      clearTimeout(timer);
      bus.destroy();
      reject(new BusbarError(code, message));
    };
    const timer = setTimeout(
      () => fail("TIMEOUT", "the bus did not answer the greeting"),
      HANDSHAKE_TIMEOUT_MS,
    );
    bus.once("error", (error: NodeJS.ErrnoException) =>
      fail("BUS_AWAY", `connecting to the bus: ${error.code}`),
    );
    bus.once("end", () => fail("BUS_AWAY", "the bus closed the connection"));
    bus.write(`${JSON.stringify(hello(options))}\n`);
    bus.on("data", function read(chunk: Buffer) {
      held = Buffer.concat([held, chunk]);
      const at = held.indexOf(NEWLINE);
      if (at < 0) return held.length > MAX_HELLO_BYTES ? fail("INTERNAL", "this is not a bus") : undefined;
      const fault = faultOf(held.subarray(0, at));
      if (fault) return fail(fault.code, fault.message);
      clearTimeout(timer);
      bus.pause();
      for (const event of ["data", "end", "error"]) bus.removeAllListeners(event);
      bus.on("error", () => {});
      resolve({ bus, rest: held.subarray(at + 1) });
    });
  });
}

function hello(options: TaskSocketOptions): object {
  const { token, client } = options;
  const protocol = { min: PROTOCOL_VERSION, max: PROTOCOL_VERSION };
  return { jsonrpc: "2.0", id: "hello", method: "hello", params: { protocol, role: "agent", token, client } };
}

function faultOf(line: Buffer): { code: ErrorCode; message: string } | undefined {
  try {
    const answer = JSON.parse(line.toString("utf8"));
    if (answer.error === undefined) return undefined;
    return {
      code: answer.error.data?.code ?? "INTERNAL",
      message: `greeting the bus: ${answer.error.message}`,
    };
  } catch {
    return { code: "INTERNAL", message: "greeting the bus: its answer is not JSON" };
  }
}

function join(
  agent: Socket,
  bus: Socket,
  { rest, secrets }: { rest: Buffer; secrets: readonly Secret[] },
): void {
  const towardsBus = frameRedactor(secrets, (bytes) => {
    if (!bus.write(bytes)) agent.pause();
  });
  let asked = 0;
  let answered = lines(rest);
  const finish = () => bus.end();
  let late: NodeJS.Timeout | undefined;
  agent.on("data", (chunk: Buffer) => {
    asked += lines(chunk);
    towardsBus.push(chunk);
  });
  bus.on("data", (chunk: Buffer) => {
    answered += lines(chunk);
    if (!agent.write(chunk)) bus.pause();
    if (late && answered >= asked) finish();
  });
  bus.on("drain", () => agent.resume());
  agent.on("drain", () => bus.resume());
  agent.once("end", () => {
    towardsBus.end();
    if (answered >= asked) finish();
    else late = setTimeout(finish, LONGEST_ANSWER_MS);
  });
  bus.once("end", () => agent.end());
  agent.once("close", () => {
    clearTimeout(late);
    bus.destroy();
  });
  bus.once("close", () => agent.destroySoon());
  if (rest.length > 0) agent.write(rest);
  agent.resume();
  bus.resume();
}

function lines(chunk: Buffer): number {
  let count = 0;
  for (let at = chunk.indexOf(NEWLINE); at >= 0; at = chunk.indexOf(NEWLINE, at + 1)) count += 1;
  return count;
}
