// The moments round a landing: killed between branch and bus, moved by somebody else, refused by the bus.

import assert from "node:assert/strict";
import { readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { type TestContext, test } from "node:test";
import { setImmediate } from "node:timers/promises";
import { engineWorld, shellTask } from "../helpers/engine.ts";
import { isAlive } from "../helpers/processes.ts";
import { until } from "../helpers/wait.ts";

/** Passes at once; its check on the candidate waits for the file `go`. */
const held = (id: string) =>
  shellTask(id, `echo ${id} > ${id}.txt`, { allowed_files: [`${id}.txt`], acceptance: [{ run: "true" }] });
const deep = (run: string) => ({
  setup: [],
  shallow: [],
  middle: [],
  deep: [{ name: "slow", run, inputs: [], timeout_s: 60, limits: {} }],
});
const waitForGo = 'touch "$W/deep"; until [ -e "$W/go" ]; do sleep 0.05; done';

test("case 71 restart-mid-run: killed after the branch moved and before the bus was told: the landing is reported, not done twice", async (t) => {
  const world = await engineWorld(t);
  const run = await world.submit([held("a")], { gate: deep(waitForGo) });
  await until("the deep check runs", () => world.git('ls "$PWD/.." | grep -x deep || true'));
  world.scheduler.child.kill("SIGKILL");
  await until("the scheduler is gone", () => !isAlive(world.scheduler.child.pid ?? 0));
  // What the killed one would have done last: the verdict, and the candidate on the branch; the bus does not know it.
  const candidate = world.git("git rev-parse refs/busbar/runs/r/candidate");
  world.git(`git update-ref refs/heads/busbar/r ${candidate} $(git rev-parse busbar/r)`);
  const scheduler = await world.asScheduler();
  const verdict = {
    check: "slow",
    tier: "deep",
    tree: world.git(`git rev-parse ${candidate}^{tree}`),
    verdict: "pass",
  } as const;
  const rest = { exit: 0, duration_ms: 1, command: waitForGo };
  await scheduler.call("record_verdict", { run, task: "a", attempt: 1, verdict: { ...verdict, ...rest } });
  scheduler.close();
  writeFileSync(join(world.dir, "go"), "");
  world.startScheduler();
  const { run: facts, task } = await world.ended(run);
  assert.ok(task("a").state.name === "passed");
  assert.equal(facts.head, candidate);
  assert.equal(world.git("git rev-list --count main..busbar/r"), "1");
  assert.equal(task("a").attempts.length, 1);
});

test("G6: an unproven candidate on the branch, whoever put it there, is proven before it is taken for a landing; red, the run is held", async (t) => {
  const world = await engineWorld(t);
  const run = await world.submit([held("a")], { gate: deep(`${waitForGo}; false`) });
  await until("the deep check runs", () => world.git('ls "$PWD/.." | grep -x deep || true'));
  world.scheduler.child.kill("SIGKILL");
  await until("the scheduler is gone", () => !isAlive(world.scheduler.child.pid ?? 0));
  world.git("git update-ref refs/heads/busbar/r refs/busbar/runs/r/candidate");
  writeFileSync(join(world.dir, "go"), "");
  world.startScheduler();
  await until("the run is paused", async () => (await world.state(run)).run.paused);
  const { run: facts, task } = await world.state(run);
  assert.match(facts.paused_why ?? "", /LANDED_RED: .*check slow is red/);
  assert.equal(facts.landed.length, 0);
  assert.equal(task("a").state.name, "passed", "its work is kept");
});

test("case 71 restart-mid-run: killed while a candidate is checked: the check is ended and run again", async (t) => {
  const world = await engineWorld(t);
  const run = await world.submit([held("a")], { gate: deep(waitForGo) });
  await until("the deep check runs", () => world.git('ls "$PWD/.." | grep -x deep || true'));
  world.scheduler.child.kill("SIGKILL");
  world.startScheduler();
  writeFileSync(join(world.dir, "go"), "");
  const { task } = await world.ended(run);
  assert.equal(task("a").state.name, "passed");
  assert.equal(world.git("git rev-list --count main..busbar/r"), "1");
});

test("G6: a branch that somebody else moved pauses the run; nothing is landed on top, nothing is undone", async (t) => {
  const world = await engineWorld(t);
  const run = await world.submit([held("a")], { gate: deep(waitForGo) });
  await until("the deep check runs", () => world.git('ls "$PWD/.." | grep -x deep || true'));
  const foreign = world.git('git commit-tree -p busbar/r -m "by hand" "busbar/r^{tree}"');
  world.git(`git update-ref refs/heads/busbar/r ${foreign}`);
  writeFileSync(join(world.dir, "go"), "");
  await until("the run is paused", async () => (await world.state(run)).run.paused);
  assert.equal(world.git("git rev-parse busbar/r"), foreign);
  assert.match(world.log(), /is not one of this run/);
  const { state } = (await world.state(run)).task("a");
  assert.ok(state.name === "passed" && state.merged === null);
  assert.match((await world.state(run)).run.paused_why ?? "", /is not one of this run; look at busbar\/r/);
  // Resumed without mending it: paused again, not hung.
  const pauses = async () =>
    (await world.person.call("query_audit", { run, method: "pause" })).records.filter(
      ({ event }) => event?.type === "run.paused",
    ).length;
  assert.equal(await pauses(), 1);
  await world.person.call("resume", { run });
  await until("it is paused again", async () => (await pauses()) === 2);
  assert.match((await world.state(run)).run.paused_why ?? "", /is not one of this run/);
  // Mended, then resumed: it lands.
  world.git(`git update-ref refs/heads/busbar/r ${foreign}^ ${foreign}`);
  await world.person.call("resume", { run });
  const { run: facts } = await world.ended(run);
  assert.equal(facts.landed.length, 1);
  assert.equal(facts.paused_why, undefined);
});

test("G6: a branch that is gone is made again at the head that the bus has; nothing is lost", async (t) => {
  const world = await engineWorld(t);
  const run = await world.submit([held("a"), held("b")], {
    gate: deep(`case "$BUSBAR_TASK_ID" in b) ${waitForGo};; esac`),
    workers: 1,
  });
  await until("the deep check of b runs", () => world.git('ls "$PWD/.." | grep -x deep || true'));
  const head = world.git("git rev-parse busbar/r");
  world.git("git update-ref -d refs/heads/busbar/r");
  writeFileSync(join(world.dir, "go"), "");
  const { run: facts } = await world.ended(run);
  assert.deepEqual(
    facts.landed.map(({ task }) => task),
    ["a", "b"],
  );
  assert.equal(world.git("git rev-parse busbar/r^"), head);
  assert.match(world.log(), /was gone; made again/);
});

test("a task cancelled while its candidate is checked does not land", async (t) => {
  const world = await engineWorld(t);
  const run = await world.submit([held("a"), held("b")], {
    gate: deep(`case "$BUSBAR_TASK_ID" in a) ${waitForGo};; esac`),
  });
  await until("the deep check runs", () => world.git('ls "$PWD/.." | grep -x deep || true'));
  await world.person.call("cancel", { run, task: "a" });
  const { task, run: facts } = await world.ended(run);
  assert.equal(task("a").state.name, "cancelled");
  assert.deepEqual(
    facts.landed.map((landing) => landing.task),
    ["b"],
  );
  assert.equal(world.git("git ls-tree --name-only busbar/r"), "b.txt\nf.txt");
});

/** What stands on the branch while no scheduler lives; then the next one looks. */
async function foundBy(t: TestContext, script: string) {
  const world = await engineWorld(t);
  const run = await world.submit([held("a"), held("b")], {
    gate: deep(`case "$BUSBAR_TASK_ID" in b) ${waitForGo};; esac`),
    workers: 1,
  });
  await until("the deep check of b runs", () => world.git('ls "$PWD/.." | grep -x deep || true'));
  await world.kill(world.scheduler);
  world.git(script);
  writeFileSync(join(world.dir, "go"), "");
  world.startScheduler();
  return { world, run };
}

test("G6: the branch moved back by a person while no scheduler was there: the run is paused with the reason, nothing is undone", async (t) => {
  const { world, run } = await foundBy(t, "git update-ref refs/heads/busbar/r busbar/r^");
  await until("the run is paused", async () => (await world.state(run)).run.paused);
  assert.match((await world.state(run)).run.paused_why ?? "", /does not follow from/);
  assert.equal(world.git("git rev-parse busbar/r"), world.git("git rev-parse main"));
  // Put back and resumed, it goes on from there.
  world.git(`git update-ref refs/heads/busbar/r ${(await world.state(run)).run.head}`);
  await world.person.call("resume", { run });
  const { run: facts } = await world.ended(run);
  assert.deepEqual(
    facts.landed.map(({ task }) => task),
    ["a", "b"],
  );
});

test("G6: the branch deleted while no scheduler was there: made again where the bus has it", async (t) => {
  const { world, run } = await foundBy(t, "git update-ref -d refs/heads/busbar/r");
  const { run: facts } = await world.ended(run);
  assert.deepEqual(
    facts.landed.map(({ task }) => task),
    ["a", "b"],
  );
});

test("G6: the branch names an object that is not there: this run is paused, other runs are taken over", async (t) => {
  const missing = "1".repeat(40);
  const world = await engineWorld(t);
  const run = await world.submit([held("a")], { gate: deep(waitForGo) });
  await until("the deep check runs", () => world.git('ls "$PWD/.." | grep -x deep || true'));
  const other = await world.submit(
    [shellTask("c", `touch "$W/c"; until [ -e "$W/go" ]; do sleep 0.05; done; echo c > c.txt`)],
    {
      run: "s",
    },
  );
  await until("the agent of the other run", () => world.git('ls "$PWD/.." | grep -x c || true'));
  await world.kill(world.scheduler);
  writeFileSync(join(world.repo, ".git/refs/heads/busbar/r"), `${missing}\n`);
  writeFileSync(join(world.dir, "go"), "");
  world.startScheduler();
  await until("the run is paused", async () => (await world.state(run)).run.paused);
  assert.match((await world.state(run)).run.paused_why ?? "", /busbar\/r/);
  const { task } = await world.ended(other);
  assert.deepEqual(
    task("c").attempts.map((attempt) => attempt.result),
    ["passed"],
  );
});

test("case 71 restart-mid-run: bus and scheduler killed as soon as the branch has moved: one landing, one commit", async (t) => {
  const world = await engineWorld(t);
  const run = await world.submit([held("a")], { gate: deep(waitForGo) });
  await until("the deep check runs", () => world.git('ls "$PWD/.." | grep -x deep || true'));
  const branch = () => readFileSync(join(world.repo, ".git/refs/heads/busbar/r"), "utf8");
  const before = branch();
  writeFileSync(join(world.dir, "go"), "");
  const end = performance.now() + 30_000;
  while (branch() === before) {
    assert.ok(performance.now() < end, "the branch did not move");
    await setImmediate();
  }
  for (const { child } of [world.scheduler, world.bus]) child.kill("SIGKILL");
  await world.kill(world.scheduler);
  await world.kill(world.bus);
  await world.startBus();
  world.startScheduler();
  const { run: facts, task } = await world.ended(run);
  assert.equal(facts.landed.length, 1);
  assert.equal(task("a").attempts.length, 1);
  assert.equal(world.git("git rev-list --count main..busbar/r"), "1");
});
