// The bounded log: head as it comes, tail in a ring, one line between; in memory that does not grow.

import assert from "node:assert/strict";
import { existsSync, readFileSync, symlinkSync, writeFileSync, writeSync } from "node:fs";
import { join } from "node:path";
import test, { type TestContext } from "node:test";
import fc from "fast-check";
import { BoundedLog } from "../../shim/log.ts";
import { tempDir } from "../helpers/temp.ts";

function logOf(t: TestContext, pieces: string[], bounds = { head: 20, tail: 30 }) {
  const path = join(tempDir(t, "log"), "agent.log");
  const log = new BoundedLog(path, bounds);
  for (const piece of pieces) log.write(Buffer.from(piece));
  const summary = log.close();
  assert.equal(existsSync(`${path}.tail`), false);
  return { text: readFileSync(path, "utf8"), summary };
}

test("output within the bounds is kept as it is, without a mark", (t) => {
  const whole = "0123456789".repeat(5);
  const { text, summary } = logOf(t, [whole.slice(0, 19), whole.slice(19, 33), whole.slice(33)]);
  assert.equal(text, whole);
  assert.deepEqual(summary, { bytes: 50, dropped: 0, tail: whole });
});

test("beyond the bounds head and tail are kept, the tail from the beginning of a line", (t) => {
  const lines = Array.from({ length: 40 }, (_, i) => `line ${String(i).padStart(2, "0")}\n`);
  const { text, summary } = logOf(t, lines);
  assert.equal(text, "line 00\nline 01\nline\n[busbar: 276 bytes left out]\nline 37\nline 38\nline 39\n");
  assert.deepEqual([summary.bytes, summary.dropped], [44, 276]);
});

test("one endless line: the tail begins at a whole character", (t) => {
  const { text, summary } = logOf(t, ["é".repeat(1_000)]);
  assert.match(text, /^é{10}\n\[busbar: \d+ bytes left out\]\né{15}$/);
  assert.equal(summary.bytes + summary.dropped, 2_000);
});

test("property: every byte is kept or counted, and the end is always there", (t) => {
  const path = join(tempDir(t, "log"), "agent.log");
  fc.assert(
    fc.property(fc.array(fc.string({ unit: fc.constantFrom("a", "b", "\n"), maxLength: 90 })), (pieces) => {
      const log = new BoundedLog(path, { head: 20, tail: 30 });
      for (const piece of pieces) log.write(Buffer.from(piece));
      const { bytes, dropped } = log.close();
      const whole = pieces.join("");
      const text = readFileSync(path, "utf8");
      assert.equal(bytes + dropped, whole.length);
      assert.ok(text.startsWith(whole.slice(0, 20)));
      const [head, tail] = text.split(/\n\[busbar: \d+ bytes left out\]\n/);
      if (dropped === 0) assert.equal(text, whole);
      else assert.ok(whole.endsWith(tail ?? "-") && (head + (tail ?? "")).length === bytes);
    }),
    { numRuns: 200 },
  );
});

test("a link in the log's place is refused, and what it points to is left alone", (t) => {
  const dir = tempDir(t, "log");
  writeFileSync(join(dir, "victim"), "precious");
  symlinkSync(join(dir, "victim"), join(dir, "agent.log"));
  assert.throws(() => new BoundedLog(join(dir, "agent.log")), {
    code: "IO",
    message: /creating the log .*ELOOP/,
  });
  assert.equal(readFileSync(join(dir, "victim"), "utf8"), "precious");
});

test("case 70 disk-full: what cannot be written counts as left out, nothing throws, it goes on when there is room", (t) => {
  const path = join(tempDir(t, "log"), "agent.log");
  let room = 4;
  const log = new BoundedLog(path, { head: 100, tail: 100 }, (fd, bytes, from, length, at) => {
    if (room === 0) throw Object.assign(new Error("ENOSPC: no space left on device"), { code: "ENOSPC" });
    const some = Math.min(length, room);
    room -= some;
    return writeSync(fd, bytes, from, some, at);
  });
  log.write(Buffer.from("twelve bytes"));
  room = 1_000;
  log.write(Buffer.from(" and more"));
  const { bytes, dropped } = log.close();
  assert.deepEqual([bytes, dropped], [13, 8]);
  assert.equal(readFileSync(path, "utf8"), "twel and more");
});
