// Who dies, what happens (design section 8): scheduler and shim killed at work, tasks cancelled.

import assert from "node:assert/strict";
import { readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { test } from "node:test";
import { type EngineWorld, engineWorld, pidIn, shellTask } from "../helpers/engine.ts";
import { isAlive } from "../helpers/processes.ts";
import { until } from "../helpers/wait.ts";

/** The task sockets that are there. */
const sockets = (world: EngineWorld) => world.git('find "$PWD/.." -type s -path "*/t/*"');
/** Counts its starts, says its pid, waits for the file `go`, then does its work. */
const patient = `echo x >> "$W/starts"; echo $$ > "$W/agent.pid"; until [ -e "$W/go" ]; do sleep 0.05; done; echo done > out.txt`;

test("case 71 restart-mid-run: the scheduler is killed, its agent goes on, a new scheduler takes it over", async (t) => {
  const world = await engineWorld(t);
  const run = await world.submit([
    shellTask("long", patient, { allowed_files: ["out.txt"] }),
    shellTask("next", "cat out.txt > next.txt", { allowed_files: ["next.txt"], depends_on: ["long"] }),
  ]);
  const pid = await until("the agent works", () => pidIn(join(world.dir, "agent.pid")));
  world.scheduler.child.kill("SIGKILL");
  await until("the scheduler is gone", () => !isAlive(world.scheduler.child.pid ?? 0));
  assert.ok(isAlive(pid), "the agent outlives the scheduler");
  world.startScheduler();
  writeFileSync(join(world.dir, "go"), "");
  const { task } = await world.ended(run);
  assert.equal(task("next").state.name, "passed");
  assert.equal(readFileSync(join(world.dir, "starts"), "utf8"), "x\n", "started once");
  assert.equal(task("long").attempts.length, 1);
  assert.equal(world.git("git rev-list --count main..busbar/r"), "2");
});

test("case 71 restart-mid-run: the agent ended while no scheduler was there; its outbox is settled", async (t) => {
  const world = await engineWorld(t);
  const run = await world.submit([shellTask("long", patient, { allowed_files: ["out.txt"] })]);
  const pid = await until("the agent works", () => pidIn(join(world.dir, "agent.pid")));
  world.scheduler.child.kill("SIGKILL");
  writeFileSync(join(world.dir, "go"), "");
  const dir = (await world.state(run)).task("long").attempts[0]?.workspace ?? "";
  const shim = JSON.parse(readFileSync(join(dir, "shim.json"), "utf8")).pid;
  await until("agent and shim have ended", () => !isAlive(pid) && !isAlive(shim));
  world.startScheduler();
  const { task } = await world.ended(run);
  assert.equal(task("long").state.name, "passed");
  assert.equal(task("long").attempts.length, 1);
});

test("case 71 restart-mid-run: the shim is killed: its process is ended, the attempt is lost, innocent, and tried again", async (t) => {
  const world = await engineWorld(t);
  const run = await world.submit([shellTask("long", patient, { allowed_files: ["out.txt"], retries: 0 })]);
  const pid = await until("the agent works", () => pidIn(join(world.dir, "agent.pid")));
  const dir = (await world.state(run)).task("long").attempts[0]?.workspace ?? "";
  process.kill(JSON.parse(readFileSync(join(dir, "shim.json"), "utf8")).pid, "SIGKILL");
  await until("what the shim left is ended", () => !isAlive(pid));
  writeFileSync(join(world.dir, "go"), "");
  const { task } = await world.ended(run);
  assert.deepEqual(
    task("long").attempts.map((a) => a.result),
    ["lost", "passed"],
  );
  await until("its socket is gone", () => sockets(world) === "");
});

test("case 62 stale-socket: what a dead shim listened at is taken away by the next scheduler, too", async (t) => {
  const world = await engineWorld(t);
  const run = await world.submit([shellTask("long", patient, { allowed_files: ["out.txt"] })]);
  await until("the agent works", () => pidIn(join(world.dir, "agent.pid")));
  const dir = (await world.state(run)).task("long").attempts[0]?.workspace ?? "";
  world.scheduler.child.kill("SIGKILL");
  process.kill(JSON.parse(readFileSync(join(dir, "shim.json"), "utf8")).pid, "SIGKILL");
  await world.person.call("cancel", { run, task: "long" });
  assert.notEqual(sockets(world), "", "nobody took it away");
  world.startScheduler();
  await until("its socket is gone", () => sockets(world) === "");
});

test("L1, case 14 cleanup-eats-work: a cancelled task's processes end, what it had written is kept", async (t) => {
  const world = await engineWorld(t);
  const command = `echo half > half.txt; (setsid sleep 300 & echo $! > "$W/child.pid"); echo $$ > "$W/agent.pid"; sleep 300`;
  const run = await world.submit([shellTask("stuck", command, { allowed_files: ["half.txt"] })]);
  const pid = await until("the agent works", () => pidIn(join(world.dir, "agent.pid")));
  await world.person.call("cancel", { run, task: "stuck" });
  await until(
    "the agent's tree is gone",
    () => !isAlive(pid) && !isAlive(pidIn(join(world.dir, "child.pid"))),
    20_000,
  );
  const refs = () => world.git("git for-each-ref --format='%(refname)' refs/busbar/attempts");
  await until("the work is kept under a ref", refs);
  assert.equal(world.git(`git show ${refs().split("\n")[0]}:half.txt`), "half");
  assert.equal((await world.state(run)).task("stuck").state.name, "cancelled");
});

test("B2: an agent's publish is answered when its snapshot is there, and shows what it had written", async (t) => {
  const world = await engineWorld(t);
  const command = `echo one > out.txt; busbar-call publish > "$W/answer"; busbar-call get_file '{"path":"out.txt","fresh":true}' > "$W/file"; echo two > out.txt`;
  const run = await world.submit([shellTask("talks", command, { allowed_files: ["out.txt"] })]);
  const { task } = await world.ended(run);
  assert.equal(task("talks").state.name, "passed");
  assert.deepEqual(
    task("talks").attempts[0]?.snapshots.map((s) => s.version),
    [1, 2],
  );
  assert.equal(JSON.parse(readFileSync(join(world.dir, "answer"), "utf8")).version, 1);
  assert.equal(JSON.parse(readFileSync(join(world.dir, "file"), "utf8")).content, "one\n");
  assert.equal(world.git("git show busbar/r:out.txt"), "two");
});
