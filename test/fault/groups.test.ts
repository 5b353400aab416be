// Control groups for real: nobody gets out of one, its limits hold, and it is gone afterwards; also when the shim was killed.

import assert from "node:assert/strict";
import { existsSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import test from "node:test";
import { endGroups, sweepGroups } from "../../scheduler/groups.ts";
import { endStrays } from "../../scheduler/strays.ts";
import { groupsLeft, inGroups, TEST_STATE, testGroups } from "../helpers/groups.ts";
import { shimWorld, type World } from "../helpers/shim-run.ts";
import { isRunning } from "../helpers/survivors.ts";
import { until } from "../helpers/wait.ts";

/** A program that leaves everything a scan could find it by, and changes its number all the time. */
const MOVER = `
const { spawn } = require("node:child_process");
const fs = require("node:fs");
const [, file, left] = process.argv.slice(1);
fs.writeFileSync(file, String(process.pid));
setTimeout(() => {
  if (Number(left) > 0) spawn(process.execPath, ["-e", process.env.CODE ?? fs.readFileSync(file + ".js", "utf8"), "x", file, left - 1], { detached: true, stdio: "ignore", env: {} }).unref();
  process.exit(0);
}, 5);
`;

function escaping(world: World): { line: string; pid(): number } {
  const file = join(world.dir, "mover");
  writeFileSync(`${file}.js`, MOVER);
  const line = `(setsid env -i ${process.execPath} -e "$(cat ${file}.js)" x ${file} 100000 > /dev/null 2>&1 < /dev/null &); until [ -s ${file} ]; do sleep 0.02; done`;
  return { line, pid: () => Number(readFileSync(file, "utf8")) };
}

async function isStill(pid: () => number): Promise<boolean> {
  const before = pid();
  return !isRunning(before) && pid() === before;
}

test("L1: what forks away with a new number, session and environment all the time is ended with its group, for certain", async (t) => {
  const host = testGroups(t, ["all"]);
  if (!host) return;
  const world = await shimWorld(t);
  const { line, pid } = escaping(world);
  const plain = world.job(["/bin/sh", "-c", `${line}; exit 0`]);
  const outcome = await world.start(inGroups(host, plain)).end();
  assert.deepEqual([outcome.reason, outcome.exit, outcome.certain], ["exit", 0, true]);
  assert.deepEqual(outcome.survivors, []);
  assert.ok(await isStill(pid));
  assert.deepEqual(groupsLeft(host), []);
});

test("L1: the shim was killed: its group is ended by whoever takes over, and goes", async (t) => {
  const host = testGroups(t, ["all"]);
  if (!host) return;
  const world = await shimWorld(t);
  const { line, pid } = escaping(world);
  const plain = world.job(["/bin/sh", "-c", `${line}; sleep 300`]);
  const { groups } = inGroups(host, plain);
  const run = world.start({ ...plain, groups });
  await until("it forks", () => existsSync(join(world.dir, "mover")) && pid() > 0);
  run.child.kill("SIGKILL");
  await run.exited;
  const { found, survivors } = await endStrays({ dirs: [run.job.dir], groups }, 0);
  assert.ok(found.length > 0);
  assert.deepEqual(survivors, []);
  assert.ok(await isStill(pid));
  assert.deepEqual(groupsLeft(host), []);
  assert.deepEqual(await endGroups(groups), { found: [], survivors: [] }, "once more is no harm");
});

test("L1: who hides in a group of its own making below its attempt's is ended, by the shim and without it", async (t) => {
  const host = testGroups(t, ["all"]);
  if (!host) return;
  const world = await shimWorld(t);
  const plain = world.job(["/bin/sh", "-c", ""]);
  const { groups } = inGroups(host, plain);
  const hide = `mkdir ${groups.all.dir}/sub; (env -i setsid sh -c 'echo $$ > ${groups.all.dir}/sub/cgroup.procs; echo $$ > ${world.dir}/hidden; exec sleep 300' > /dev/null 2>&1 < /dev/null &); until [ -s ${world.dir}/hidden ]; do sleep 0.02; done`;
  const hidden = () => Number(readFileSync(join(world.dir, "hidden"), "utf8"));
  const outcome = await world.start({ ...plain, argv: ["/bin/sh", "-c", `${hide}; exit 0`], groups }).end();
  assert.deepEqual([outcome.exit, outcome.certain, isRunning(hidden())], [0, true, false]);
  assert.deepEqual(groupsLeft(host), []);
  writeFileSync(join(world.dir, "hidden"), "");
  const run = world.start({ ...plain, argv: ["/bin/sh", "-c", `${hide}; sleep 300`], groups });
  await until("it hides", () => hidden() > 0);
  run.child.kill("SIGKILL");
  await run.exited;
  await endStrays({ dirs: [run.job.dir], groups }, 0);
  assert.equal(isRunning(hidden()), false);
  assert.deepEqual(groupsLeft(host), []);
});

test("L1: a scheduler that starts ends the groups of nobody, and leaves those of running attempts and other repositories", async (t) => {
  const host = testGroups(t, ["all"]);
  if (!host) return;
  const world = await shimWorld(t);
  const job = (name: string, state: string) => {
    const plain = world.job(["/bin/sh", "-c", `echo $$ > "$W/${name}"; exec sleep 300`], { name });
    return inGroups(host, plain, state);
  };
  const pidOf = (name: string) => Number(readFileSync(join(world.dir, name), "utf8"));
  const jobs = [job("kept", TEST_STATE), job("over", TEST_STATE), job("other", "/state/other")];
  const runs = [];
  for (const each of jobs) {
    runs.push(world.start(each));
    await until(each.name, () => existsSync(join(world.dir, each.name)) && pidOf(each.name) > 0);
  }
  assert.equal(await sweepGroups(host, TEST_STATE, [jobs[0]!]), 1);
  assert.deepEqual(
    ["kept", "over", "other"].map((name) => isRunning(pidOf(name))),
    [true, false, true],
  );
  for (const run of runs) run.child.kill("SIGTERM");
  for (const run of runs) await run.exited;
});

test("L3: memory: the hog dies and is told of, with the peak; an agent whose child died lives to hear of it", async (t) => {
  const host = testGroups(t, ["all", "memory"]);
  if (!host) return;
  const world = await shimWorld(t);
  const hog = `${process.execPath} -e 'const all = []; for (;;) all.push(Buffer.alloc(4e6, 1))'`;
  const job = (line: string) => {
    const plain = world.job(["/bin/sh", "-c", line], { limits: { memory: 96 << 20 } });
    return inGroups(host, plain);
  };
  const killed = await world.start(job(`exec ${hog}`)).end();
  assert.deepEqual([killed.reason, killed.signal], ["memory", "SIGKILL"]);
  assert.ok((killed.memory_kills ?? 0) >= 1);
  assert.ok(killed.peak_rss > 80 << 20 && killed.peak_rss <= 96 << 20, `${killed.peak_rss} bytes`);
  const heard = await world.start(job(`${hog}; echo "it ended with $?"`)).end();
  assert.deepEqual([heard.reason, heard.exit], ["exit", 0]);
  assert.match(heard.log_tail, /it ended with 137/);
  assert.match(
    heard.limit_hits?.join() ?? "",
    /^memory 96 MiB for all together: the kernel killed .*; at most 9\d(\.\d)? MiB/,
  );
  assert.ok((heard.memory_kills ?? 0) >= 1);
  assert.deepEqual(groupsLeft(host), []);
});

test("L3: pids: a fork bomb is held, its end says so, and the machine does not notice", async (t) => {
  const host = testGroups(t, ["all", "pids"]);
  if (!host) return;
  const world = await shimWorld(t);
  const bomb = "b() { b | b & }; b; i=0; while [ $i -lt 200 ]; do sleep 300 & i=$((i + 1)); done; exit 7";
  const plain = world.job(["/bin/sh", "-c", bomb], { limits: { pids: 40 } });
  const outcome = await world.start(inGroups(host, plain)).end();
  assert.equal(outcome.reason, "pids");
  assert.match(outcome.detail ?? "", /pids 40: no further process could be made/);
  assert.deepEqual([outcome.survivors, outcome.certain], [[], true]);
  assert.deepEqual(groupsLeft(host), []);
});

test("L3: a group that cannot be made or limited is told of, and the process runs", async (t) => {
  const world = await shimWorld(t);
  const at = { v: 2, dir: join(world.dir, "shim.json", "no") } as const;
  writeFileSync(join(world.dir, "shim.json"), "");
  const job = world.job(["/bin/sh", "-c", "exit 3"], {
    groups: { all: at, memory: at },
    launch: {
      steps: [],
      wrap: [],
      writes: [{ in: "memory", file: "memory.max", value: "5", asked: "memory 5 B" }],
      missing: [],
    },
  });
  const outcome = await world.start(job).end();
  assert.deepEqual([outcome.exit, outcome.certain], [3, false]);
  assert.match(outcome.limits_missing.join(), /control group: ENOTDIR.*so not held: memory 5 B/);
});
