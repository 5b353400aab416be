// Issue 5.5: a check whose input was green before does not run; the record says whose pass stands for it.

import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { test } from "node:test";
import type { Gate, Task } from "../../schemas/task.ts";
import type { Verdict } from "../../schemas/verdict.ts";
import { type EngineWorld, engineWorld, shellTask } from "../helpers/engine.ts";
import { until } from "../helpers/wait.ts";

const REPO = "mkdir src docs; echo 1 > src/a; echo 1 > docs/a; git add -A; git commit -qm base";
const counts = (name: string, more = "true") => `echo x >> "$W/${name}"; ${more}`;
const check = (name: string, run: string, inputs: string[] = []) => ({
  name,
  run,
  inputs,
  timeout_s: 60,
  limits: {},
});
const GATE: Gate = {
  setup: [],
  shallow: [check("src", counts("src", "test -f src/a"), ["src/"])],
  middle: [],
  deep: [check("all", counts("all", "! grep -rq broken src docs"))],
  canary: { file: "src/a", append: "broken" },
};
const TASKS = [
  shellTask("src", "echo 2 > src/a", { allowed_files: ["src/**"] }),
  shellTask("docs", "echo 2 > docs/a", { allowed_files: ["docs/**"], depends_on: ["src"] }),
];
const ran = (world: EngineWorld, name: string) => readFileSync(join(world.dir, name), "utf8").length / 2;
const verdicts = (tasks: Task[]): Verdict[] =>
  tasks.flatMap((task) => task.attempts.flatMap((one) => one.verdicts));
const of = (all: Verdict[], name: string) => all.filter((one) => one.check === name);
/** Of a use, one in some is a run of the check all the same. */
const wasKnown = ({ cached, again }: Verdict) => cached !== undefined || again !== undefined;

async function runAll(world: EngineWorld, run: string, more = {}): Promise<Verdict[]> {
  await world.submit(TASKS, { run, gate: GATE, workers: 1, ...more });
  const { task } = await world.ended(run);
  const tasks = TASKS.map(({ id }) => task(id));
  for (const one of tasks) assert.equal(one.state.name, "passed", JSON.stringify(one.state));
  return verdicts(tasks);
}

test("issue 5.5: the same plan again is proven by what is on record, also behind a restart; changed input runs; the canary always does", async (t) => {
  const world = await engineWorld(t, REPO);
  const first = await runAll(world, "one");
  const src = of(first, "src").filter(({ tier }) => tier === "shallow");
  // The task "docs" leaves all that the check "src" declares as it landed before.
  assert.deepEqual(src.map(wasKnown), [false, true]);
  assert.deepEqual(
    of(first, "all")
      .filter(({ tier }) => tier === "deep")
      .map(wasKnown),
    [false, false],
  );
  const before = [ran(world, "src"), ran(world, "all")];
  await world.kill(world.scheduler);
  await world.kill(world.bus);
  await world.startBus();
  world.startScheduler();

  const second = await runAll(world, "two");
  const common = second.filter(({ tier }) => tier !== "canary");
  assert.ok(common.length >= 6 && common.every(wasKnown), JSON.stringify(common, null, 1));
  const canary = second.filter(({ tier }) => tier === "canary");
  assert.ok(canary.some(({ verdict }) => verdict === "fail") && !canary.some(wasKnown), "the canary ran");
  const truly = (name: string) => of(second, name).filter(({ cached }) => !cached).length;
  assert.deepEqual(
    [ran(world, "src"), ran(world, "all")],
    [before[0]! + truly("src"), before[1]! + truly("all")],
  );
  for (const { cached } of common) if (cached) assert.equal(cached.run, "one");
  const took = common.filter(({ cached }) => cached).map(({ duration_ms }) => duration_ms);
  t.diagnostic(`${took.length} verdicts from the record in ${took.join(", ")} ms each`);
  assert.equal(world.git("git rev-parse busbar/one^{tree}"), world.git("git rev-parse busbar/two^{tree}"));

  const third = await runAll(world, "three", { reuse_verdicts: false });
  assert.ok(!third.some(wasKnown) && third.every(({ key }) => key === undefined), "switched off");
});

test("issue 5.5: a scheduler that dies on the way to a cached verdict leaves nothing that is believed; the next one goes on", async (t) => {
  const world = await engineWorld(t, REPO);
  await runAll(world, "one");
  const armed = world.arm("scheduler.verdicts.before-record");
  await world.submit(TASKS, { run: "two", gate: GATE, workers: 1 });
  await until(
    "the scheduler died there",
    () => world.scheduler.child.exitCode !== null || world.scheduler.child.signalCode !== null,
  );
  assert.ok(world.passed("scheduler.verdicts.before-record"), armed);
  world.startScheduler();
  const { task } = await world.ended("two");
  for (const { id } of TASKS) assert.equal(task(id).state.name, "passed", id);
  assert.equal(world.git("git rev-parse busbar/one^{tree}"), world.git("git rev-parse busbar/two^{tree}"));
});
