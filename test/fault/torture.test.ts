// A share of the torture in every run: a plan of real programs that are killed at random moments and at named
// points, and judged. The long form is `npm run torture -- --minutes N --seed S`.

import assert from "node:assert/strict";
import { test } from "node:test";
import { torture, total } from "../../scripts/torture/torture.ts";

/** A new one for every run of the tests would find more and could not be repeated; the long form takes any. */
const SEED = 71;
/** Of one plan, which is then brought to its end. */
const KILLS = 25;

test("case 71 restart-mid-run: killed at random moments and at named points, every promise holds", async (t) => {
  const say = (line: string) => t.diagnostic(line);
  const tally = await torture({ seed: SEED, minutes: 1, kills: 1, killsPerPlan: KILLS, keep: false, say });
  assert.deepEqual(tally.violations, []);
  assert.ok(total(tally) >= KILLS / 3, `${total(tally)} kills`);
  assert.ok(tally.points.kills.size >= 3, `points that killed: ${[...tally.points.kills.keys()].join(", ")}`);
});
