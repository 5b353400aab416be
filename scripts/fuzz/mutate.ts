// From good calls to frames of every kind: as they are, changed in their structure, their tokens or their bytes, in
// batches, and what no call ever looks like. A frame is bytes; most end with a line end.

import { MAX_BATCH_CALLS, MAX_FRAME_BYTES, MAX_FRAME_DEPTH } from "../../schemas/limits.ts";
import type { Role } from "../../schemas/methods.ts";
import { type Facts, goodCall, NAMES, type Request } from "./calls.ts";
import type { Random } from "./random.ts";

/** JSON text in the place of a value: what `JSON.stringify` would never write. */
const RAW = [
  "1e400",
  "-1e400",
  "1E-400",
  "-0",
  "12345678901234567890",
  "9007199254740993",
  "01",
  "+1",
  "NaN",
  "undefined",
  '"\\ud800"',
  '"\\udc00\\ud800"',
  '"\\u0000"',
  '"a\\u0000b"',
  '"\\x"',
  '"\\u00"',
  '{"__proto__":{"id":1,"role":"person"}}',
  '{"__proto__":null}',
  '{"constructor":{"prototype":{"x":1}}}',
  '{"toString":1,"hasOwnProperty":1,"then":1,"toJSON":1,"length":-1}',
  '{"a":1,"a":2,"a":{"a":3}}',
  `${"[".repeat(MAX_FRAME_DEPTH - 3)}${"]".repeat(MAX_FRAME_DEPTH - 3)}`,
  `${'{"a":'.repeat(400)}1${"}".repeat(400)}`,
  "[".repeat(5_000),
] as const;
const VALUES = [
  null,
  true,
  false,
  0,
  -1,
  1.5,
  2 ** 31,
  2 ** 53,
  Number.MAX_VALUE,
  "",
  " ",
  ".",
  "..",
  "../../etc/passwd",
  "src/\0.ts",
  "__proto__",
  "constructor",
  "-rf",
  "HEAD",
  "\ud800",
  "\u202e",
  "\r\n",
  "x".repeat(70),
  "y".repeat(20_000),
  "*".repeat(300),
  "{a,b}".repeat(40),
  [],
  {},
  [[[]]],
  { v: 1 },
] as const;
const BYTES = [
  "\0",
  "\n",
  "\r",
  '"',
  "\\",
  "{",
  "}",
  "[",
  "]",
  ",",
  ":",
  "\xff",
  "\xc0\x80",
  "\xed\xa0\x80",
  "\xef\xbb\xbf",
];
const MARK = "@raw-";

/** The next frame of a connection. */
export function frame(r: Random, f: Facts, role: Role | undefined): Buffer {
  const roll = r.next();
  if (roll < 0.45) return line(r, JSON.stringify(goodCall(r, f, role)));
  if (roll < 0.68) return line(r, restructured(r, goodCall(r, f, role)));
  if (roll < 0.78) return line(r, retokened(r, JSON.stringify(goodCall(r, f, role))));
  if (roll < 0.88) return rebyted(r, line(r, JSON.stringify(goodCall(r, f, role))));
  if (roll < 0.94) return line(r, batch(r, f, role));
  if (roll < 0.9995) return strange(r);
  return huge(r);
}

/** A line end is most often "\n"; none joins the frame with the next one. */
function line(r: Random, text: string): Buffer {
  return Buffer.from(text + (r.chance(0.9) ? "\n" : r.pick(["\r\n", " \t\r\n", "\n\n\r\n", ""])), "utf8");
}

function batch(r: Random, f: Facts, role: Role | undefined): string {
  const count = r.chance(0.05) ? MAX_BATCH_CALLS - 1 + r.below(3) : r.below(8);
  const one = () => {
    const call = goodCall(r, f, role);
    if (r.chance(0.6)) return JSON.stringify(call);
    return r.chance(0.7) ? restructured(r, call) : JSON.stringify(r.pick(VALUES));
  };
  return `[${Array.from({ length: count }, one).join(",")}]`;
}

// --- structure -------------------------------------------------------------------------------------

type Place = { holder: Record<string, unknown>; key: string };

/** One to three values of the call replaced, removed, added, renamed, wrapped or multiplied. */
function restructured(r: Random, call: Request): string {
  const root: Record<string, unknown> = { call: structuredClone(call) };
  for (let n = 1 + r.below(3); n > 0; n--) {
    const places = placesOf(root);
    if (places.length > 0) change(r, r.pick(places));
  }
  return JSON.stringify(root.call ?? null).replaceAll(
    new RegExp(`"${MARK}(\\d+)"`, "g"),
    (_, i: string) => RAW[Number(i)] as string,
  );
}

function placesOf(value: object): Place[] {
  const found: Place[] = [];
  for (const [key, inner] of Object.entries(value)) {
    found.push({ holder: value as Record<string, unknown>, key });
    if (typeof inner === "object" && inner !== null) found.push(...placesOf(inner));
  }
  return found;
}

function change(r: Random, { holder, key }: Place): void {
  const value = holder[key];
  const nasty = () => (r.chance(0.4) ? `${MARK}${r.below(RAW.length)}` : structuredClone(r.pick(VALUES)));
  switch (r.below(7)) {
    case 0:
      if (Array.isArray(holder)) holder.splice(Number(key), 1);
      else delete holder[key];
      return;
    case 1:
      holder[
        r.pick(["id", "method", "params", "jsonrpc", "result", "error", "extra", "run", "task", "path"])
      ] = value;
      return;
    case 2:
      holder[key] = r.chance(0.5) ? [value] : { value };
      return;
    case 3:
      holder[key] = Array.from({ length: r.below(30) }, () => value);
      return;
    case 4:
      holder[`k${r.below(5)}`] = nasty();
      return;
    default:
      holder[key] = nasty();
  }
}

// --- tokens and bytes ------------------------------------------------------------------------------

function retokened(r: Random, text: string): string {
  const tokens = text.match(/"(?:[^"\\]|\\.)*"|[{}[\],:]|[^\s{}[\],:"]+/g) ?? [];
  for (let n = 1 + r.below(3); n > 0 && tokens.length > 0; n--) {
    const at = r.below(tokens.length);
    const other = r.below(tokens.length);
    const kind = r.below(5);
    if (kind === 0) tokens.splice(at, 1);
    else if (kind === 1) tokens.splice(at, 0, tokens[other] as string);
    else if (kind === 2) [tokens[at], tokens[other]] = [tokens[other] as string, tokens[at] as string];
    else if (kind === 3) tokens[at] = r.pick(RAW);
    else tokens[at] = JSON.stringify(r.pick(NAMES));
  }
  return tokens.join(r.pick(["", "", " "]));
}

function rebyted(r: Random, bytes: Buffer): Buffer {
  let out = bytes;
  for (let n = 1 + r.below(6); n > 0 && out.length > 0; n--) {
    const at = r.below(out.length);
    const length = Math.min(out.length - at, 1 + r.below(r.chance(0.2) ? 200 : 4));
    const head = out.subarray(0, at);
    const rest = out.subarray(at + length);
    const piece = out.subarray(at, at + length);
    const kind = r.below(4);
    if (kind === 0) out = Buffer.concat([head, rest]);
    else if (kind === 1) out = Buffer.concat([head, piece, piece, rest]);
    else if (kind === 2) out = Buffer.concat([head, Buffer.from(r.pick(BYTES), "latin1"), piece, rest]);
    else out = Buffer.concat([head, Buffer.from(piece.map((byte) => byte ^ (1 << r.below(8)))), rest]);
  }
  return out;
}

/** What is no call at all. */
function strange(r: Random): Buffer {
  const kind = r.below(6);
  if (kind === 0) return Buffer.from(Array.from({ length: r.below(300) }, () => r.below(256)));
  if (kind === 1) return line(r, JSON.stringify(r.pick(VALUES)));
  if (kind === 2) return line(r, r.pick(RAW));
  if (kind === 3) return line(r, `\ufeff${JSON.stringify({ jsonrpc: "2.0", id: 1, method: "ping" })}`);
  if (kind === 4)
    return Buffer.from(r.pick(["\n", "\r\n", " \t \n", "\n\n\n", "\0\n", "GET / HTTP/1.1\r\n\r\n"]));
  return line(r, `{"jsonrpc":"2.0","id":1,"method":"ping","id":${r.below(9)},"params":{},"method":"pong"}`);
}

/** Around the largest frame: padding in the params, in the id, in no JSON at all. */
function huge(r: Random): Buffer {
  const size = MAX_FRAME_BYTES - 2 + r.below(5);
  const kind = r.below(4);
  if (kind === 0) return Buffer.concat([Buffer.alloc(size, 0x61), Buffer.from("\n")]);
  const [head, tail] =
    kind === 1
      ? ['{"jsonrpc":"2.0","id":1,"method":"ping","params":{"x":"', '"}}']
      : kind === 2
        ? ['{"jsonrpc":"2.0","method":"ping","id":"', '"}']
        : ['{"jsonrpc":"2.0","id":1,"method":"', '"}'];
  const padding = Buffer.alloc(size - head.length - tail.length, r.pick(["a", "\\n", "é"]));
  if (padding.at(-1) !== 0x61) padding.fill("a", padding.length - 1); // no half escape, no half character ...
  if (r.chance(0.8) && padding.length % 2 === 0) padding.fill("a", padding.length - 2); // ... most of the time
  return Buffer.concat([Buffer.from(head), padding, Buffer.from(`${tail}\n`)]);
}
