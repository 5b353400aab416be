// The head of a run leaves the repository in mid-run: somebody deleted the branch and refs/busbar, and git cleaned up. The
// run is held with what can be done, no try is used up; with the commits back it goes on.

import assert from "node:assert/strict";
import { existsSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { type TestContext, test } from "node:test";
import { engineWorld, shellTask } from "../helpers/engine.ts";
import { until } from "../helpers/wait.ts";

const GONE =
  "git for-each-ref --format='delete %(refname)' refs/heads/busbar refs/busbar | git update-ref --stdin; git reflog expire --expire=now --all; git gc -q --prune=now";

/** `a` has landed; the agent of `b` is at work until the file `go` is there; `c` waits for a place. Kept: what a has landed. */
async function goneWhileAtWork(t: TestContext) {
  const world = await engineWorld(t);
  const task = (id: string, command = "") =>
    shellTask(id, `echo x >> "$W/starts"; ${command} echo ${id} > ${id}.txt`, {
      allowed_files: [`${id}.txt`],
      retries: 0,
    });
  const waits = 'touch "$W/b"; until [ -e "$W/go" ]; do sleep 0.05; done;';
  const run = await world.submit([task("a"), task("b", waits), task("c")], { workers: 1 });
  await until("the agent of b works", () => existsSync(join(world.dir, "b")));
  await until("a has landed", async () => (await world.state(run)).run.landed.length === 1);
  const { head } = (await world.state(run)).run;
  world.git(`git bundle create -q ../kept.bundle busbar/r && ${GONE}`);
  return { world, run, head };
}

/** Every attempt of a task that ended, by its result. */
const results = ({ attempts }: { attempts: { result?: unknown }[] }) => attempts.map(({ result }) => result);

test("issue 3: branch and refs of a run deleted and collected in mid-run: held with the cure, at no cost; with the commits back it ends well", async (t) => {
  const { world, run, head } = await goneWhileAtWork(t);
  assert.throws(() => world.git(`git cat-file -e ${head}`), "the head is gone");
  writeFileSync(join(world.dir, "go"), "");
  await until("the run is paused", async () => (await world.state(run)).run.paused);
  await until("c is claimed or waits", async () => {
    const { state } = (await world.state(run)).task("c");
    return state.name === "running" || state.name === "ready";
  });
  const { run: facts } = await world.state(run);
  assert.match(
    facts.paused_why ?? "",
    new RegExp(`${head} of busbar/r is not in the repository any more.*git fetch`),
  );
  // Let go on without the cure: held again, at no cost again.
  const pauses = async () =>
    (await world.person.call("query_audit", { run, method: "pause" })).records.filter(
      ({ event }) => event?.type === "run.paused",
    ).length;
  const before = await pauses();
  await world.person.call("resume", { run });
  await until("it is paused again", async () => (await pauses()) > before);
  world.git("git fetch -q ../kept.bundle busbar/r");
  await until("it goes on", async () => {
    await world.person.call("resume", { run });
    return !(await world.state(run)).run.paused;
  });
  const { task, run: ended } = await world.ended(run);
  assert.deepEqual(
    ["a", "b", "c"].map((id) => results(task(id))),
    [["passed"], ["passed"], ["passed"]],
  );
  assert.equal(ended.landed.length, 3);
  assert.equal(readFileSync(join(world.dir, "starts"), "utf8"), "x\nx\nx\n", "no agent ran twice");
});

test("issue 3: the base of an attempt that is at work is gone: its work is held, and counts once the base is back", async (t) => {
  const world = await engineWorld(t);
  const waits = 'touch "$W/b"; until [ -e "$W/go" ]; do sleep 0.05; done;';
  const b = shellTask("b", `echo x >> "$W/starts"; ${waits} echo b > b.txt`, {
    allowed_files: ["b.txt"],
    depends_on: ["a"],
    retries: 0,
  });
  const run = await world.submit([shellTask("a", "echo a > a.txt", { allowed_files: ["a.txt"] }), b]);
  await until("the agent of b works", () => existsSync(join(world.dir, "b")));
  world.git(`git bundle create -q ../kept.bundle busbar/r && ${GONE}`);
  writeFileSync(join(world.dir, "go"), "");
  await until("the run is paused", async () => (await world.state(run)).run.paused);
  assert.equal((await world.state(run)).task("b").state.name, "running");
  world.git("git fetch -q ../kept.bundle busbar/r");
  await world.person.call("resume", { run });
  const { task } = await world.ended(run);
  assert.deepEqual(results(task("b")), ["passed"]);
  assert.equal(readFileSync(join(world.dir, "starts"), "utf8"), "x\n");
});
