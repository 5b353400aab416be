// The long form of the fault tests: `npm run torture -- --minutes N --seed S [--kills K] [--point NAME] [--keep]`. With
// `--point` only fault points whose names begin so are armed, and nothing else is killed.

import { parseArgs } from "node:util";
import { neverReached, reportOf } from "./report.ts";
import { torture, total } from "./torture.ts";

const KILLS_PER_PLAN = 60;

const { values } = parseArgs({
  options: {
    minutes: { type: "string", default: "30" },
    seed: { type: "string", default: String(Date.now() % 1_000_000) },
    kills: { type: "string", default: "1000" },
    point: { type: "string" },
    keep: { type: "boolean", default: false },
  },
});
const seed = Number(values.seed);
console.log(`torture: seed ${seed}, at most ${values.minutes} minutes, ${values.kills} kills`);
const began = performance.now();
const tally = await torture({
  seed,
  minutes: Number(values.minutes),
  kills: Number(values.kills),
  killsPerPlan: KILLS_PER_PLAN,
  keep: values.keep,
  ...(values.point === undefined ? {} : { point: values.point }),
  say: (line) => console.log(`${Math.round((performance.now() - began) / 1000)} s: ${line}`),
});
// Enough was killed for every point to have had its turn.
if (total(tally) >= Number(values.kills) && values.point === undefined)
  for (const name of neverReached(tally))
    tally.violations.push(`never reached, and scripts/torture/out-of-reach.ts does not say why: ${name}`);
for (const line of reportOf(tally, { seed, ms: performance.now() - began })) console.log(line);
process.exitCode = tally.violations.length > 0 ? 1 : 0;
