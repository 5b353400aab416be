// Properties of the framing (B1, case 65 rpc-framing): the pieces in which bytes come change nothing.

import assert from "node:assert/strict";
import { test } from "node:test";
import fc from "fast-check";
import { FrameSplitter, OVERSIZED, parseFrame } from "../../bus/wire/framing.ts";
import { isCode } from "../../schemas/errors.ts";

function split(bytes: Buffer, sizes: number[], max: number): string[] {
  const splitter = new FrameSplitter(max);
  const out: string[] = [];
  let at = 0;
  for (let i = 0; at < bytes.length; i++) {
    const size = Math.max(1, sizes[i % sizes.length] ?? 1);
    splitter.push(Buffer.from(bytes.subarray(at, at + size)));
    at += size;
    for (let frame = splitter.next(); frame !== undefined; frame = splitter.next())
      out.push(frame === OVERSIZED ? "!" : frame.toString("latin1"));
    assert.ok(!splitter.hasInput, "everything that came was looked at");
  }
  return out;
}

/** The same by the plain definition. */
function byDefinition(bytes: Buffer, max: number): string[] {
  const lines = bytes.toString("latin1").split("\n");
  const last = lines.pop() ?? "";
  const out = lines
    .filter((line) => line.length > max || /[^ \t\r]/.test(line))
    .map((line) => (line.length > max ? "!" : line));
  return last.length > max ? [...out, "!"] : out;
}

const sizes = fc.array(fc.integer({ min: 1, max: 40 }), { minLength: 1, maxLength: 12 });

test("B1: any split of any bytes gives the same frames", () => {
  const byte = fc.oneof(
    fc.constantFrom(0x0a, 0x0d, 0x20, 0x61, 0xf0, 0x9f),
    fc.integer({ min: 0, max: 255 }),
  );
  fc.assert(
    fc.property(
      fc.array(byte, { maxLength: 400 }),
      sizes,
      fc.integer({ min: 1, max: 60 }),
      (raw, cuts, max) => {
        const bytes = Buffer.from(raw);
        assert.deepEqual(split(bytes, cuts, max), byDefinition(bytes, max));
      },
    ),
    { numRuns: 500 },
  );
});

test("B1: any JSON values survive any split", () => {
  fc.assert(
    fc.property(fc.array(fc.jsonValue(), { maxLength: 8 }), sizes, (values, cuts) => {
      const bytes = Buffer.from(values.map((value) => `${JSON.stringify(value)}\n`).join(""));
      const got = split(bytes, cuts, 1 << 20).map((text) => parseFrame(Buffer.from(text, "latin1")));
      assert.deepEqual(got, JSON.parse(JSON.stringify(values)));
    }),
    { numRuns: 300 },
  );
});

test("B1: random garbage is a value or PARSE_ERROR, nothing else", () => {
  fc.assert(
    fc.property(fc.uint8Array({ maxLength: 600 }), (raw) => {
      try {
        parseFrame(Buffer.from(raw));
      } catch (error) {
        assert.ok(isCode(error, "PARSE_ERROR"));
      }
    }),
    { numRuns: 1_000 },
  );
});
