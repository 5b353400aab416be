// Faults of the shim itself, and of what it stands on: each recovery branch, reached.

import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { existsSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { test } from "node:test";
import { type Proc, readProc } from "../../shim/proc.ts";
import { Supervision } from "../../shim/process.ts";
import { Tree } from "../../shim/tree.ts";
import { Watch } from "../../shim/watch.ts";
import { shimWorld, type World } from "../helpers/shim-run.ts";
import { carriers, isRunning } from "../helpers/survivors.ts";
import { until } from "../helpers/wait.ts";

/** The shim's program with something put before it. */
function spoil(world: World, code: string): void {
  const program = join(world.dir, "bus-shim.cjs");
  writeFileSync(program, `${code}\n${readFileSync(program, "utf8").replace(/^#!.*\n/, "")}`);
}

test("an exception that nobody caught is said, and the process is not left alone", async (t) => {
  const world = await shimWorld(t);
  spoil(world, 'setTimeout(() => { throw new Error("boom"); }, 300);');
  const run = world.start(world.job(["/bin/sh", "-c", "sleep 1; echo done"]));
  const outcome = await run.end();
  assert.deepEqual([outcome.reason, outcome.exit, run.log()], ["exit", 0, "done\n"]);
  assert.match(run.said(), /a fault of the shim.*boom/);
});

test("a fault of the shim after the start: its tree is ended all the same, and the outcome is reported", async (t) => {
  const world = await shimWorld(t);
  const once = `const fs = require("node:fs"); const list = fs.readdirSync; let left = 1;
    fs.readdirSync = (path, ...rest) => {
      if (path === "/proc" && left-- > 0) throw Object.assign(new Error("too many open files"), { code: "EMFILE" });
      return list(path, ...rest);
    };`;
  spoil(world, once);
  const run = world.start(world.job(["/bin/sh", "-c", "sleep 300 & exit 3"]));
  const outcome = await run.end();
  assert.deepEqual([outcome.reason, outcome.exit], ["exit", 3]);
  assert.match(run.said(), /too many open files/);
  assert.deepEqual(carriers(world.entry), []);
});

test("SIGTERM while the job is still read: cancelled, nothing is started, and it is reported", async (t) => {
  const world = await shimWorld(t);
  const child = spawn(process.execPath, [join(world.dir, "bus-shim.cjs")], {
    stdio: ["pipe", "ignore", "ignore"],
  });
  t.after(() => child.kill("SIGKILL"));
  const SIGHUP_BIT = 1n; // set by the shim, in the same breath as TERM; Node itself catches TERM from its start
  await until("it listens", () => {
    const caught = /^SigCgt:\s*([0-9a-f]+)$/m.exec(readFileSync(`/proc/${child.pid}/status`, "latin1"))?.[1];
    return (BigInt(`0x${caught ?? 0}`) & SIGHUP_BIT) !== 0n;
  });
  child.kill("SIGTERM");
  const job = world.job(["/bin/sh", "-c", 'touch "$W/running"']);
  child.stdin?.end(`${JSON.stringify(job)}\n`);
  const told = await until("the outcome", () => world.bus.of("complete").at(-1)?.params.outcome);
  assert.equal((told as { reason: string }).reason, "cancelled");
  assert.equal(existsSync(join(world.dir, "running")), false);
});

test("S5: a sample sees the deadline when the timer of its own does not come", async (t) => {
  let now = 0;
  const clock = { now: () => 0, monotonic: () => now };
  let timeouts = 0;
  const watch = new Watch(new Tree(process.pid, "NOBODY=1"), clock, {
    timeoutMs: 600_000,
    sampleMs: 20,
    heartbeatMs: 600_000,
    limits: {},
    onLimit: () => {},
    onTimeout: () => {
      timeouts += 1;
    },
    onHeartbeat: () => {},
  });
  t.after(() => watch.stop());
  now = 600_000;
  await until("a sample", () => timeouts > 0);
});

/** A tree of one process, as one look found it. */
const treeOf = (proc: Proc, looks = Number.POSITIVE_INFINITY) =>
  ({
    root: { pid: 2 ** 22 + 1, start: 1 },
    scan: () => (looks-- > 0 ? [proc] : []),
    isGrouped: false,
    members: () => [],
    killGroup: () => {},
    isProvenEmpty: () => false,
    isSandboxEmpty: true,
    polite: (procs: unknown[]) => procs,
  }) as unknown as Tree;

test("case 62 stale-socket-and-pid-reuse: a number that is another process's by now gets no signal", async (t) => {
  const foreign = spawn("sleep", ["60"], { stdio: "ignore", detached: true });
  t.after(() => foreign.kill("SIGKILL"));
  const pid = foreign.pid as number;
  const seen = await until("it runs", () => readProc(pid));
  const older = { ...seen, start: seen.start - 1 };
  for (const root of [2 ** 22 + 1, pid]) {
    const tree = Object.assign(treeOf(older, 3), { root: { pid: root, start: older.start } });
    const supervision = new Supervision(tree, 50, { now: Date.now, monotonic: () => performance.now() });
    supervision.stop("timeout");
    supervision.exited({ code: 0, signal: null });
    await supervision.ended();
    assert.ok(isRunning(pid));
  }
});

test("EPERM: who may not be ended is listed as a survivor, and the shim goes on", async (t) => {
  const foreign = spawn("sleep", ["60"], { stdio: "ignore", detached: true });
  t.after(() => foreign.kill("SIGKILL"));
  const seen = await until("it runs", () => readProc(foreign.pid as number));
  const kill = t.mock.method(process, "kill", () => {
    throw Object.assign(new Error("kill EPERM"), { code: "EPERM" });
  });
  let now = 0;
  const clock = {
    now: Date.now,
    monotonic: () => {
      now += 500;
      return now;
    },
  };
  const supervision = new Supervision(treeOf(seen), 1_000, clock);
  supervision.stop("timeout");
  supervision.exited({ code: null, signal: "SIGKILL" });
  const { survivors, killed_with } = await supervision.ended();
  kill.mock.restore();
  assert.deepEqual([survivors.map((p) => p.pid), killed_with], [[foreign.pid], ["TERM", "KILL"]]);
});
