// How processes end, by a time-out, a cancel, a signal to the shim, or by themselves; and that nobody is left.

import assert from "node:assert/strict";
import { existsSync, readFileSync } from "node:fs";
import { join } from "node:path";
import test from "node:test";
import { AGENTS, shimWorld, type World } from "../helpers/shim-run.ts";
import { carriers, isRunning } from "../helpers/survivors.ts";
import { until } from "../helpers/wait.ts";

const agent = (name: string) => ["/bin/sh", join(AGENTS, name)];

test("case 34 grandchild-holds-stdout: the end is the exit, the last line is kept, what was left is ended and listed", async (t) => {
  const world = await shimWorld(t);
  const began = performance.now();
  const run = world.start(world.job(agent("holds-stdout.sh")));
  const outcome = await run.end();
  assert.ok(performance.now() - began < 100_000, `took ${performance.now() - began} ms`); // not the 300 s of the child
  assert.equal(run.log(), "last line without newline");
  assert.deepEqual([outcome.reason, outcome.exit], ["exit", 0]);
  assert.deepEqual(
    outcome.leftovers.map((p) => p.command),
    ["sleep 300"],
  );
  assert.deepEqual(outcome.survivors, []);
  assert.deepEqual(carriers(world.entry), []);
});

/** Starts the agent of case 35 and waits until all of it is there; returns its pids. */
async function stubborn(world: World, over: { timeout_ms?: number } = {}) {
  const run = world.start(world.job(agent("ignores-term.sh"), { grace_ms: 300, ...over }));
  const pids = await until("the whole tree", () => {
    const found = existsSync(join(world.dir, "pids")) ? lines(join(world.dir, "pids")) : [];
    return found.length === 4 && existsSync(join(world.dir, "heartbeat")) ? found.map(Number) : undefined;
  });
  return { run, pids };
}
const lines = (file: string) => readFileSync(file, "utf8").trim().split("\n");

function assertAllDead(world: World, pids: number[]) {
  assert.deepEqual(pids.filter(isRunning), []);
  assert.deepEqual(carriers(world.entry), []);
}

test("case 35 ignores-term-and-setsid: a time-out ends the whole tree, with the sequence in the outcome", async (t) => {
  const world = await shimWorld(t);
  const { run, pids } = await stubborn(world, { timeout_ms: 2_500 });
  const outcome = await run.end();
  assertAllDead(world, pids);
  assert.deepEqual([outcome.reason, outcome.killed_with], ["timeout", ["TERM", "KILL"]]);
  assert.equal(outcome.signal, "SIGKILL");
  assert.match(outcome.detail ?? "", /2500 ms/);
  assert.deepEqual(outcome.survivors, []);
  assert.ok(outcome.duration_ms >= 2_800 && outcome.duration_ms < 60_000, `${outcome.duration_ms} ms`);
});

test("case 35 ignores-term-and-setsid: a cancel from the bus gives the same guarantee", async (t) => {
  const world = await shimWorld(t);
  const { run, pids } = await stubborn(world);
  world.bus.push("shim", "cancel", { reason: "somebody asked" });
  const outcome = await run.end();
  assertAllDead(world, pids);
  assert.deepEqual([outcome.reason, outcome.detail], ["cancelled", "somebody asked"]);
});

test("case 35 ignores-term-and-setsid: TERM to the shim is a cancel", async (t) => {
  const world = await shimWorld(t);
  const { run, pids } = await stubborn(world);
  run.child.kill("SIGTERM");
  const outcome = await run.end();
  assertAllDead(world, pids);
  assert.equal(outcome.reason, "cancelled");
});

test("a polite process gets the time to end by itself; the first reason stays", async (t) => {
  const world = await shimWorld(t);
  const run = world.start(world.job(agent("polite.sh"), { grace_ms: 120_000 }));
  await until("the agent", () => run.exists("agent.log") && run.log() === "ready\n");
  world.bus.push("shim", "cancel", { reason: "one" });
  world.bus.push("shim", "cancel", { reason: "two" });
  const outcome = await run.end();
  assert.match(run.log(), /^ready\n(?:.*\n)?got TERM\n$/s);
  const { reason, detail, exit, killed_with } = outcome;
  assert.deepEqual(
    { reason, detail, exit, killed_with },
    { reason: "cancelled", detail: "one", exit: 5, killed_with: ["TERM"] },
  );
  assert.ok(outcome.duration_ms < 100_000, "the grace was not waited out");
});

test("L1: Ctrl-C and a closed terminal end neither the shim nor the agent", async (t) => {
  const world = await shimWorld(t);
  const run = world.start(world.job(agent("polite.sh")));
  await until("the agent", () => run.exists("agent.log") && run.log() === "ready\n");
  run.child.kill("SIGINT");
  run.child.kill("SIGHUP");
  const beats = world.bus.of("heartbeat").length;
  await until("more heartbeats", () => world.bus.of("heartbeat").length > beats + 1);
  assert.equal(run.exists("status.done"), false);
  const stat = readFileSync(`/proc/${run.child.pid}/stat`, "latin1").split(") ")[1]?.split(" ");
  const self = JSON.parse(readFileSync(join(run.job.dir, "shim.json"), "utf8"));
  const child = readFileSync(`/proc/${self.child.pid}/stat`, "latin1").split(") ")[1]?.split(" ");
  assert.notEqual(child?.[3], stat?.[3], "the process has a session of its own");
  run.child.kill("SIGTERM");
  assert.equal((await run.end()).reason, "cancelled");
});

test("S5: an agent that stops itself is ended by the time-out", async (t) => {
  const world = await shimWorld(t);
  const run = world.start(
    world.job(["/bin/sh", "-c", "trap 'echo woken; exit 4' TERM; kill -STOP $$; sleep 100"], {
      timeout_ms: 400,
    }),
  );
  const outcome = await run.end();
  assert.deepEqual([outcome.reason, outcome.exit], ["timeout", 4]);
  assert.equal(run.log(), "woken\n");
});

test("fifty children, half of them in sessions of their own, are dead soon after the grace", async (t) => {
  const world = await shimWorld(t);
  const run = world.start(world.job(agent("forks.sh"), { grace_ms: 100 }));
  await until("the agent", () => run.exists("agent.log") && run.log() === "ready\n");
  await until("all children", () => carriers(world.entry).length === 51);
  const began = performance.now();
  run.child.kill("SIGTERM");
  const outcome = await run.end();
  assert.deepEqual(carriers(world.entry), []);
  assert.deepEqual(outcome.survivors, []);
  assert.ok(performance.now() - began < 60_000, `${performance.now() - began} ms`);
});

test("W10: a leftover that ignores TERM does not keep status.done back for a second", async (t) => {
  const world = await shimWorld(t);
  const line = `sh -c 'trap "" TERM; echo $$ > "$W/left"; sleep 300; sleep 300' & while ! [ -s "$W/left" ]; do sleep 0.01; done`;
  const run = world.start(world.job(["/bin/sh", "-c", line], { grace_ms: 10_000 }));
  await until("status.done", () => run.exists("status.done"));
  const seen = Date.now();
  const outcome = await run.end();
  assert.ok(seen - Date.parse(outcome.ended) < 1_000, `${seen - Date.parse(outcome.ended)} ms after the end`);
  assert.deepEqual(outcome.killed_with, ["TERM", "KILL"]);
  assert.ok(outcome.leftovers.length >= 1);
});

test("a daemon without the mark in its environment is found by its descent", async (t) => {
  const world = await shimWorld(t);
  const line = `setsid env -i sh -c 'echo $$ > ${world.dir}/bare; sleep 300; :' & sleep 1.3`;
  const outcome = await world.start(world.job(["/bin/sh", "-c", line])).end();
  assert.equal(isRunning(Number(readFileSync(join(world.dir, "bare"), "utf8"))), false);
  assert.ok(outcome.leftovers.some((p) => p.command.includes("sleep 300")));
  assert.equal(outcome.certain, false);
});

test("the shim itself is killed: shim.json says by which mark its process can be found", async (t) => {
  const world = await shimWorld(t);
  const run = world.start(world.job(agent("polite.sh")));
  await until("the agent", () => run.exists("agent.log") && run.log() === "ready\n");
  run.child.kill("SIGKILL");
  await run.exited;
  const self = JSON.parse(readFileSync(join(run.job.dir, "shim.json"), "utf8"));
  const found = carriers(self.mark).map((p) => p.pid);
  assert.ok(found.includes(self.child.pid), `${self.child.pid} among ${found}`);
  assert.match(self.child.start_time, /^[0-9a-f-]{36}:\d+:\d+$/);
  assert.equal(run.exists("outbox.json"), false);
  for (const pid of found) process.kill(pid, "SIGKILL");
});
