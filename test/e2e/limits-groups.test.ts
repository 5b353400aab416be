// Limits of a whole tree as a person meets them: in a plan, with the real programs, on a machine that has control groups.

import assert from "node:assert/strict";
import { readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import test from "node:test";
import { groupsLeft, testGroups } from "../helpers/groups.ts";
import { assertInvariants } from "../helpers/invariants.ts";
import { isAlive } from "../helpers/processes.ts";
import { makeWorld } from "../helpers/world.ts";

/** Whoever started it meets the limit itself: the bomb alone may go off after its end. */
const BOMB = "b() { b | b & }; b; i=0; while [ $i -lt 200 ]; do sleep 300 & i=$((i + 1)); done; exit 7";

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
      command: world.agent("bomb", BOMB),
      limits: { pids: 40 },
      retries: 0,
    },
    { id: "hog", command: `exec ${hog}`, limits: { memory: 96_000_000 }, retries: 0 },
  ]);
  assert.equal(ran.code, 1, ran.out + ran.err);
  const { tasks } = await world.state("r");
  const result = (id: string) => tasks.get(id)?.attempts.map((each) => each.result);
  assert.deepEqual([result("hides"), result("bomb"), result("hog")], [["passed"], ["pids"], ["memory"]]);
  assert.match(ran.out, /pids 40: no further process could be made/);
  assert.match(
    ran.out,
    /memory 91\.6 MiB for all together: the kernel killed (it|\S+ \(pid \d+, [0-9.]+ MiB\))/,
  );
  assert.match(ran.out, /limits: kill by control group v\d/);
  assert.equal(isAlive(Number(readFileSync(join(world.W, "hidden"), "utf8"))), false);
  const { limits_not_enforced, protection } = JSON.parse(
    readFileSync(join(tasks.get("hog")?.attempts[0]?.workspace ?? "", "run_metadata.json"), "utf8"),
  );
  assert.deepEqual(limits_not_enforced, []);
  assert.match(protection, /control group/);
  assert.deepEqual(groupsLeft(host), []);
  await assertInvariants(world, "r");
});

test("L3: the host's upper bound holds a task that asks for more; what cannot be held is named before a strict plan starts", async (t) => {
  const world = makeWorld(t);
  const host = testGroups(t, ["all", "memory", "pids"]);
  if (!host) return;
  world.env.BUSBAR_CGROUP_BASE = host.base;
  world.env.BUSBAR_CONFIG = join(world.W, "config.yaml");
  writeFileSync(world.env.BUSBAR_CONFIG, "limits: {pids: 30, memory: 512M}\n");
  const bomb = { id: "bomb", command: BOMB, limits: { pids: 4000 }, retries: 0 };
  const ran = await world.run([{ ...bomb, allowed_files: ["a"] }]);
  assert.equal(ran.code, 1, ran.out + ran.err);
  assert.match(ran.out, /pids 30: no further process could be made/);
  const { tasks } = await world.state("r");
  const metadata = JSON.parse(
    readFileSync(join(tasks.get("bomb")?.attempts[0]?.workspace ?? "", "run_metadata.json"), "utf8"),
  );
  assert.deepEqual(metadata.limits, {
    pids: 30,
    memory: 512 * 1024 ** 2,
    timeout_s: metadata.limits.timeout_s,
  });
  assert.match(metadata.limits_by, /by control group/);
  // Root is not held by it, and nobody else may have so many.
  const strict = {
    id: "s",
    command: "true",
    allowed_files: ["a"],
    limits: { nproc: 4_000_000, strict: true },
  };
  const refused = await world.run([strict], { run: "strict" });
  assert.equal(refused.code, 2, refused.out + refused.err);
  assert.match(
    refused.err,
    /task "?s"? is not started: its limits are strict, and this host cannot hold nproc 4000000/,
  );
});

test("issue 4.2: the runner inside dies of memory, its agent lives and lands; a filler ends by disk: task and report say so", async (t) => {
  const world = makeWorld(t);
  const host = testGroups(t, ["all", "memory"]);
  if (!host) return;
  world.env.BUSBAR_CGROUP_BASE = host.base;
  const hog = `${process.execPath} -e 'const all = []; for (;;) all.push(Buffer.alloc(4e6, 1))'`;
  const ran = await world.run([
    {
      id: "runner",
      command: world.agent("runner", `${hog} || echo "it ended with $?" > a.txt`),
      limits: { memory: 96 << 20 },
      allowed_files: ["a.txt"],
    },
    {
      id: "filler",
      command: world.agent("filler", 'head -c 30000000 /dev/zero > "$TMPDIR/big"; sleep 300'),
      limits: { disk: 8 << 20 },
      allowed_files: ["b.txt"],
      retries: 0,
    },
  ]);
  assert.equal(ran.code, 1, ran.out + ran.err);
  const { tasks } = await world.state("r");
  const of = (id: string) => tasks.get(id)?.attempts[0];
  assert.deepEqual([of("runner")?.result, of("filler")?.result], ["passed", "disk"]);
  assert.match(
    of("filler")?.evidence?.summary ?? "",
    /wrote more than it may .*disk 8 MiB: .* in tmp\/big \(/,
  );
  const screen = await world.busctl(["tasks", "--task", "runner"]);
  assert.match(screen.out, /agent: memory 96 MiB for all together: the kernel killed/);
  const report = await world.busctl(["report"]);
  assert.match(report.out, /## Limits met\n\n- `runner` #1: agent: memory 96 MiB/);
  assert.match(report.out, /- `filler` #1: agent: disk 8 MiB/);
});
