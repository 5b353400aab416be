// One connection of the fuzzer: says hello (rightly, wrongly or not at all), sends its frames in pieces of any size, and
// holds what comes back against what is due (expect.ts).

import { once } from "node:events";
import { connect, type Socket } from "node:net";
import { setImmediate as nextTurn } from "node:timers/promises";
import { ROLES, type Role } from "../../schemas/methods.ts";
import type { Facts } from "./calls.ts";
import { dueAnswers, readAnswer } from "./expect.ts";
import { frame } from "./mutate.ts";
import type { Random } from "./random.ts";

/** Whoever is not answered by then is not answered. */
const PATIENCE_MS = 60_000;

export interface SessionResult {
  frames: number;
  /** How often each code (or "ok") was answered. */
  codes: Map<string, number>;
  faults: string[];
  /** All that was sent, to be looked at when there are faults. */
  stream: Buffer;
  /** The bus ended the connection although answers were due. */
  cutOff: boolean;
}

/** Sends `count` frames. `sent` is told when all is on its way; fulfilled when the connection is closed. */
export async function fuzzSession(
  r: Random,
  order: { socket: string; facts: Facts; count: number; sent(): void },
): Promise<SessionResult> {
  const stream = streamOf(r, order.facts, order.count);
  const socket = connect(order.socket);
  const answers = collect(socket);
  const closed = new Promise<void>((resolve) => socket.once("close", () => resolve()));
  await once(socket, "connect");
  const rude = r.chance(0.1);
  await sendInPieces(r, socket, stream, closed);
  if (rude) socket.destroy();
  else socket.end();
  order.sent();
  const patience = setTimeout(() => socket.destroy(), PATIENCE_MS);
  await closed;
  clearTimeout(patience);
  const result = { frames: order.count, codes: answers.codes, stream };
  if (rude) return { ...result, faults: answers.faults, cutOff: false };
  const due = dueAnswers(stream);
  const missing = difference(due, answers.keys);
  const surplus = difference(answers.keys, due);
  const faults = [
    ...answers.faults,
    ...surplus.map((key) => `an answer nobody asked for: ${key.slice(0, 200)}`),
  ];
  return { ...result, faults: [...faults, ...missing.map(unanswered)], cutOff: missing.length > 0 };
}

const unanswered = (key: string) => `not answered: ${key.slice(0, 200)}`;

function streamOf(r: Random, facts: Facts, count: number): Buffer {
  const role = r.pick(ROLES);
  const greets = r.chance(0.85);
  const pieces = greets ? [hello(role, r.pick(facts.tokens[role]))] : [];
  // These two roles may not call what is kept from the others, and cannot become another role.
  const harmless = greets && (role === "agent" || role === "shim");
  for (let n = 0; n < count; n++) {
    const next = frame(r, facts, greets ? role : undefined);
    pieces.push(harmless || isHarmless(next, facts) ? next : Buffer.from("\n"));
  }
  if (r.chance(0.1)) pieces.push(Buffer.from('{"jsonrpc":"2.0","id":"half'));
  return Buffer.concat(pieces);
}

function hello(role: Role, token: string): Buffer {
  const params = { protocol: { min: 1, max: 1 }, role, token, client: "fuzz" };
  return Buffer.from(`${JSON.stringify({ jsonrpc: "2.0", id: "hello", method: "hello", params })}\n`);
}

/** Not an end of the bus itself, and no claim of a place outside the fuzzer's directory. */
function isHarmless(bytes: Buffer, facts: Facts): boolean {
  if (bytes.length > 1e6) return true;
  const text = bytes.toString("latin1");
  if (text.includes("shutdown")) return false;
  return (
    !text.includes("claim") ||
    text.split('"workspace":').length === text.split(`"workspace":"${facts.workspace}"`).length
  );
}

async function sendInPieces(r: Random, socket: Socket, stream: Buffer, closed: Promise<void>) {
  const largest = r.pick([1, 40, 2_000, 70_000, stream.length]);
  const size =
    stream.length > 100_000
      ? Math.max(largest, 70_000)
      : stream.length > 3_000
        ? Math.max(largest, 40)
        : largest;
  for (let at = 0; at < stream.length && socket.writable; ) {
    const end = Math.min(stream.length, at + 1 + r.below(size));
    if (!socket.write(stream.subarray(at, end))) await drained(socket, closed);
    at = end;
    if (r.chance(0.05)) await nextTurn();
  }
}

async function drained(socket: Socket, closed: Promise<void>): Promise<void> {
  const stop = new AbortController();
  const drain = once(socket, "drain", { signal: stop.signal }).catch(() => {}); // given up when closed first
  await Promise.race([drain, closed]);
  stop.abort();
}

interface Answers {
  keys: string[];
  codes: Map<string, number>;
  faults: string[];
}

function collect(socket: Socket): Answers {
  const answers: Answers = { keys: [], codes: new Map(), faults: [] };
  let held: Buffer[] = [];
  socket.on("error", () => {}); // "close" follows
  socket.on("data", (chunk: Buffer) => {
    let at = 0;
    for (let end = chunk.indexOf(0x0a); end >= 0; end = chunk.indexOf(0x0a, at)) {
      held.push(chunk.subarray(at, end));
      take(answers, Buffer.concat(held));
      held = [];
      at = end + 1;
    }
    if (at < chunk.length) held.push(chunk.subarray(at));
  });
  return answers;
}

function take(answers: Answers, line: Buffer): void {
  const { key, codes, faults } = readAnswer(line);
  if (key !== undefined) answers.keys.push(key);
  for (const code of codes) answers.codes.set(code, (answers.codes.get(code) ?? 0) + 1);
  answers.faults.push(...faults);
}

/** What of `a` is not in `b`, each as often as it is missing. */
function difference(a: readonly string[], b: readonly string[]): string[] {
  const left = new Map<string, number>();
  for (const key of b) left.set(key, (left.get(key) ?? 0) + 1);
  return a.filter((key) => {
    const n = left.get(key) ?? 0;
    left.set(key, n - 1);
    return n <= 0;
  });
}
