// The bus goes and comes back at every moment of a shim's life; the outcome is delivered once it is back (B6).

import assert from "node:assert/strict";
import { existsSync, statSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import test from "node:test";
import { shimWorld } from "../helpers/shim-run.ts";
import { until } from "../helpers/wait.ts";

/** A process that ends when the file `go` is there. */
const WAITS = ["/bin/sh", "-c", 'touch "$W/running"; while ! [ -e "$W/go" ]; do sleep 0.02; done; echo done'];
const go = (dir: string) => writeFileSync(join(dir, "go"), "");

test("away at the start: nothing is started until it has registered", async (t) => {
  const world = await shimWorld(t);
  await world.bus.down();
  go(world.dir);
  const run = world.start(world.job(WAITS));
  await until("the pid file", () => run.exists("shim.json"));
  assert.equal(existsSync(join(world.dir, "running")), false);
  await world.bus.up();
  assert.equal((await run.end()).exit, 0);
  const asked = world.bus.of("register")[0]?.at ?? Number.POSITIVE_INFINITY;
  const started = statSync(join(world.dir, "running")).mtimeMs + 10; // file times are a few ms behind
  assert.ok(started >= asked, `started at ${started}, registered at ${asked}`);
  assert.equal(run.log(), "done\n");
});

test("away in the middle: the process goes on, heartbeats come again after a new register", async (t) => {
  const world = await shimWorld(t);
  const run = world.start(world.job(WAITS));
  await until("a heartbeat", () => world.bus.of("heartbeat").length > 0);
  await world.bus.down();
  await world.bus.up();
  await until("a second register", () => world.bus.of("register").length === 2);
  const beats = world.bus.of("heartbeat").length;
  await until("heartbeats again", () => world.bus.of("heartbeat").length > beats);
  go(world.dir);
  const outcome = await run.end();
  assert.deepEqual([outcome.reason, outcome.exit], ["exit", 0]);
});

test("away at the end: outbox and status.done are there, the outcome comes when the bus is back", async (t) => {
  const world = await shimWorld(t);
  const run = world.start(world.job(WAITS));
  await until("the process", () => existsSync(join(world.dir, "running")));
  await world.bus.down();
  go(world.dir);
  await until("status.done", () => run.exists("status.done"));
  const kept = run.outbox();
  assert.equal(kept.reason, "exit");
  assert.equal(run.exists("outbox.json.ack"), false);
  await world.bus.up();
  assert.deepEqual(await run.end(), kept);
  assert.ok(run.exists("outbox.json.ack"));
});

test("complete is repeated until it is taken: refused, then lost on the way, then answered", async (t) => {
  const world = await shimWorld(t);
  world.bus.refusals.set("complete", { code: "STORAGE", times: 2 });
  world.bus.lostAnswers.set("complete", 1);
  const run = world.start(world.job(["/bin/true"]));
  await run.end();
  const told = world.bus.of("complete").map((c) => c.params.outcome);
  assert.equal(told.length, 4);
  for (const outcome of told) assert.deepEqual(outcome, run.outbox());
  assert.equal(await run.exited, 0);
});

test("FENCED at complete counts as taken", async (t) => {
  const world = await shimWorld(t);
  world.bus.refusals.set("complete", { code: "FENCED", times: 1 });
  const run = world.start(world.job(["/bin/true"]));
  assert.equal(await run.exited, 0);
  assert.equal(world.bus.of("complete").length, 1);
  assert.ok(run.exists("outbox.json.ack"));
});

test("FENCED at register: nothing is started and nothing is reported", async (t) => {
  const world = await shimWorld(t);
  world.bus.refusals.set("register", { code: "FENCED", times: 1 });
  const run = world.start(world.job(["/bin/sh", "-c", 'touch "$W/running"']));
  assert.equal(await run.exited, 3);
  assert.equal(existsSync(join(world.dir, "running")), false);
  assert.equal(run.exists("outbox.json"), false);
  assert.equal(world.bus.of("complete").length, 0);
});

test("FENCED at a heartbeat: the attempt is over, the process is ended", async (t) => {
  const world = await shimWorld(t);
  const run = world.start(world.job(WAITS));
  await until("a heartbeat", () => world.bus.of("heartbeat").length > 0);
  world.bus.refusals.set("heartbeat", { code: "FENCED", times: 1 });
  assert.equal(await run.exited, 0);
  assert.equal(run.outbox().reason, "lost");
});

test("a token that the bus does not take: not started, said at once", async (t) => {
  const world = await shimWorld(t);
  world.bus.refusals.set("hello", { code: "BAD_TOKEN", times: 1 });
  const outcome = await world.start(world.job(["/bin/true"])).end();
  assert.equal(outcome.reason, "spawn_failed");
  assert.match(outcome.detail ?? "", /refused by the test/);
});

test("TERM to a shim that waits for the bus: cancelled, never started", async (t) => {
  const world = await shimWorld(t);
  await world.bus.down();
  const run = world.start(world.job(["/bin/sh", "-c", 'touch "$W/running"']));
  await until("the pid file", () => run.exists("shim.json"));
  run.child.kill("SIGTERM");
  await until("status.done", () => run.exists("status.done"));
  assert.equal(run.outbox().reason, "cancelled");
  await world.bus.up();
  assert.equal((await run.end()).reason, "cancelled");
  assert.equal(existsSync(join(world.dir, "running")), false);
});

test("a slow bus: answers that come late change nothing", async (t) => {
  const world = await shimWorld(t);
  world.bus.answerAfterMs = 200;
  const run = world.start(world.job(["/bin/true"]));
  assert.equal((await run.end()).exit, 0);
  assert.equal(world.bus.of("complete").length, 1);
});
