// The state comes back older than the world: a backup was restored, or the end of the journal is lost. What had landed is
// on the branch still. It is proven anew and taken over, never run again, never landed twice.

import assert from "node:assert/strict";
import { cpSync, existsSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { type TestContext, test } from "node:test";
import { branchesOfNoRun } from "../../bus/git/run-branches.ts";
import type { FaultPoint } from "../../schemas/fault-points.ts";
import { type EngineWorld, engineWorld, pidIn, shellTask } from "../helpers/engine.ts";
import { isAlive, processesOf } from "../helpers/processes.ts";
import { until } from "../helpers/wait.ts";

/** Each agent counts its starts, says that it is there, and waits for the file `go-<id>` where that is asked. */
const counting = (id: string, more: Parameters<typeof shellTask>[2] = {}, wait = false) => {
  const held = wait ? `echo $$ > "$W/${id}.pid"; until [ -e "$W/go-${id}" ]; do sleep 0.05; done; ` : "";
  const command = `echo x >> "$W/starts-${id}"; ${held}echo ${id} > ${id}.txt`;
  return shellTask(id, command, { allowed_files: [`${id}.txt`], ...more });
};
const gateOf = (run: string) => ({
  setup: [],
  shallow: [],
  middle: [],
  deep: [{ name: "slow", run, inputs: [], timeout_s: 60, limits: {} }],
});
const counted = 'echo x >> "$W/checks"; [ ! -e "$W/red" ]';
const touch = (world: EngineWorld, name: string) => writeFileSync(join(world.dir, name), "");
const lines = (world: EngineWorld, name: string) =>
  existsSync(join(world.dir, name)) ? readFileSync(join(world.dir, name), "utf8").split("\n").length - 1 : 0;

async function killBoth(world: EngineWorld): Promise<void> {
  await world.kill(world.scheduler);
  await world.kill(world.bus);
}
async function startBoth(world: EngineWorld): Promise<void> {
  await world.startBus();
  world.startScheduler();
}

const stateOf = (world: EngineWorld) => join(world.dir, "state");
const backupOf = (world: EngineWorld) => join(world.dir, "backup");
const saveState = (world: EngineWorld) =>
  cpSync(stateOf(world), backupOf(world), { recursive: true, verbatimSymlinks: true });
/** The state directory as it was saved; whatever worked in it was ended with the machine. */
async function restoreState(world: EngineWorld): Promise<void> {
  for (const { pid } of processesOf(world.dir)) process.kill(pid, "SIGKILL");
  await until("nothing works in it", () => processesOf(world.dir).length === 0);
  rmSync(stateOf(world), { recursive: true });
  cpSync(backupOf(world), stateOf(world), { recursive: true, verbatimSymlinks: true });
}

/** A plan that ran to its end after the state was saved; then the saved state came back. */
async function restoredBeforeStart(t: TestContext, check = counted) {
  const world = await engineWorld(t);
  await world.kill(world.scheduler);
  const run = await world.submit([counting("a"), counting("b", { depends_on: ["a"] })], {
    gate: gateOf(check),
  });
  await world.kill(world.bus);
  saveState(world);
  await startBoth(world);
  await world.ended(run);
  const head = world.git("git rev-parse busbar/r");
  await killBoth(world);
  await restoreState(world);
  return { world, run, head };
}

/** Both tasks are landed by the commits that had landed before, and no agent ran again. */
async function takenOver(world: EngineWorld, run: string, head: string) {
  const { run: facts, task } = await world.ended(run);
  assert.deepEqual(
    facts.landed.map((landing) => [landing.task, landing.recovered]),
    [
      ["a", 1],
      ["b", 1],
    ],
    world.log().slice(-4000),
  );
  assert.equal(facts.head, head);
  assert.equal(world.git("git rev-parse busbar/r"), head);
  assert.equal(facts.paused, false);
  assert.deepEqual([lines(world, "starts-a"), lines(world, "starts-b")], [1, 1]);
  return task;
}

test("issue 3: landed, then a state from before the claim came back: proven anew on exactly that tree and taken over", async (t) => {
  const { world, run, head } = await restoredBeforeStart(t);
  await startBoth(world);
  const task = await takenOver(world, run, head);
  assert.equal(lines(world, "checks"), 4, "each landing was proven twice");
  const verdicts = task("b").attempts.at(-1)?.verdicts ?? [];
  const tree = world.git("git rev-parse busbar/r^{tree}");
  assert.ok(verdicts.some((one) => one.check === "slow" && one.tree === tree && one.verdict === "pass"));
  const proof = await world.person.call("verify", {});
  assert.equal(proof.first_bad, undefined);
  assert.ok(proof.replay?.same);
});

test("issue 3: killed at each step of taking a landing over: the next scheduler takes it over, nothing runs again", async (t) => {
  const { world, run, head } = await restoredBeforeStart(t);
  await world.startBus();
  const points: FaultPoint[] = [
    "scheduler.recover.before-publish",
    "scheduler.recover.before-phase",
    "scheduler.recover.before-tell-bus",
  ];
  for (const point of points) {
    const file = world.arm(point);
    world.startScheduler();
    const { pid } = world.scheduler.child;
    await until(`it died at ${point}`, () => !existsSync(file) && !isAlive(pid ?? 0));
  }
  world.startScheduler();
  await takenOver(world, run, head);
});

test("issue 3: what landed is red now: the run is held with LANDED_RED, nothing is undone; mended and resumed, it is taken over", async (t) => {
  const { world, run, head } = await restoredBeforeStart(t);
  touch(world, "red");
  await startBoth(world);
  await until("the run is paused", async () => (await world.state(run)).run.paused);
  const { run: facts } = await world.state(run);
  assert.match(facts.paused_why ?? "", /LANDED_RED: .*landed as a#1.*check slow is red.*git update-ref/);
  assert.equal(world.git("git rev-parse busbar/r"), head);
  assert.equal(facts.landed.length, 0);
  rmSync(join(world.dir, "red"));
  await world.person.call("resume", { run });
  await takenOver(world, run, head);
});

test("issue 3: what landed is red, and a person moves the branch back as the message says: the tasks run anew", async (t) => {
  const { world, run } = await restoredBeforeStart(t);
  touch(world, "red");
  await startBoth(world);
  await until("the run is paused", async () => (await world.state(run)).run.paused);
  const why = (await world.state(run)).run.paused_why ?? "";
  const [deed] = /git update-ref \S+ [0-9a-f]+/.exec(why) ?? [];
  world.git(deed ?? "false");
  rmSync(join(world.dir, "red"));
  await world.person.call("resume", { run });
  const { run: facts } = await world.ended(run);
  assert.deepEqual(
    facts.landed.map((landing) => [landing.task, landing.recovered]),
    [
      ["a", undefined],
      ["b", undefined],
    ],
  );
  assert.deepEqual([lines(world, "starts-a"), lines(world, "starts-b")], [2, 2]);
});

test("issue 3: a state came back in which the attempt that landed still runs: it is ended free of charge, the landing taken over", async (t) => {
  const world = await engineWorld(t);
  const run = await world.submit([counting("a", {}, true)], { gate: gateOf(counted) });
  await until("the agent runs", () => pidIn(join(world.dir, "a.pid")));
  await killBoth(world);
  saveState(world);
  await startBoth(world);
  touch(world, "go-a");
  await world.ended(run);
  const head = world.git("git rev-parse busbar/r");
  await killBoth(world);
  await restoreState(world);
  await startBoth(world);
  const { run: facts, task } = await world.ended(run);
  assert.deepEqual(
    task("a").attempts.map(({ result }) => result),
    ["lost", "passed"],
  );
  assert.deepEqual([facts.head, facts.landed.length, facts.landed[0]?.recovered], [head, 1, 1]);
  assert.equal(world.git("git rev-parse busbar/r"), head);
  assert.equal(lines(world, "starts-a"), 1);
});

/** The bus's own directory, in the one state. */
function busDir(world: EngineWorld): string {
  const [key = ""] = readdirSync(stateOf(world));
  return join(stateOf(world), key, "bus");
}

test("issue 3: the bus comes back with an older state under a living scheduler: a landing without its verdicts is proven anew, nothing stays silently on its way", async (t) => {
  const world = await engineWorld(t);
  const check = 'echo x >> "$W/checks"; echo $$ > "$W/check.pid"; until [ -e "$W/go" ]; do sleep 0.05; done';
  const run = await world.submit([counting("a")], { gate: gateOf(check) });
  await until("the deep check runs", () => pidIn(join(world.dir, "check.pid")));
  cpSync(busDir(world), backupOf(world), { recursive: true });
  touch(world, "go");
  await world.ended(run);
  const head = world.git("git rev-parse busbar/r");
  await world.kill(world.bus);
  rmSync(busDir(world), { recursive: true });
  cpSync(backupOf(world), busDir(world), { recursive: true });
  await world.startBus();
  const { run: facts, task } = await world.ended(run);
  assert.deepEqual([facts.head, facts.landed.length, facts.paused], [head, 1, false]);
  assert.equal(world.git("git rev-parse busbar/r"), head);
  assert.equal(task("a").attempts.length, 1);
  assert.equal(lines(world, "starts-a"), 1);
  assert.equal(lines(world, "checks"), 2);
  assert.ok(isAlive(world.scheduler.child.pid ?? 0));
});

test("O8: down while a landing is proven anew ends its check; after up it is proven anew and taken over", async (t) => {
  const world = await engineWorld(t);
  const check = 'echo x >> "$W/checks"; until [ -e "$W/go" ]; do sleep 0.05; done';
  const run = await world.submit([counting("a")], { gate: gateOf(check) });
  await until("the deep check runs", () => lines(world, "checks") === 1);
  cpSync(busDir(world), backupOf(world), { recursive: true });
  touch(world, "go");
  await world.ended(run);
  const head = world.git("git rev-parse busbar/r");
  await world.kill(world.bus);
  rmSync(join(world.dir, "go"));
  rmSync(busDir(world), { recursive: true });
  cpSync(backupOf(world), busDir(world), { recursive: true });
  await world.startBus();
  await until("the check runs again", () => lines(world, "checks") === 2);
  await world.person.call("shutdown", {});
  await until("nobody is left", () => processesOf(world.dir).length === 0);
  touch(world, "go");
  await startBoth(world);
  const { run: facts, task } = await world.ended(run);
  assert.deepEqual([facts.head, facts.landed.length, facts.paused], [head, 1, false]);
  assert.equal(task("a").attempts.length, 1);
  assert.equal(lines(world, "starts-a"), 1);
});

test("issue 3: the bus comes back with a state from before a claim under a living scheduler: the landing is taken over, what runs without the bus's knowledge is ended", async (t) => {
  const world = await engineWorld(t);
  await world.kill(world.scheduler);
  const run = await world.submit([counting("a"), counting("b", {}, true)], { gate: gateOf(counted) });
  await world.kill(world.bus);
  cpSync(busDir(world), backupOf(world), { recursive: true });
  await startBoth(world);
  await until("a has landed", async () => (await world.state(run)).run.landed.length === 1);
  const agent = await until("the agent of b runs", () => pidIn(join(world.dir, "b.pid")));
  const head = world.git("git rev-parse busbar/r");
  await world.kill(world.bus);
  rmSync(busDir(world), { recursive: true });
  cpSync(backupOf(world), busDir(world), { recursive: true });
  await world.startBus();
  await until("the agent that the bus does not know is ended", () => !isAlive(agent));
  touch(world, "go-b");
  const { run: facts } = await world.ended(run);
  assert.deepEqual(
    facts.landed.map((landing) => [landing.task, landing.recovered]),
    [
      ["a", 1],
      ["b", undefined],
    ],
  );
  assert.equal(world.git("git rev-parse busbar/r^"), head);
  assert.deepEqual([lines(world, "starts-a"), lines(world, "starts-b")], [1, 2]);
});

test("issue 3: the state directory deleted while refs remain: the branch is named and kept, and the same plan takes over what had landed", async (t) => {
  const world = await engineWorld(t);
  const tasks = [counting("a"), counting("b", { depends_on: ["a"] })];
  const run = await world.submit(tasks, { gate: gateOf(counted) });
  await world.ended(run);
  const head = world.git("git rev-parse busbar/r");
  await killBoth(world);
  rmSync(stateOf(world), { recursive: true });
  await startBoth(world);
  const { runs } = await world.person.call("list_runs", {});
  const common = join(world.repo, ".git");
  assert.deepEqual(
    await branchesOfNoRun(
      common,
      runs.map((one) => one.run),
    ),
    ["busbar/r"],
  );
  assert.equal(world.git("git rev-parse busbar/r"), head);
  assert.equal(await world.submit(tasks, { gate: gateOf(counted) }), "r");
  await takenOver(world, run, head);
  assert.deepEqual(await branchesOfNoRun(common, [run]), []);
});
