// The engine end to end: real bus, scheduler and shims on a real repository.

import assert from "node:assert/strict";
import { existsSync, readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { test } from "node:test";
import { engineWorld, shellTask } from "../helpers/engine.ts";

test("S4, G6: tasks with dependencies run, are proven and land in order; the checkout is untouched", async (t) => {
  const world = await engineWorld(t);
  const run = await world.submit([
    shellTask("one", "echo 1 > one.txt", { allowed_files: ["one.txt"] }),
    shellTask("two", "cat one.txt > two.txt", { allowed_files: ["two.txt"], depends_on: ["one"] }),
    shellTask("side", "echo s > side.txt", {
      allowed_files: ["side.txt"],
      acceptance: [{ run: "test -f side.txt" }],
    }),
  ]);
  const { run: facts, task } = await world.ended(run);
  for (const id of ["one", "two", "side"]) assert.equal(task(id).state.name, "passed", id);
  assert.equal(world.git("git show busbar/r:two.txt"), "1");
  assert.equal(world.git("git rev-list --count main..busbar/r"), "3");
  assert.equal(facts.head, world.git("git rev-parse busbar/r"));
  assert.equal(world.git("git status --porcelain"), "");
  assert.equal(world.git("git branch --show-current"), "main");
  assert.match(world.git("git log -1 --format=%B busbar/r"), /Busbar-Task: /);
  const dir = task("two").attempts[0]?.workspace ?? "";
  for (const file of [
    "context.json",
    "prompt.md",
    "run_metadata.json",
    "agent.log",
    "status.done",
    "outbox.json",
  ])
    assert.ok(existsSync(join(dir, file)), file);
  assert.deepEqual(readdirSync(join(dir, "output")).sort(), ["landed.patch", "v1.patch"]);
});

test("S6: a red check comes back as evidence, and the second attempt can use it", async (t) => {
  const world = await engineWorld(t);
  const command =
    'if grep -q "\\"cause\\"" "$BUSBAR_CONTEXT"; then printf "a\\nb\\n" > out.txt; else echo a > out.txt; fi';
  const acceptance = [{ run: '[ "$(wc -l < out.txt)" = 2 ] || { echo "needs a second line"; exit 1; }' }];
  const run = await world.submit([
    shellTask("learns", command, { allowed_files: ["out.txt"], acceptance, retries: 1 }),
  ]);
  const { task } = await world.ended(run);
  const [first, second] = task("learns").attempts;
  assert.equal(first?.result, "check");
  assert.match(first?.evidence?.log ?? "", /needs a second line/);
  assert.equal(second?.result, "passed");
  assert.match(readFileSync(join(second?.workspace ?? "", "prompt.md"), "utf8"), /Attempt 1 failed: check/);
});
