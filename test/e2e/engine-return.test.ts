// What sends a task back, or holds it: scope, conflicts found at landing, files asked for, a gate that proves nothing.

import assert from "node:assert/strict";
import { test } from "node:test";
import { engineWorld, shellTask } from "../helpers/engine.ts";
import { until } from "../helpers/wait.ts";

test("case 46 semantic-conflict: green alone, red merged: sent back with the tasks landed since, tried again from the new head", async (t) => {
  const world = await engineWorld(
    t,
    `mkdir src; echo 'exports.greet = (n) => "hi " + n' > src/lib.js; echo 'require("./lib").greet("a")' > src/one.js
     echo 'set -e; for f in src/*.js; do node "$f"; done' > check.sh; git add -A; git commit -qm base`,
  );
  const gate = { run: "sh check.sh" };
  const rename = `printf '%s\\n' 'exports.welcome = (n) => "hi " + n' > src/lib.js; echo 'require("./lib").welcome("a")' > src/one.js; until [ -e "$W/caller.begun" ]; do sleep 0.02; done`;
  const caller = `touch "$W/caller.begun"; if grep -q welcome src/lib.js; then f=welcome; else f=greet; fi; echo "require('./lib').$f('b')" > src/two.js`;
  const landed = `cd "$W/repo"; until [ "$(git rev-parse busbar/r)" != "$(git rev-parse main)" ]; do sleep 0.05; done`;
  const run = await world.submit([
    shellTask("rename", rename, {
      allowed_files: ["src/lib.js", "src/one.js"],
      acceptance: [gate],
      priority: 1,
    }),
    shellTask("caller", caller, {
      allowed_files: ["src/two.js"],
      acceptance: [gate, { run: landed }],
      retries: 1,
    }),
  ]);
  const { task } = await world.ended(run);
  assert.equal(task("rename").state.name, "passed");
  const results = task("caller").attempts.map((a) => a.result);
  assert.deepEqual(
    results,
    ["check_after_merge", "passed"],
    JSON.stringify(task("caller").attempts[0], null, 1),
  );
  assert.deepEqual(task("caller").attempts[0]?.evidence?.landed_since, ["rename"]);
  world.git("git clone -q -b busbar/r . ../clone && cd ../clone && sh check.sh");
});

test("case 49 lockfile-two-tasks: a conflict goes back with its paths; the next attempt starts from the new head", async (t) => {
  const world = await engineWorld(t, "printf 'a\\nb\\nc\\n' > list; git add -A; git commit -qm base");
  const wait = (mine: string, other: string) =>
    `touch "$W/${mine}"; n=0; until [ -e "$W/${other}" ] || [ $n = 200 ]; do sleep 0.02; n=$((n+1)); done`;
  const run = await world.submit([
    shellTask("up", `${wait("up", "down")}; sed -i 's/b/b-up/' list`, { retries: 1 }),
    shellTask("down", `${wait("down", "up")}; sed -i 's/b/&-down/' list`, { retries: 1 }),
  ]);
  const { task } = await world.ended(run);
  const results = ["up", "down"].map((id) =>
    task(id)
      .attempts.map((a) => a.result)
      .join(" "),
  );
  assert.deepEqual(results.sort(), ["conflict passed", "passed"]);
  const loser = task("up").attempts.length === 2 ? task("up") : task("down");
  assert.deepEqual(loser.attempts[0]?.evidence?.paths, ["list"]);
  assert.equal(loser.attempts[0]?.evidence?.landed_since.length, 1);
  assert.match(world.git("git show busbar/r:list"), /b-(up-down|down-up|up|down)/);
  assert.doesNotMatch(world.git("git show busbar/r:list"), /<<<<|>>>>/);
});

test("G1, case 44 gate-tampering: a change out of scope never lands and names path and rule", async (t) => {
  const world = await engineWorld(
    t,
    "mkdir test src; echo s > src/s; echo false > test/run.sh; git add -A; git commit -qm base",
  );
  const run = await world.submit(
    [
      shellTask("script", "echo true > test/run.sh; echo x > src/x", { allowed_files: ["src/**"] }),
      shellTask("protected", "echo true > test/run.sh", {
        allowed_files: ["**"],
        acceptance: [{ run: "sh test/run.sh" }],
      }),
      shellTask(
        "ignored",
        "mkdir -p b; printf '#!/bin/sh\\nexit 0\\n' > b/sh; chmod +x b/sh; echo y > src/y",
        {
          allowed_files: ["src/y", "b/**"],
          acceptance: [{ run: "PATH=$PWD/nothing:$PATH sh test/run.sh" }],
        },
      ),
    ],
    { protect: ["test/**"] },
  );
  const { run: facts, task } = await world.ended(run);
  assert.equal(
    task("script").attempts[0]?.result,
    "scope",
    JSON.stringify(task("script").attempts[0]?.evidence),
  );
  assert.deepEqual(task("script").attempts[0]?.evidence?.paths, ["test/run.sh"]);
  assert.equal(task("protected").attempts[0]?.result, "scope");
  assert.equal(
    task("protected").attempts[0]?.evidence?.summary,
    "protected by the plan: test/run.sh (nobody may change it)",
  );
  assert.equal(
    task("ignored").attempts[0]?.result,
    "check",
    JSON.stringify(task("ignored").attempts[0]?.evidence),
  );
  assert.equal(facts.landed.length, 0);
});

test("G1: a task that asks for files stops, keeps its work, and goes on when they are granted", async (t) => {
  const world = await engineWorld(t);
  const command = `if [ "$BUSBAR_ATTEMPT_NUMBER" = 1 ]; then echo draft > own.txt; busbar-call request_files '{"paths":["more.txt"],"reason":"needed"}'; else echo own > own.txt; echo more > more.txt; fi`;
  const run = await world.submit([shellTask("asks", command, { allowed_files: ["own.txt"] })]);
  const blocked = await world.ended(run);
  const { state } = blocked.task("asks");
  assert.ok(state.name === "blocked" && state.needs.kind === "files", JSON.stringify(state));
  assert.deepEqual(state.needs.paths, ["more.txt"]);
  assert.equal(blocked.task("asks").attempts[0]?.snapshots.length, 1);
  await world.person.call("grant_files", { run, task: "asks" });
  const { task } = await world.ended(run);
  assert.equal(task("asks").state.name, "passed", JSON.stringify(task("asks").attempts.at(-1)?.evidence));
  assert.equal(world.git("git show busbar/r:more.txt"), "more");
});

test("G2: a gate that stays green on the canary lets nothing land; one that finds it red does", async (t) => {
  const world = await engineWorld(t, "echo ok > src.txt; git add -A; git commit -qm base");
  const canary = { file: "src.txt", append: "BROKEN" };
  const check = (run: string) => ({ name: "look", run, inputs: [], timeout_s: 20, limits: {} });
  const gate = (run: string) => ({ setup: [], shallow: [check(run)], middle: [], deep: [], canary });
  const task = () => [shellTask("t", "echo new > new.txt", { allowed_files: ["new.txt"] })];
  await world.submit(task(), { run: "sharp", gate: gate("! grep -q BROKEN src.txt") });
  const sharp = await world.ended("sharp");
  assert.equal(sharp.task("t").state.name, "passed");
  assert.equal(sharp.task("t").attempts[0]?.verdicts.filter((v) => v.tier === "canary").length, 1);
  await world.submit(task(), { run: "blind", gate: gate("true") });
  await until("the blind gate is found", async () => (await world.state("blind")).run.paused);
  const blind = await world.state("blind");
  assert.match(
    blind.run.paused_why ?? "",
    /^the gate stayed green on the canary \(src.txt with "BROKEN" added\), so it proves nothing and no task is blamed; mend/,
  );
  assert.deepEqual(blind.task("t").counts, {});
  assert.equal(blind.run.landed.length, 0);
  await world.person.call("cancel", { run: "blind" });
});

test("case 45: a link into .git at a path that is in scope is told as what it is, not as out of scope", async (t) => {
  const world = await engineWorld(t);
  const run = await world.submit([shellTask("a", "ln -s .git cfg", { allowed_files: ["cfg"], retries: 0 })]);
  const { task } = await world.ended(run);
  assert.match(
    task("a").attempts[0]?.evidence?.summary ?? "",
    /^no change may hold this: cfg is a link into \.git \(\.git\)/,
  );
});
