// What the torture does not reach must be reached by a test (scripts/torture/out-of-reach.ts), and its report must say all.

import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { test } from "node:test";
import { fileURLToPath } from "node:url";
import { FAULT_POINTS } from "../../schemas/fault-points.ts";
import { OUT_OF_REACH } from "../../scripts/torture/out-of-reach.ts";
import { PointTally } from "../../scripts/torture/points.ts";
import { neverReached, reportOf } from "../../scripts/torture/report.ts";
import type { Tally } from "../../scripts/torture/torture.ts";

const text = (path: string) => readFileSync(fileURLToPath(new URL(`../../${path}`, import.meta.url)), "utf8");

for (const { needs, test: file, word, points } of OUT_OF_REACH)
  test(`out of reach of the torture, and covered by ${file}: ${needs}`, () => {
    assert.ok(text(file).includes(word), `${file} speaks of ${word}`);
    for (const start of points)
      assert.ok(
        FAULT_POINTS.some((name) => name.startsWith(start)),
        `${start} is the beginning of a point`,
      );
  });

function tallyOf(over: Partial<Tally> = {}): Tally {
  const points = new PointTally();
  points.count("bus.journal.before-sync");
  for (const name of FAULT_POINTS) points.passed.add(name);
  const kills = new Map([
    ["bus", 3],
    ["bus.journal.before-sync", 1],
  ]);
  return { plans: 2, starts: 4, kills, points, violations: [], recoveries: [400, 100, 2_500], ...over };
}

test("the torture is red for a point that it did not reach and that nothing explains, and only for that", () => {
  const tally = tallyOf();
  assert.deepEqual(neverReached(tally), []);
  for (const name of ["bus.journal.before-sync", "bus.repair.before-cut"] as const)
    tally.points.passed.delete(name);
  assert.deepEqual(neverReached(tally), ["bus.journal.before-sync"]);
});

test("the report says seed, kills by program and kind, violations, points reached, and how long the bus was away", () => {
  const said = reportOf(tallyOf({ violations: ["r1: task a is gone"] }), { seed: 7, ms: 65_000 }).join("\n");
  for (const words of [
    /^RED {2}seed 7: 4 kills in 2 plans, 4 starts, 1m 05s$/m,
    /^ {2}bus +3 +1$/m,
    /^ {2}together +3 +1$/m,
    new RegExp(`^points: ${FAULT_POINTS.length} of ${FAULT_POINTS.length} reached, 1 killed at$`, "m"),
    /^bus away: 3 times, median 0\.4 s, worst 2\.5 s$/m,
    /^1 violation:\n {2}r1: task a is gone$/m,
  ])
    assert.match(said, words);
  const green = reportOf(tallyOf(), { seed: 7, ms: 1 });
  assert.match(green[0] ?? "", /^GREEN {2}seed 7/);
  assert.equal(green.at(-1), "no violations");
});
