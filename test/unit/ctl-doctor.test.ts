// How the doctor's findings are told.

import assert from "node:assert/strict";
import test from "node:test";
import { doctorLines } from "../../bus/ctl/render/doctor.ts";
import { palette } from "../../bus/ctl/render/palette.ts";
import type { Finding } from "../../schemas/finding.ts";

const good: Finding = {
  part: "host",
  name: "node",
  state: "good",
  said: "Node 20.20.2",
  cure: "never shown",
};
const poor: Finding = {
  part: "limits",
  name: "memory",
  state: "poor",
  said: "no control group",
  cure: "run it as root",
};
const bad: Finding = {
  part: "state",
  name: "audit log",
  state: "bad",
  said: "it is not whole",
  cure: "busctl verify",
};

test("issue 4.9: the verdict first, part by part, the cure under what lacks and nowhere else", () => {
  assert.deepEqual(doctorLines([good, poor, bad], palette(false), 60), [
    "not well: 1 thing that is needed is missing; 1 of 3 things good",
    "",
    "Limits",
    "  ! memory     no control group",
    "               -> run it as root",
    "",
    "Host",
    "  ✓ node       Node 20.20.2",
    "",
    "State",
    "  ✗ audit log  it is not whole",
    "               -> busctl verify",
  ]);
  assert.match(
    doctorLines([good, poor], palette(false), 60)[0] ?? "",
    /^well enough: nothing needed is missing/,
  );
  assert.equal(doctorLines([good], palette(false), 60)[0], "well: 1 of 1 thing good");
});

test("issue 4.9: long sentences break between words, below where they begin", () => {
  const long = { ...poor, said: "a word ".repeat(12).trim() };
  for (const line of doctorLines([long], palette(false, false), 40).slice(3)) {
    assert.ok(line.length <= 40, line);
    assert.match(line, /^( {2}! memory {2}a word| {12}(a word|word|a |-> ))/);
  }
});
