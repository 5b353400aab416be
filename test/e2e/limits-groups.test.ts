// Limits of a whole tree as a person meets them: in a plan, with the real programs, on a machine that has control groups.

import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { join } from "node:path";
import test from "node:test";
import { groupsLeft, testGroups } from "../helpers/groups.ts";
import { assertInvariants } from "../helpers/invariants.ts";
import { isAlive } from "../helpers/processes.ts";
import { makeWorld } from "../helpers/world.ts";

test("L1, L3: a fork bomb and a hog harm their own attempt and are told of by cause; who hides from us ends with its attempt", async (t) => {
  const world = makeWorld(t);
  const host = testGroups(t, ["all", "memory", "pids"]);
  if (!host) return;
  world.env.BUSBAR_CGROUP_BASE = host.base;
  const hides = `(setsid env -i W="$W" bash -c 'echo $$ > "$W/hidden"; exec sleep 300' > /dev/null 2>&1 < /dev/null &); until [ -s "$W/hidden" ]; do sleep 0.02; done`;
  const hog = `${process.execPath} -e 'const all = []; for (;;) all.push(Buffer.alloc(4e6, 1))'`;
  const ran = await world.run([
    { id: "hides", command: world.agent("hides", `${hides}; echo ok > a.txt`), allowed_files: ["a.txt"] },
    {
      id: "bomb",
      command: world.agent("bomb", "b() { b | b & }; b; exit 7"),
      limits: { pids: 40 },
      retries: 0,
    },
    { id: "hog", command: `exec ${hog}`, limits: { memory: 96_000_000 }, retries: 0 },
  ]);
  assert.equal(ran.code, 1, ran.out + ran.err);
  const { tasks } = await world.state("r");
  const result = (id: string) => tasks.get(id)?.attempts.map((each) => each.result);
  assert.deepEqual([result("hides"), result("bomb"), result("hog")], [["passed"], ["limit"], ["memory"]]);
  assert.match(ran.out, /pids: it had reached its limit of 40 processes/);
  assert.match(ran.out, /memory: it was killed at the limit of 96000000 bytes/);
  assert.equal(isAlive(Number(readFileSync(join(world.W, "hidden"), "utf8"))), false);
  const { limits_not_enforced, protection } = JSON.parse(
    readFileSync(join(tasks.get("hog")?.attempts[0]?.workspace ?? "", "run_metadata.json"), "utf8"),
  );
  assert.deepEqual(limits_not_enforced, []);
  assert.match(protection, /control group/);
  assert.deepEqual(groupsLeft(host), []);
  await assertInvariants(world, "r");
});
