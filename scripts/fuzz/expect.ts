// What the protocol says a stream of bytes must be answered with, written by its plain definition and without any code
// of the bus: which answers are due, by id, and whether an answer is one that may leave the bus.

import { ERRORS, type ErrorCode } from "../../schemas/errors.ts";
import {
  MAX_BATCH_CALLS,
  MAX_FRAME_BYTES,
  MAX_FRAME_DEPTH,
  MAX_ID_TEXT_CHARS,
} from "../../schemas/limits.ts";

/** Names one answer: the JSON of its id, or of the sorted ids of a batch. */
type Key = string;

/** All answers that are due for `stream`, in any order. */
export function dueAnswers(stream: Buffer): Key[] {
  const due: Key[] = [];
  let at = 0;
  for (;;) {
    const end = stream.indexOf(0x0a, at);
    const line = stream.subarray(at, end < 0 ? stream.length : end);
    if (line.length > MAX_FRAME_BYTES) due.push("null");
    else if (end < 0)
      return due; // half a frame has no effect
    else if (line.some((byte) => byte !== 0x20 && byte !== 0x09 && byte !== 0x0d)) {
      const key = dueFor(line);
      if (key !== undefined) due.push(key);
    }
    if (end < 0) return due;
    at = end + 1;
  }
}

const UTF8 = new TextDecoder("utf-8", { fatal: true, ignoreBOM: true });

function dueFor(line: Buffer): Key | undefined {
  let text: string;
  let value: unknown;
  try {
    text = UTF8.decode(line);
    value = JSON.parse(text);
  } catch {
    return "null";
  }
  if (deeperThan(text, MAX_FRAME_DEPTH)) return "null";
  if (!Array.isArray(value)) return dueForOne(value);
  if (value.length === 0 || value.length > MAX_BATCH_CALLS) return "null";
  const keys = value.map(dueForOne).filter((key) => key !== undefined);
  return keys.length > 0 ? batchKey(keys) : undefined;
}

function batchKey(keys: Key[]): Key {
  return `[${keys.sort().join(",")}]`;
}

/** A notification is due nothing; what is not even a request is due an error, with its id if that is one. */
function dueForOne(request: unknown): Key | undefined {
  if (typeof request !== "object" || request === null || Array.isArray(request)) return "null";
  const own = (key: string) =>
    Object.hasOwn(request, key) ? (request as Record<string, unknown>)[key] : undefined;
  const id = own("id");
  const params = own("params");
  const sound =
    own("jsonrpc") === "2.0" &&
    typeof own("method") === "string" &&
    (params === undefined || (typeof params === "object" && params !== null)) &&
    !Object.hasOwn(request, "result") &&
    !Object.hasOwn(request, "error");
  if (id === undefined) return sound ? undefined : "null";
  return isId(id) ? JSON.stringify(id) : "null";
}

function isId(id: unknown): boolean {
  if (typeof id === "number") return Number.isFinite(id) && Math.abs(id) < 2 ** 53;
  return id === null || (typeof id === "string" && id.length <= MAX_ID_TEXT_CHARS);
}

/** Asked of the text, since of two values with one key only the last is seen by `JSON.parse`. */
function deeperThan(text: string, depth: number): boolean {
  let open = 0;
  for (let at = 0; at < text.length; at++) {
    const char = text[at];
    if (char === '"') {
      for (at++; text[at] !== '"'; at++) if (text[at] === "\\") at++;
    } else if (char === "[" || char === "{") {
      open += 1;
      if (open > depth) return true;
    } else if (char === "]" || char === "}") open -= 1;
  }
  return false;
}

const NOTIFICATIONS = new Set(["event", "event_error", "cancel", "shutdown"]);

/** One line that came from the bus: the key of the answer (none for a notification), its codes, what is wrong with it. */
export interface Received {
  key?: Key;
  codes: string[];
  faults: string[];
}

export function readAnswer(line: Buffer): Received {
  const seen: Received = { codes: [], faults: [] };
  if (line.length > MAX_FRAME_BYTES) seen.faults.push(`an answer of ${line.length} bytes`);
  let value: unknown;
  try {
    value = JSON.parse(UTF8.decode(line));
  } catch (error) {
    seen.faults.push(`not JSON: ${String(error)}`);
    return seen;
  }
  if (Array.isArray(value)) seen.key = batchKey(value.map((each) => readOne(each, seen) ?? "?"));
  else {
    const key = readOne(value, seen);
    if (key !== undefined) seen.key = key;
  }
  return seen;
}

function readOne(value: unknown, seen: Received): Key | undefined {
  const { jsonrpc, id, method, params, result, error, ...rest } = (value ?? {}) as Record<string, unknown>;
  if (jsonrpc !== "2.0" || Object.keys(rest).length > 0)
    seen.faults.push(`not a JSON-RPC answer: ${JSON.stringify(value)?.slice(0, 200)}`);
  if (method !== undefined) {
    if (id !== undefined || typeof params !== "object" || !NOTIFICATIONS.has(String(method)))
      seen.faults.push(`a call from the bus: ${method}`);
    return undefined;
  }
  if ((result === undefined) === (error === undefined)) seen.faults.push("neither result nor error, or both");
  if (error !== undefined) readError(error, seen);
  else seen.codes.push("ok");
  return JSON.stringify(id);
}

/** A code of the catalogue with its number, and words that help (its own, or those of the moment); no stack, no source file; and never a fault of the bus. */
function readError(error: unknown, seen: Received): void {
  const { code, message, data } = error as {
    code: number;
    message: string;
    data?: { code?: string; help?: string };
  };
  const name = data?.code as ErrorCode;
  seen.codes.push(String(name));
  if (!Object.hasOwn(ERRORS, name)) seen.faults.push(`no code of the catalogue: ${name}`);
  else if (ERRORS[name].rpc !== code || typeof data?.help !== "string" || data.help.trim() === "")
    seen.faults.push(`${name} is not ${code}`);
  if (typeof message !== "string" || message === "") seen.faults.push(`${name} without a message`);
  if (name === "INTERNAL") seen.faults.push("a fault of the bus: INTERNAL");
  if (/\n\s+at |node:internal|\.[cm]?[jt]s:\d+/.test(JSON.stringify(error)))
    seen.faults.push(`a stack: ${message}`);
}
