// The long form of the fault tests: `npm run torture -- --minutes N --seed S [--kills K] [--point NAME] [--keep]`. With
// `--point` only fault points whose names begin so are armed, and nothing else is killed.

import { parseArgs } from "node:util";
import { FAULT_POINTS } from "../../schemas/fault-points.ts";
import { outOfReach } from "./out-of-reach.ts";
import { type Tally, torture, total } from "./torture.ts";

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
const never = FAULT_POINTS.filter((name) => !tally.points.passed.has(name) && outOfReach(name) === undefined);
// Enough was killed for every point to have had its turn.
if (total(tally) >= Number(values.kills) && values.point === undefined)
  for (const name of never) tally.violations.push(`never reached: ${name}`);
for (const [program, n] of byProgram(tally)) console.log(`${String(n).padStart(6)}  ${program}`);
const points = [...tally.points.kills].sort(([a], [b]) => (a < b ? -1 : 1));
for (const [name, n] of points) console.log(`${String(n).padStart(6)}  at ${name}`);
for (const name of FAULT_POINTS.filter((one) => !tally.points.kills.has(one)))
  console.log(`     -  at ${name}${whyNot(name, never.includes(name))}`);
console.log(
  `seed ${seed}: ${total(tally)} kills in ${tally.plans} plans, ${tally.starts} starts; ${points.length} of ${FAULT_POINTS.length} points killed; ${tally.violations.length} violations`,
);
for (const violation of tally.violations) console.log(violation);
process.exitCode = tally.violations.length > 0 ? 1 : 0;

/** Kills at random moments by target, and those at points by program. */
function byProgram(all: Tally): [string, number][] {
  const sums = new Map<string, number>();
  const names: readonly string[] = FAULT_POINTS;
  for (const [target, n] of all.kills) {
    const key = names.includes(target) ? `points of ${target.split(".")[0]}` : target;
    sums.set(key, (sums.get(key) ?? 0) + n);
  }
  return [...sums].sort(([a], [b]) => (a < b ? -1 : 1));
}

function whyNot(name: string, isNever: boolean): string {
  const why = outOfReach(name);
  if (why !== undefined) return `: needs ${why}`;
  return isNever ? ": not passed in this run" : ": passed";
}
