// Framing (B1, case 65 rpc-framing): lines out of any pieces, bounded, in linear time.

import assert from "node:assert/strict";
import { test } from "node:test";
import { FrameSplitter, isTooDeep, OVERSIZED, parseFrame } from "../../bus/wire/framing.ts";
import { isCode } from "../../schemas/errors.ts";
import { MAX_FRAME_DEPTH } from "../../schemas/limits.ts";

/** All frames of the chunks; "!" stands for one that was too large. */
function frames(chunks: (string | Buffer)[], max?: number): string[] {
  const splitter = new FrameSplitter(max);
  const out: string[] = [];
  for (const chunk of chunks) {
    splitter.push(Buffer.from(chunk));
    for (let frame = splitter.next(); frame !== undefined; frame = splitter.next())
      out.push(frame === OVERSIZED ? "!" : frame.toString());
  }
  return out;
}

test("case 65 rpc-framing: several frames in one piece, one frame byte by byte", () => {
  assert.deepEqual(frames(["a\nb\nc\n"]), ["a", "b", "c"]);
  assert.deepEqual(frames([..."{1}\n{2}\n"]), ["{1}", "{2}"]);
});

test("case 65 rpc-framing: a character split in the middle comes out whole", () => {
  const bytes = Buffer.from('"😀é"\n');
  for (let at = 0; at < bytes.length; at++)
    assert.deepEqual(frames([bytes.subarray(0, at), bytes.subarray(at)]), ['"😀é"']);
});

test("case 65 rpc-framing: CRLF and blank lines do not count, U+2028 does not end a line", () => {
  assert.deepEqual(
    frames(["\r\n\n  \n1\r\n"]).map((text) => JSON.parse(text)),
    [1],
  );
  assert.deepEqual(frames(['"a\u2028b\u2029c"\n']), ['"a\u2028b\u2029c"']);
});

test("B1: what is cut off before its line end is no frame", () => {
  assert.deepEqual(frames(["1\n2"]), ["1"]);
});

test("B1: a frame at the bound passes, one byte more fails that frame only", () => {
  assert.deepEqual(frames(["12345\n", "123456\n", "ok\n"], 5), ["12345", "!", "ok"]);
  assert.deepEqual(frames([..."12345\n123456\n1\n"], 5), ["12345", "!", "1"]);
  assert.deepEqual(frames(["x".repeat(50), "x".repeat(50), "x\nok\n"], 60), ["!", "ok"]);
});

test("B1: an endless line is reported once and held no further", () => {
  const splitter = new FrameSplitter(1_000);
  let reports = 0;
  for (let i = 0; i < 1_000; i++) {
    splitter.push(Buffer.alloc(100, 0x61));
    if (splitter.next() === OVERSIZED) reports += 1;
    assert.ok(splitter.pendingBytes <= 1_000);
  }
  assert.equal(reports, 1);
});

test("B1: frames taken from one splitter do not overwrite each other before the next is asked for", () => {
  const splitter = new FrameSplitter();
  splitter.push(Buffer.from("ab"));
  assert.equal(splitter.next(), undefined);
  splitter.push(Buffer.from("c\nde"));
  assert.equal(String(splitter.next()), "abc");
  assert.equal(splitter.next(), undefined);
  splitter.push(Buffer.from("f\n"));
  assert.equal(String(splitter.next()), "def");
});

test("case 65 rpc-framing: 4 MB in pieces of 64 bytes: every byte is looked at once", () => {
  const splitter = new FrameSplitter();
  const size = 1 << 22;
  let looked = 0;
  for (let sent = 0; sent < size; sent += 64) {
    const chunk = Buffer.alloc(64, 0x61);
    // The only way to find a line's end: a re-scan of what is held would be counted again.
    chunk.indexOf = (value: string | number | Uint8Array, from = 0) => {
      looked += chunk.length - Number(from);
      return Buffer.prototype.indexOf.call(chunk, value, Number(from));
    };
    splitter.push(chunk);
    assert.equal(splitter.next(), undefined);
  }
  assert.equal(looked, size);
  assert.equal(splitter.pendingBytes, size);
});

test("B1: nesting is counted outside strings only, and bounded before JSON.parse", () => {
  const deep = (n: number) => Buffer.from(`${"[".repeat(n)}${"]".repeat(n)}`);
  assert.equal(isTooDeep(deep(MAX_FRAME_DEPTH)), false);
  assert.equal(isTooDeep(deep(MAX_FRAME_DEPTH + 1)), true);
  assert.equal(isTooDeep(Buffer.from(JSON.stringify({ a: "[".repeat(1_000), b: '\\"[[' }))), false);
  assert.throws(
    () => parseFrame(deep(100_000)),
    (e) => isCode(e, "PARSE_ERROR"),
  );
});

test("B1: bytes that are not UTF-8, and text that is not JSON, are parse errors that repeat nothing", () => {
  for (const bytes of [
    Buffer.from([0x22, 0xff, 0x22]),
    Buffer.from("secret{"),
    Buffer.from("GET / HTTP/1.1"),
  ])
    assert.throws(
      () => parseFrame(bytes),
      (e) => isCode(e, "PARSE_ERROR") && !/secret|GET/.test(e.message),
    );
  assert.deepEqual(parseFrame(Buffer.from('{"__proto__":1}')), JSON.parse('{"__proto__":1}'));
});
