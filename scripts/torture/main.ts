// The long form of the fault tests: `npm run torture -- --minutes N --seed S [--kills K] [--point NAME] [--keep]`. With
// `--point` only fault points whose names begin so are armed, and nothing else is killed.

import { parseArgs } from "node:util";
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
for (const [target, n] of tally.kills) console.log(`${String(n).padStart(6)}  ${target}`);
console.log(
  `${total(tally)} kills in ${tally.plans} plans, ${tally.starts} starts; ${tally.violations.length} violations`,
);
for (const violation of tally.violations) console.log(violation);
process.exitCode = tally.violations.length > 0 ? 1 : 0;
