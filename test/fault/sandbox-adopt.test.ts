// Agents in a sandbox when their scheduler is killed: they go on, and the next one takes them over.

import assert from "node:assert/strict";
import { existsSync, mkdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import test from "node:test";
import { engineWorld, shellTask } from "../helpers/engine.ts";
import { isAlive } from "../helpers/processes.ts";
import { hasSandbox } from "../helpers/sandbox.ts";
import { until } from "../helpers/wait.ts";

test("case 71 restart-mid-run: an agent in a sandbox outlives its scheduler and is taken over; with its shim it dies", async (t) => {
  if (!hasSandbox(t)) return;
  const world = await engineWorld(t);
  const door = join(world.dir, "door");
  mkdirSync(door);
  const waits = (name: string) =>
    shellTask(
      name,
      `touch "$W/door/${name}-up"; until [ -e "$W/door/go" ]; do sleep 0.02; done; echo x > ${name}.txt`,
    );
  const run = await world.submit([waits("a"), waits("b")], { sandbox: { mode: "required", write: [door] } });
  for (const name of ["a", "b"]) await until("it works", () => existsSync(join(door, `${name}-up`)));
  await world.kill(world.scheduler);
  const shim = await world.shimOf(run, "b");
  process.kill(shim, "SIGKILL");
  await until("the shim is gone", () => !isAlive(shim));
  world.startScheduler();
  writeFileSync(join(door, "go"), "");
  const { task } = await world.ended(run);
  assert.deepEqual(
    ["a", "b"].map((id) => task(id).attempts.map(({ result }) => result)),
    [["passed"], ["lost", "passed"]],
  );
  const [first] = task("a").attempts[0]?.procs ?? [];
  assert.equal(first?.ended?.sandbox, "bubblewrap, network of the host");
});
