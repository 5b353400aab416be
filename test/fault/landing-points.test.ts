// The scheduler killed, the bus refusing or away, and locks held, at the exact steps of a landing (fault points).

import assert from "node:assert/strict";
import { existsSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { type TestContext, test } from "node:test";
import type { FaultPoint } from "../../schemas/fault-points.ts";
import { type EngineWorld, engineWorld, pidIn, shellTask } from "../helpers/engine.ts";
import { isAlive } from "../helpers/processes.ts";
import { until } from "../helpers/wait.ts";

/** The agent counts its starts. */
const a = shellTask("a", 'echo x >> "$W/starts"; echo a > a.txt', {
  allowed_files: ["a.txt"],
  acceptance: [{ run: "true" }],
});
/** Counts its starts, says its pid, waits for the file `go`. */
const check = 'echo x >> "$W/checks"; echo $$ > "$W/check.pid"; until [ -e "$W/go" ]; do sleep 0.05; done';
const gate = {
  setup: [],
  shallow: [],
  middle: [],
  deep: [{ name: "slow", run: check, inputs: [], timeout_s: 60, limits: {} }],
};

async function atDeepCheck(t: TestContext) {
  const world = await engineWorld(t);
  const run = await world.submit([a], { gate });
  await until("the deep check runs", () => pidIn(join(world.dir, "check.pid")));
  return { world, run };
}
const go = (world: EngineWorld) => writeFileSync(join(world.dir, "go"), "");
const lines = (world: EngineWorld, name: string) =>
  readFileSync(join(world.dir, name), "utf8").split("\n").length - 1;
const BRANCH = "refs/heads/busbar/r";
const lockOf = (world: EngineWorld) => join(world.repo, ".git", `${BRANCH}.lock`);

/** Arms the point, waits until the scheduler has died there. */
async function killAt(world: EngineWorld, point: FaultPoint, then: () => void): Promise<void> {
  const file = world.arm(point);
  then();
  const { pid } = world.scheduler.child;
  await until(`the scheduler died at ${point}`, () => !existsSync(file) && !isAlive(pid ?? 0));
}

/** Landed once, by the one attempt, and the agent ran once. */
async function landedOnce(world: EngineWorld, run: string) {
  const { run: facts, task } = await world.ended(run);
  assert.deepEqual(
    facts.landed.map((landing) => landing.task),
    ["a"],
    JSON.stringify(task("a").state),
  );
  assert.equal(facts.paused, false);
  assert.equal(world.git("git rev-list --count main..busbar/r"), "1");
  assert.equal(world.git("git rev-parse busbar/r"), facts.head);
  assert.deepEqual(
    task("a").attempts.map((attempt) => attempt.result),
    ["passed"],
  );
  assert.equal(lines(world, "starts"), 1);
}

test("case 71 restart-mid-run: killed before the branch moves: the candidate is proven again and lands once", async (t) => {
  const { world, run } = await atDeepCheck(t);
  await killAt(world, "scheduler.land.before-move-ref", () => go(world));
  assert.equal(world.git("git rev-parse busbar/r"), world.git("git rev-parse main"));
  world.startScheduler();
  await landedOnce(world, run);
});

test("case 71 restart-mid-run: killed before the bus is told: the landing is reported, nothing is proven again", async (t) => {
  const { world, run } = await atDeepCheck(t);
  await killAt(world, "scheduler.land.before-tell-bus", () => go(world));
  assert.equal(world.git("git rev-list --count main..busbar/r"), "1", "the branch is ahead of the bus");
  assert.equal((await world.state(run)).run.landed.length, 0);
  world.startScheduler();
  await landedOnce(world, run);
  assert.equal(lines(world, "checks"), 1);
});

test("killed before the bus is told, and the task is cancelled before the next scheduler looks: the branch goes back", async (t) => {
  const { world, run } = await atDeepCheck(t);
  await killAt(world, "scheduler.land.before-tell-bus", () => go(world));
  await world.person.call("cancel", { run, task: "a" });
  // The next one dies in the middle of it.
  await killAt(world, "scheduler.reconcile.before-move-back", () => void world.startScheduler());
  await world.person.call("retry_task", { run, task: "a" });
  world.startScheduler();
  const { run: facts, task } = await world.ended(run);
  assert.deepEqual([facts.paused, facts.landed.length, task("a").attempts.length], [false, 1, 2]);
  assert.equal(world.git("git rev-list --count main..busbar/r"), "1");
  assert.match(world.log(), /it went back/);
});

/** The task is cancelled after the branch has moved, before the bus hears of the landing. */
async function refuse(world: EngineWorld, run: string): Promise<void> {
  writeFileSync(lockOf(world), "");
  go(world);
  await until("it wants to move the branch", () => world.passed("scheduler.land.before-move-ref"));
  world.bus.child.kill("SIGSTOP");
  const cancelled = world.person.call("cancel", { run, task: "a" });
  rmSync(lockOf(world));
  await until("it tells the bus", () => world.passed("scheduler.land.before-tell-bus"));
  world.bus.child.kill("SIGCONT");
  await cancelled;
}

test("the bus does not take a landing: the branch goes back, and the run goes on", async (t) => {
  const { world, run } = await atDeepCheck(t);
  await refuse(world, run);
  await until("the branch went back", () => /the branch goes back/.test(world.log()));
  assert.equal(world.git("git rev-parse busbar/r"), world.git("git rev-parse main"));
  assert.equal((await world.state(run)).run.paused, false);
});

test("killed before the branch goes back: the next scheduler moves it back, and the run goes on", async (t) => {
  const { world, run } = await atDeepCheck(t);
  const file = world.arm("scheduler.land.before-move-back");
  await refuse(world, run);
  await until("the scheduler died", () => !existsSync(file) && !isAlive(world.scheduler.child.pid ?? 0));
  assert.equal(world.git("git rev-list --count main..busbar/r"), "1");
  await world.person.call("retry_task", { run, task: "a" });
  world.startScheduler();
  const { run: facts } = await world.ended(run);
  assert.deepEqual([facts.paused, facts.landed.length], [false, 1]);
  assert.equal(world.git("git rev-list --count main..busbar/r"), "1");
});

test("killed between capture and settlement: concluded again from what is on disk, the agent runs once", async (t) => {
  const world = await engineWorld(t);
  const file = world.arm("scheduler.settle.before-call");
  const run = await world.submit([a]);
  await until("it died", () => !existsSync(file) && !isAlive(world.scheduler.child.pid ?? 0));
  assert.equal((await world.state(run)).task("a").attempts[0]?.snapshots.length, 1);
  world.startScheduler();
  await landedOnce(world, run);
  const shots = (await world.state(run)).task("a").attempts[0]?.snapshots ?? [];
  assert.equal(new Set(shots.map(({ tree }) => tree)).size, 1, "the same content again");
});

test("a verdict that the bus cannot take, being away, is told again until it does, once", async (t) => {
  const { world, run } = await atDeepCheck(t);
  const { child } = world.scheduler;
  child.kill("SIGSTOP");
  go(world);
  const allEnded = async () =>
    (await world.state(run)).task("a").attempts[0]?.procs?.every(({ ended }) => ended);
  await until("the bus knows how the check ended", allEnded);
  await world.kill(world.bus);
  child.kill("SIGCONT");
  await until("it is told in vain", () => /does not take it; trying again/.test(world.log()), 30_000);
  await world.startBus();
  await landedOnce(world, run);
  const [attempt] = (await world.state(run)).task("a").attempts;
  assert.equal(attempt?.verdicts.filter((one) => one.check === "slow").length, 1);
  assert.equal(lines(world, "checks"), 1);
});

test("the bus dies with what it was told on disk and unanswered: told again, it stands there once", async (t) => {
  const { world, run } = await atDeepCheck(t);
  const file = world.arm("bus.journal.before-apply");
  go(world);
  await until("the bus died", () => !existsSync(file) && !isAlive(world.bus.child.pid ?? 0));
  await world.startBus();
  await landedOnce(world, run);
  const [attempt] = (await world.state(run)).task("a").attempts;
  assert.equal(attempt?.verdicts.filter((one) => one.check === "slow").length, 1);
});

test("a lock on the branch that is held for long, then given back: waited for, the agent's work is kept", async (t) => {
  const { world, run } = await atDeepCheck(t);
  writeFileSync(lockOf(world), "");
  go(world);
  await until("it wants to move the branch", () => world.passed("scheduler.land.before-move-ref"));
  const tries = () => world.git("git rev-parse busbar/r") === world.git("git rev-parse main");
  assert.ok(tries());
  rmSync(lockOf(world));
  await landedOnce(world, run);
});

test("the candidate's object vanishes while it is checked: the turn is taken again, the agent's work is kept", async (t) => {
  const { world, run } = await atDeepCheck(t);
  const candidate = world.git("git rev-parse refs/busbar/runs/r/candidate").trim();
  world.git("git update-ref -d refs/busbar/runs/r/candidate");
  world.git("git repack -adq && git prune --expire=now");
  assert.throws(() => world.git(`git cat-file -e ${candidate}`));
  go(world);
  await landedOnce(world, run);
  assert.match(world.log(), /landing met an error of ours/);
});

test("a lock on the branch that nobody gives back: the run is paused and says which; resumed, it lands", async (t) => {
  const { world, run } = await atDeepCheck(t);
  writeFileSync(lockOf(world), "");
  go(world);
  await until("the run is paused", async () => (await world.state(run)).run.paused, 120_000);
  const { run: facts, task } = await world.state(run);
  assert.match(facts.paused_why ?? "", /somebody holds .*heads\/busbar\/r\.lock/);
  assert.equal(task("a").state.name, "passed", "its work is kept");
  rmSync(lockOf(world));
  await world.person.call("resume", { run });
  await landedOnce(world, run);
});
