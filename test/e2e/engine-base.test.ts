// A gate that is red on the untouched base says nothing of a task: the run is paused with the cure, nobody is blamed.

import assert from "node:assert/strict";
import { existsSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { test } from "node:test";
import { type EngineWorld, engineWorld, shellTask } from "../helpers/engine.ts";
import { until } from "../helpers/wait.ts";

const check = (run: string) => [{ name: "lint", run, inputs: [], timeout_s: 60, limits: {} }];
const gateOf = (more: object) => ({ setup: [], shallow: [], middle: [], deep: [], ...more });
/** Counts its starts. */
const task = (id: string, more: object = {}) =>
  shellTask(id, `echo x >> "$W/starts-${id}"; echo ${id} > ${id}.txt`, {
    allowed_files: [`${id}.txt`],
    retries: 0,
    ...more,
  });
const starts = (world: EngineWorld, id: string) =>
  existsSync(join(world.dir, `starts-${id}`))
    ? readFileSync(join(world.dir, `starts-${id}`), "utf8").length / 2
    : 0;
const mend = (world: EngineWorld) =>
  writeFileSync(join(world.dir, "nosuch"), "#!/bin/sh\nexit 0\n", { mode: 0o755 });
const PAUSED =
  /^(check|set-up) \S+ is red on the untouched base [0-9a-f]{12}, whatever a task does, so none is blamed: \S+ ended with exit code 127 \(a program is missing: .*nosuch.*not found\); install or mend/;

for (const [where, gate] of [
  ["a shallow check", gateOf({ shallow: check('"$W/nosuch"') })],
  ["a check of the landing", gateOf({ deep: check('"$W/nosuch"') })],
  ["a set-up", gateOf({ setup: [{ run: '"$W/nosuch"' }], shallow: check("true") })],
] as const)
  test(`issue 5.1: ${where} whose program is missing pauses the run and costs no try; mended and resumed, all lands and no agent ran twice`, async (t) => {
    const world = await engineWorld(t);
    const run = await world.submit([task("a"), task("b")], { gate });
    await until("the run is paused", async () => (await world.state(run)).run.paused, 20_000).catch((e) => {
      throw new Error(`${e.message}\n${world.log().slice(-6000)}`);
    });
    const paused = await world.state(run);
    assert.match(paused.run.paused_why ?? "", PAUSED);
    for (const id of ["a", "b"]) assert.deepEqual(paused.task(id).counts, {}, "nobody is blamed");
    // Resumed too early: the same again.
    const pauses = async () =>
      (await world.person.call("query_audit", { run, method: "pause" })).records.filter(
        ({ event }) => event?.type === "run.paused",
      ).length;
    assert.equal(await pauses(), 1);
    await world.person.call("resume", { run });
    await until("it is paused again", async () => (await pauses()) === 2);
    mend(world);
    // Whoever began to look before that may pause it once more.
    await until("all has landed", async () => {
      const { run: facts } = await world.state(run);
      if (facts.paused) await world.person.call("resume", { run });
      return facts.landed.length === 2;
    });
    const { task: at } = await world.state(run);
    for (const id of ["a", "b"]) {
      assert.deepEqual([at(id).attempts.length, starts(world, id)], [1, 1]);
      assert.deepEqual(at(id).counts, {});
    }
  });

test("issue 5.1: what is green on the base is the task's doing, and the base is asked once", async (t) => {
  const world = await engineWorld(t);
  const bad = (id: string) => task(id, { command: `echo bad > ${id}.txt`, retries: 1 });
  const run = await world.submit([bad("a"), bad("b")], {
    gate: gateOf({ shallow: check("! grep -qx bad *.txt") }),
  });
  const { run: facts, task: at } = await world.ended(run);
  assert.equal(facts.paused, false);
  const attempts = ["a", "b"].flatMap((id) => at(id).attempts);
  assert.deepEqual(
    attempts.map(({ result }) => result),
    ["check", "check", "check", "check"],
  );
  const asked = attempts.flatMap(({ verdicts }) => verdicts.filter(({ tier }) => tier === "base"));
  assert.deepEqual(
    asked.map(({ verdict }) => verdict),
    ["pass"],
  );
});
