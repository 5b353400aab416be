// What a daemon says when it cannot start is read back as the same error, whatever stands round it in the log.

import assert from "node:assert/strict";
import { test } from "node:test";
import { readStartFailure, startFailure } from "../../bus/client/last-words.ts";
import { BusbarError } from "../../schemas/errors.ts";

test("code, message of several lines and help come back as they were thrown", () => {
  const error = new BusbarError("BAD_CONFIG", "reading /c.yaml:\n/c.yaml:1:1: error: unknown key\n1 error", {
    help: "Mend line 1.",
  });
  const log = `{"level":"info","message":"ready"}\n${startFailure("busd", error)}{"level":"info"}\n`;
  const back = readStartFailure(log);
  assert.deepEqual(
    [back?.code, back?.message, back?.data.help],
    ["BAD_CONFIG", error.message, "Mend line 1."],
  );
});

test("the last failure counts; the catalogue's help stands where there is no nearer one", () => {
  const text =
    startFailure("scheduler", new BusbarError("WORKER_EXISTS", "pid 7 works here")) +
    startFailure("busd", new BusbarError("STORAGE", "writing /x: ENOSPC"));
  const back = readStartFailure(text);
  assert.deepEqual([back?.code, back?.message], ["STORAGE", "writing /x: ENOSPC"]);
  assert.match(String(back?.data.help), /make room/);
});

test("a fault is INTERNAL: its stack stays in the log and is never part of what is told", () => {
  const text = startFailure("busd", new TypeError("x is not a function"));
  assert.match(text, /\n {4}at /);
  const back = readStartFailure(text);
  assert.deepEqual([back?.code, back?.message], ["INTERNAL", "it failed: x is not a function"]);
});

test("nothing of the kind, or a code that we do not know", () => {
  assert.equal(readStartFailure(""), undefined);
  assert.equal(readStartFailure("Error: boom\n    at x (y.js:1:1)\n"), undefined);
  assert.equal(readStartFailure("busd: FROM_THE_FUTURE: odd\n")?.code, "INTERNAL");
});
