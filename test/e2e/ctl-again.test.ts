// A plan that is run again, and tasks that are added: the first words say which run they are in, and what it stands on.

import assert from "node:assert/strict";
import { test } from "node:test";
import { makeWorld } from "../helpers/world.ts";

const task = (id: string) => ({ id, command: `echo ${id} > ${id}.txt` });

test("issue 2.6: a finished plan that is run again says that this is a new run, and how to look at the first or add to it", async (t) => {
  const w = makeWorld(t);
  const plan = w.plan([task("a")]);
  const first = await w.busctl(["run", plan]);
  assert.equal(first.code, 0, first.err);
  assert.match(first.out, /^r: 1 task submitted, /m);
  assert.doesNotMatch(first.out, /has ended/);
  const again = await w.busctl(["run", plan]);
  assert.equal(again.code, 0, again.err);
  assert.match(
    again.out,
    /^r has ended, 1 of 1 task landed; the plan runs anew, from its base, as r-2\n {2}look at the first: {2}busctl tasks --run r\n {2}add tasks to it: {4}busctl run PLAN --add-to r\nr-2: 1 task submitted, /m,
  );
  const json = await w.busctl(["run", plan, "--detach", "--json"]);
  const { run, ended_before } = JSON.parse(json.out.trim().split("\n")[0] ?? "");
  assert.deepEqual([run, ended_before], ["r-3", "r"]);
});

test("issue 2.6: --add-to says base, workers and gate of the run that is added to", async (t) => {
  const w = makeWorld(t);
  const ran = await w.busctl(["run", w.plan([task("a")]), "--workers", "3"]);
  assert.equal(ran.code, 0, ran.err);
  const base = w.git("rev-parse", "HEAD").trim().slice(0, 12);
  w.sh("cd repo; echo more > f.txt; git commit -qam more");
  const more = w.plan([task("b")], { gate: { shallow: [{ name: "yes", run: "true" }] } });
  const added = await w.busctl(["run", more, "--add-to", "r"]);
  assert.equal(added.code, 0, added.err);
  assert.match(added.out, new RegExp(`^r: 1 task added, base main ${base}, 3 at once$`, "m"));
  assert.match(added.out, /gate: none/, "the gate of the run counts");
  const same = await w.busctl(["run", more, "--add-to", "r", "--detach"]);
  assert.match(same.out, /^r: holds these tasks already, base main /m);
});
