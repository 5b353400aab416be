// A gate that is red on the untouched base says nothing of a task: the run is paused with the cure, nobody is blamed.

import assert from "node:assert/strict";
import { existsSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { test } from "node:test";
import { NO_ENV } from "../../schemas/task.ts";
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

test("issue 5.1: a check that needs what one before it builds is asked on the base behind that one", async (t) => {
  const world = await engineWorld(
    t,
    "echo out > .gitignore; echo base > f.txt; git add -A; git commit -qm base",
  );
  const deep = [
    { ...check("mkdir -p out; cat *.txt > out/all")[0], name: "build" },
    { ...check("test -f out/all && ! grep -qx bad out/all")[0], name: "tests" },
  ];
  const run = await world.submit([task("a", { command: "echo bad > a.txt" }), task("b")], {
    gate: gateOf({ deep }),
  });
  const { run: facts, task: at } = await world.ended(run);
  assert.equal(facts.paused, false, facts.paused_why);
  assert.deepEqual([at("a").state.name, at("b").state.name], ["blocked", "passed"]);
});

test("issue 5.1: a set-up that was killed says nothing about the base: it is tried again", async (t) => {
  const world = await engineWorld(t);
  const setup = [{ run: '[ -e "$W/once" ] || { touch "$W/once"; kill -9 $$; }' }];
  const run = await world.submit([task("a")], { gate: gateOf({ setup, shallow: check("true") }) });
  const { run: facts, task: at } = await world.ended(run);
  assert.equal(facts.paused, false, facts.paused_why);
  assert.equal(at("a").state.name, "passed", JSON.stringify(at("a").attempts.at(-1)));
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

for (const [what, said, more] of [
  ["a secret of the agent", /^reading the secret KEY \(file:.*\/nosuch\): ENOENT, whatever/, "agent"],
  ["a secret of a check", /^reading the secret KEY \(file:.*\/nosuch\): ENOENT, whatever/, "check"],
  ["a file of `copy`", /^copying nosuch of your checkout .*: it is not there, whatever/, "copy"],
] as const)
  test(`issue 5.1: ${what} that is gone pauses the run once with the cure and costs no try; mended and resumed, all lands`, async (t) => {
    const world = await engineWorld(t, "echo nosuch > .gitignore; git add -A; git commit -qm base");
    const env = { ...NO_ENV, pass: ["W"] };
    const secrets = { KEY: `file:${world.dir}/nosuch` };
    const own = { env: more === "agent" ? { ...env, secrets } : env };
    const shallow = check("true").map((one) =>
      more === "check" ? { ...one, env: { ...NO_ENV, secrets } } : one,
    );
    const plan = { gate: gateOf({ shallow }), ...(more === "copy" ? { copy: ["nosuch"] } : {}) };
    const run = await world.submit([task("a", own), task("b", own)], plan);
    const pauses = async () =>
      (await world.person.call("query_audit", { run, method: "pause" })).records.filter(
        ({ event }) => event?.type === "run.paused",
      ).length;
    await until("the run is paused", async () => (await world.state(run)).run.paused);
    assert.match((await world.state(run)).run.paused_why ?? "", said);
    await world.person.call("resume", { run });
    await until("it is paused again", async () => (await pauses()) === 2);
    writeFileSync(join(more === "copy" ? world.repo : world.dir, "nosuch"), "value-of-nosuch-4711\n");
    await until("all has landed", async () => {
      const { run: facts } = await world.state(run);
      if (facts.paused) await world.person.call("resume", { run });
      return facts.landed.length === 2;
    });
    const { task: at } = await world.state(run);
    for (const id of ["a", "b"])
      assert.deepEqual([at(id).attempts.length, starts(world, id), at(id).counts], [1, 1, {}]);
  });

test("issue 5.1: what a paused run holds starves no other run, and goes on with the slots that there are", async (t) => {
  const world = await engineWorld(t, undefined, { config: { workers: 1 } });
  const gate = gateOf({ shallow: check('"$W/nosuch"') });
  const held = await world.submit([task("a"), task("b")], { run: "held", gate });
  await until("the run is paused", async () => (await world.state(held)).run.paused);
  const other = await world.submit([task("c"), task("d")], { run: "other" });
  assert.equal((await world.ended(other)).run.landed.length, 2, "the only slot is free");
  const at = await world.state(held);
  assert.deepEqual([at.run.paused, at.task("a").state.name], [true, "running"]);
  mend(world);
  await world.person.call("resume", { run: held });
  const { run, task: of } = await world.ended(held);
  assert.equal(run.landed.length, 2);
  assert.deepEqual([of("a").attempts.length, starts(world, "a")], [1, 1]);
});

test("G2, issue 5.1: a canary that is red for a missing program proves nothing; it is said while the agent works, and nobody is blamed", async (t) => {
  const world = await engineWorld(t, "echo ok > src.txt; git add -A; git commit -qm base");
  const gate = gateOf({
    shallow: check('"$W/nosuch"'),
    canary: { file: "src.txt", append: "BROKEN" },
  });
  const waits = `while ! [ -e "$W/go" ]; do sleep 0.05; done; echo a > a.txt`;
  const run = await world.submit([task("a", { command: waits })], { gate });
  await until("the run is paused", async () => (await world.state(run)).run.paused);
  const paused = await world.state(run);
  assert.match(paused.run.paused_why ?? "", PAUSED);
  const { state } = paused.task("a");
  assert.notEqual(state.name === "running" && state.phase, "prove");
  writeFileSync(join(world.dir, "nosuch"), "#!/bin/sh\n! grep -q BROKEN src.txt\n", { mode: 0o755 });
  await world.person.call("resume", { run });
  writeFileSync(join(world.dir, "go"), "");
  const { run: facts, task: at } = await world.ended(run);
  assert.equal(facts.landed.length, 1);
  assert.deepEqual([at("a").attempts.length, at("a").counts], [1, {}]);
});
