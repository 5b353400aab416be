// Case 70 disk-full by name: the real programs on a small file system that fills up.

import assert from "node:assert/strict";
import { rmSync } from "node:fs";
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
