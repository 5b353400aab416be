// Case 70 disk-full by name: the real programs on a small file system that fills up.

import assert from "node:assert/strict";
import { readFileSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { type TestContext, test } from "node:test";
import { isOver } from "../helpers/engine.ts";
import { assertInvariants } from "../helpers/invariants.ts";
import { isAlive } from "../helpers/processes.ts";
import { dropDisk, smallDisk } from "../helpers/small-disk.ts";
import { until } from "../helpers/wait.ts";
import { endWorld, fillWorld, newWorld, type World } from "../helpers/world.ts";

/** A world whose state lies on a small disk; undefined where none can be made. */
function smallWorld(t: TestContext, size: string): World | undefined {
  const world = newWorld();
  const state = join(world.W, "state");
  const there = smallDisk(t, state, size);
  t.after(async () => {
    if (there) rmSync(join(state, "ballast"), { force: true });
    await endWorld(world, true).finally(() => {
      if (there) dropDisk(state);
      rmSync(world.W, { recursive: true, force: true, maxRetries: 5 });
    });
  });
  fillWorld(world);
  return there ? world : undefined;
}

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

test("case 70 disk-full: while state cannot be written nothing new starts, what runs goes on, and all merges when there is room", async (t) => {
  const world = smallWorld(t, "64m");
  if (!world) return;
  const slow = world.agent("slow", `echo ok > s.txt; until [ -e "$W/go" ]; do sleep 0.05; done`);
  const plan = world.plan([
    { id: "slow", command: slow, allowed_files: ["s.txt"] },
    { id: "next", command: "echo ok > n.txt", allowed_files: ["n.txt"], depends_on: ["slow"] },
  ]);
  assert.equal((await world.busctl(["run", plan, "--detach"])).code, 0);
  const running = async () => (await world.state("r")).tasks.get("slow")?.state;
  await until("the agent works", async () => {
    const state = await running();
    return state?.name === "running" && state.phase === "agent";
  });
  world.sh("cat /dev/zero > state/ballast 2> /dev/null || true");
  writeFileSync(join(world.W, "z.json"), readFileSync(plan, "utf8").replace('"run": "r"', '"run": "zz"'));
  const submitted = await world.busctl(["run", join(world.W, "z.json"), "--detach"]);
  assert.equal(submitted.code, 3, submitted.out);
  assert.match(submitted.err, /journal.*ENOSPC\n.*make room/);
  const said = await world.busctl(["tasks", "--run", "r"]);
  assert.equal(said.code, 0, said.err);
  assert.match(said.out, /! state cannot be written: ENOSPC(.*\n)+.*running +slow/);
  assert.equal((await world.busctl(["tasks", "--run", "zz"])).code, 2, "a run that was refused is not known");
  assert.equal((await running())?.name, "running", "it is not killed for it");
  writeFileSync(join(world.W, "go"), "");
  await until("the agent has ended, and nobody can write that down", async () => {
    const { out } = await world.busctl(["tasks", "--run", "r"]);
    return /cannot be written/.test(out);
  });
  rmSync(join(world.W, "state/ballast"));
  await through(world, "r");
  const { run, tasks } = await world.state("r");
  assert.deepEqual(
    run.landed.map(({ task }) => task),
    ["slow", "next"],
  );
  for (const task of tasks.values()) assert.equal(task.attempts.length, 1, "no attempt was spent on it");
  assert.doesNotMatch((await world.busctl(["tasks", "--run", "r"])).out, /cannot be written/);
  assert.equal((await world.busctl(["verify"])).code, 0);
  await assertInvariants(world, "r");
});
