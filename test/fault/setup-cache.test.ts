// W8: a set-up runs once per content of its key files; what would not be the same elsewhere is not kept; who dies on the
// way leaves nothing that is believed.

import assert from "node:assert/strict";
import { existsSync, readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { test } from "node:test";
import type { Gate } from "../../schemas/task.ts";
import { type EngineWorld, engineWorld, shellTask } from "../helpers/engine.ts";
import { isAlive } from "../helpers/processes.ts";
import { until } from "../helpers/wait.ts";

const REPO =
  "echo node_modules > .gitignore; echo 1 > lock; echo base > f.txt; git add -A; git commit -qm base";
/** Counts its runs; what it makes has a link, an executable file and a closed directory. */
const MAKES =
  'echo x >> "$W/setups"; mkdir -p node_modules/.bin; cat lock > node_modules/v; printf "#!/bin/sh\\necho tool $(cat lock)\\n" > node_modules/t.sh; chmod 755 node_modules/t.sh; ln -s ../t.sh node_modules/.bin/tool';
const gateOf = (run: string, key = ["lock"]) =>
  ({ setup: [{ run, key }], shallow: [], middle: [], deep: [] }) satisfies Partial<Gate> as unknown as Gate;
const works = "test $(cat node_modules/v) = $(cat lock) && node_modules/.bin/tool";
const task = (id: string, more = "true", after: string[] = []) =>
  shellTask(id, `${works} && ${more} && echo out > ${id}.txt`, {
    allowed_files: [`${id}.txt`, "lock"],
    acceptance: [{ run: `${works} && test -f ${id}.txt` }],
    depends_on: after,
    retries: 0,
  });
const setups = (world: EngineWorld) => readFileSync(join(world.dir, "setups"), "utf8").length / 2;
const kept = (world: EngineWorld) => {
  const top = readdirSync(join(world.dir, "state"))
    .map((key) => join(world.dir, "state", key, "setup"))
    .find((path) => existsSync(path));
  return top === undefined ? [] : readdirSync(top);
};

test("W8: one run for many attempts and checks; other key files make another; a candidate's own is not kept", async (t) => {
  const world = await engineWorld(t, REPO);
  const run = await world.submit(
    [
      task("a"),
      task("b"),
      task("c"),
      task("lock", "echo 2 > lock", ["a", "b", "c"]),
      task("after", "true", ["lock"]),
    ],
    { gate: gateOf(MAKES) },
  );
  const { task: at } = await world.ended(run);
  for (const id of ["a", "b", "c", "lock", "after"])
    assert.equal(
      at(id).state.name,
      "passed",
      `${JSON.stringify(at(id).attempts.at(-1))}\n${world.log().slice(-3000)}`,
    );
  // Once for lock 1; for the check of the new lock (candidates are not believed); once for lock 2.
  assert.equal(kept(world).length, 2, kept(world).join());
  const count = setups(world);
  const again = await world.submit([task("d"), task("e")], {
    run: "again",
    gate: gateOf(MAKES),
    base: world.git("git rev-parse busbar/r"),
  });
  await world.ended(again);
  assert.equal(setups(world), count, "nothing was left to do");
  assert.ok(count >= 3 && count <= 4, String(count));
});

test("W8: not kept: tracked files changed, a path of the workspace in a file or link, something in the home", async (t) => {
  const wrong = {
    "it changes files of the tree": 'echo x >> "$W/setups"; mkdir node_modules; echo y >> f.txt',
    "holds the path of its workspace": 'echo x >> "$W/setups"; mkdir node_modules; pwd > node_modules/here',
    "holds the path of its workspace (a link)":
      'echo x >> "$W/setups"; mkdir node_modules; ln -s / all; ln -s "$W/pipe" pipe; ln -s "$PWD" node_modules/self',
    "home/.tool outside the tree": 'echo x >> "$W/setups"; mkdir node_modules; touch node_modules/x ~/.tool',
  };
  const world = await engineWorld(t, REPO);
  let n = 0;
  // Links at the top are not followed, pipes not opened: the search for paths ends.
  world.git(`mkfifo '${join(world.dir, "pipe")}'`);
  for (const [why, makes] of Object.entries(wrong)) {
    n += 1;
    const before = n === 1 ? 0 : setups(world);
    const one = (id: string) =>
      shellTask(id, `test -d node_modules && echo o > ${id}.txt`, {
        allowed_files: [`${id}.txt`],
        retries: 0,
      });
    const run = await world.submit([one("a"), one("b")], { run: `r${n}`, gate: gateOf(makes) });
    const { task: at } = await world.ended(run);
    assert.equal(at("a").state.name, "passed", JSON.stringify(at("a").attempts.at(-1)));
    assert.ok(setups(world) - before >= 2, `${why}: every attempt has its own`);
    assert.ok(world.log().includes(why.replace(" (a link)", "")), `${why}\n${world.log().slice(-2000)}`);
  }
  assert.deepEqual(kept(world), []);
});

for (const point of [
  "scheduler.setup.before-write-entry",
  "scheduler.setup.before-name-entry",
  "scheduler.setup.before-mark-used",
] as const)
  test(`W8: the scheduler dies at ${point}: the next one believes nothing half done, and clears it away`, async (t) => {
    const world = await engineWorld(t, REPO);
    const file = world.arm(point);
    const run = await world.submit([task("a"), task("b", "true", ["a"])], { gate: gateOf(MAKES) });
    const { pid } = world.scheduler.child;
    await until("the scheduler died", () => !existsSync(file) && !isAlive(pid ?? 0));
    world.startScheduler();
    const { task: at } = await world.ended(run);
    for (const id of ["a", "b"])
      assert.equal(at(id).state.name, "passed", JSON.stringify(at(id).attempts.at(-1)));
    await until("nothing half done is left", () => kept(world).every((name) => !name.startsWith("tmp-")));
    assert.equal(kept(world).length, 1);
  });
