// Case 70 disk-full by name: the real programs on a small file system that fills up.

import assert from "node:assert/strict";
import { existsSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { type TestContext, test } from "node:test";
import { isOver } from "../helpers/engine.ts";
import { assertInvariants } from "../helpers/invariants.ts";
import { isAlive, processesOf } from "../helpers/processes.ts";
import { dropDisk, readOnly, smallDisk } from "../helpers/small-disk.ts";
import { until } from "../helpers/wait.ts";
import { endWorld, fillWorld, makeWorld, newWorld, type PlanTask, type World } from "../helpers/world.ts";

/** A world of which `place` lies on a small disk; undefined where none can be made. */
function smallWorld(t: TestContext, size: string, place = "state"): World | undefined {
  const world = newWorld();
  const dir = join(world.W, place);
  let there = false;
  t.after(async () => {
    if (there) rmSync(join(dir, "ballast"), { force: true });
    await endWorld(world, true).finally(() => {
      if (there) dropDisk(dir);
      rmSync(world.W, { recursive: true, force: true, maxRetries: 5 });
    });
  });
  fillWorld(world);
  if (existsSync(dir)) world.sh(`cp -a "${dir}" before`);
  there = smallDisk(t, dir, size);
  if (there && existsSync(join(world.W, "before"))) world.sh(`cp -a before/. "${dir}" && rm -rf before`);
  return there ? world : undefined;
}

/** An agent that tells that it is at work, and works on until W/go is there. */
const waiting = (world: World) =>
  world.agent("waiting", 'echo "$1" > "$1.txt"; : > "$W/began-$1"; until [ -e "$W/go" ]; do sleep 0.1; done');

const begun = (world: World, ids: readonly string[]) =>
  until("the agents are at work", () => ids.every((id) => existsSync(join(world.W, `began-${id}`))), 60_000);

const ofOneTry = async (world: World, ids: readonly string[]) => {
  const { run, tasks } = await world.state("r");
  for (const id of ids)
    assert.deepEqual(
      tasks.get(id)?.attempts.map(({ result }) => result),
      ["passed"],
      id,
    );
  assert.deepEqual(run.landed.map(({ task }) => task).sort(), [...ids].sort());
};

const through = async (world: World, run: string) =>
  until("every task is over", async () => [...(await world.state(run)).tasks.values()].every(isOver), 90_000);

test("case 70 disk-full: an attempt that fills the disk of the state fails with that reason, makes room, and the rest merges", async (t) => {
  const world = smallWorld(t, "64m");
  if (!world) return;
  const fill = world.agent("fill", "echo work > b.txt; head -c 200000000 /dev/zero > fill.bin");
  const plan = world.plan([
    { id: "fill", command: fill, allowed_files: ["b.txt"] },
    { id: "a", command: "echo ok > a.txt", allowed_files: ["a.txt"] },
  ]);
  assert.equal((await world.busctl(["run", plan, "--detach"])).code, 0);
  const { pid } = world.endpoint();
  await through(world, "r");
  const { run, tasks } = await world.state("r");
  assert.deepEqual(
    run.landed.map(({ task }) => task),
    ["a"],
  );
  const filled = tasks.get("fill");
  assert.equal(filled?.attempts.length, 1, "it is not tried again: it did it itself");
  assert.equal(filled.attempts[0]?.result, "agent_error");
  assert.match(
    filled.attempts[0]?.evidence?.summary ?? "",
    /filled the disk \(ENOSPC\).*fill\.bin \(\d+ MiB\)/,
  );
  assert.equal(
    world.git("show", `refs/busbar/attempts/r/fill/1/v1:b.txt`).split("\n")[0],
    "work",
    "its work is kept",
  );
  assert.equal(world.endpoint().pid, pid, "the same bus");
  assert.ok(isAlive(pid));
  await assertInvariants(world, "r");
});

test("case 70 disk-full: somebody else fills the disk under running agents: their work waits for room and lands at the first try", async (t) => {
  const world = smallWorld(t, "64m");
  if (!world) return;
  const ids = ["a", "b", "c"];
  const agent = waiting(world);
  const plan = world.plan(
    ids.map((id) => ({ id, command: `${agent} ${id}`, allowed_files: [`${id}.txt`] })),
    { workers: 3 },
  );
  assert.equal((await world.busctl(["run", plan, "--detach"])).code, 0);
  await begun(world, ids);
  world.sh("cat /dev/zero > state/ballast 2> /dev/null || true; : > go");
  await until(
    "no agent is at work, and it is said that nothing can be written",
    async () => {
      const working = processesOf(world.W).some(({ command }) => command.includes("waiting.sh"));
      return !working && /state cannot be written: ENOSPC/.test((await world.busctl(["tasks"])).out);
    },
    60_000,
  );
  const { pid } = world.endpoint();
  rmSync(join(world.W, "state", "ballast"));
  await through(world, "r");
  await ofOneTry(world, ids);
  assert.equal(world.endpoint().pid, pid, "the same bus");
  await assertInvariants(world, "r");
});

/** Why task a is held, as `busctl tasks --json` has it. */
async function heldOf(world: World): Promise<string | undefined> {
  const { out } = await world.busctl(["tasks", "--task", "a", "--json"]);
  return (JSON.parse(out) as { held: { why: string } | null }).held?.why;
}

/** It is held, which log, bus and all screens say. */
async function saidHeld(world: World, why: RegExp): Promise<void> {
  await until("the bus knows that it is held", async () => (await heldOf(world)) !== undefined);
  assert.match((await heldOf(world)) ?? "", why);
  const screen = async (...words: string[]) => (await world.busctl(words)).out.replace(/\s+/g, " ");
  assert.match(await screen("tasks"), /waits since .* until its work can/);
  assert.match(await screen("tasks", "--task", "a"), /until its work can be written down: .* by itself/);
}

/** The object store is read-only from the moment when task a waits for W/go; it lands when it can be written again. */
async function objectsClosed(t: TestContext, task: (world: World) => Partial<PlanTask>): Promise<void> {
  const world = makeWorld(t);
  const objects = join(world.repo, ".git", "objects");
  const plan = world.plan([{ id: "a", allowed_files: ["a.txt"], ...task(world) }]);
  assert.equal((await world.busctl(["run", plan, "--detach"])).code, 0);
  await begun(world, ["a"]);
  if (!readOnly(t, objects)) return writeFileSync(join(world.W, "go"), "");
  const log = () => world.sh("cat state/*/logs/scheduler.log");
  try {
    writeFileSync(join(world.W, "go"), "");
    await until("it is said", () => log().includes("waits until its work can be written down"), 60_000);
    assert.match(log(), /objects cannot be written \(EROFS\): make it writable/);
    await saidHeld(world, /objects cannot be written \(EROFS\): make it writable/);
    assert.equal((await world.state("r")).tasks.get("a")?.attempts.length, 1);
    assert.deepEqual((await world.state("r")).run.landed, []);
  } finally {
    dropDisk(objects);
  }
  await through(world, "r");
  await ofOneTry(world, ["a"]);
  assert.equal(await heldOf(world), undefined);
  assert.equal(log().split("waits until its work can be written down").length, 2, "said once");
  await assertInvariants(world, "r");
}

test("case 70: objects cannot be written when an agent ends: its work waits, it is said where, and it lands at the first try", (t) =>
  objectsClosed(t, (world) => ({ command: `${waiting(world)} a` })));

test("case 70: objects cannot be written when proven work lands: the turn waits and is taken again", (t) =>
  objectsClosed(t, (world) => ({
    command: "echo a > a.txt",
    acceptance: [`${waiting(world)} a`],
  })));

test("case 70 disk-full: the disk of the repository fills up: the work is held, people see why, nothing is left there, and it lands", async (t) => {
  const world = smallWorld(t, "16m", "repo/.git/objects");
  if (!world) return;
  const objects = join(world.repo, ".git", "objects");
  const agent = world.agent(
    "big",
    'head -c 6000000 /dev/urandom > a.bin; : > "$W/began-a"; until [ -e "$W/go" ]; do sleep 0.1; done',
  );
  const plan = world.plan([{ id: "a", command: agent, allowed_files: ["a.bin"] }]);
  assert.equal((await world.busctl(["run", plan, "--detach"])).code, 0);
  await begun(world, ["a"]);
  const there = () => world.sh(`find "${objects}" -type f ! -name ballast | sort`);
  const before = there();
  world.sh(`cat /dev/zero > "${objects}/ballast" 2> /dev/null || true; : > go`);
  await saidHeld(world, /the disk of .*objects is full: make room there/);
  assert.equal(there(), before, "what could not be written whole is not there");
  const { pid } = world.endpoint();
  rmSync(join(objects, "ballast"));
  await through(world, "r");
  await ofOneTry(world, ["a"]);
  assert.equal(await heldOf(world), undefined);
  assert.equal(world.endpoint().pid, pid, "the same bus");
  await assertInvariants(world, "r");
});

test("case 70: a claim that cannot be noted is given back at once, not when its lease ends", async (t) => {
  const world = makeWorld(t);
  assert.equal((await world.busctl(["up"])).code, 0);
  const claims = join(world.endpoint().state_dir, "scheduler", "claims");
  rmSync(claims, { recursive: true, force: true });
  writeFileSync(claims, "");
  const plan = world.plan([{ id: "a", command: "echo a > a.txt", allowed_files: ["a.txt"], retries: 3 }]);
  assert.equal((await world.busctl(["run", plan, "--detach"])).code, 0);
  const first = async () => (await world.state("r")).tasks.get("a")?.attempts[0];
  await until("it is given back", async () => (await first())?.result !== undefined, 50_000);
  const { result, evidence } = (await first()) ?? {};
  assert.equal(result, "infra");
  assert.match(evidence?.summary ?? "", /noting the claim: .*claims/);
  rmSync(claims);
  await through(world, "r");
  assert.equal((await world.state("r")).tasks.get("a")?.state.name, "passed");
});

test("case 70 disk-full: the bus dies on a full disk: `up` says that the state cannot be written; with room it comes up", async (t) => {
  const world = smallWorld(t, "64m");
  if (!world) return;
  const plan = world.plan([{ id: "a", command: `${waiting(world)} a`, allowed_files: ["a.txt"] }]);
  assert.equal((await world.busctl(["run", plan, "--detach"])).code, 0);
  await begun(world, ["a"]);
  const ballast = join(world.W, "state", "ballast");
  world.sh("cat /dev/zero > state/ballast 2> /dev/null || true");
  const full = async () => /state cannot be written: ENOSPC/.test((await world.busctl(["tasks"])).out);
  await until("the last page of the journal is full too", full, 60_000);
  const { pid } = world.endpoint();
  process.kill(pid, "SIGKILL");
  await until("it is dead", () => !isAlive(pid));
  world.sh("cat /dev/zero >> state/ballast 2> /dev/null || true"); // what its death gave back
  const up = await world.busctl(["up"]);
  // A record that is shorter than the one that was refused may still fit: then it is up.
  if (up.code !== 0) {
    assert.match(up.err, /ENOSPC/);
    assert.match(up.err, /room/);
  }
  rmSync(ballast);
  assert.equal((await world.busctl(["up"])).code, 0);
  writeFileSync(join(world.W, "go"), "");
  await through(world, "r");
  await assertInvariants(world, "r");
});
