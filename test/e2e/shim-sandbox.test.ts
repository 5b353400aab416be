// The shim round a process in a sandbox (shim/sandbox.ts): ends, signals and what is left are told as without one.

import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { join } from "node:path";
import test from "node:test";
import type { ShimJob } from "../../schemas/job.ts";
import { hasSandbox } from "../helpers/sandbox.ts";
import { shimWorld, type World } from "../helpers/shim-run.ts";
import { isRunning } from "../helpers/survivors.ts";
import { until } from "../helpers/wait.ts";

/** All of the machine as it is, and namespaces of its own: what is seen inside is scheduler/sandbox.ts's. */
const ARGV = [
  ["/usr/bin/bwrap", "--die-with-parent", "--new-session", "--unshare-user", "--unshare-pid"],
  ["--cap-drop", "ALL", "--bind", "/", "/", "--proc", "/proc", "--dev", "/dev"],
].flat();

function inside(world: World, script: string, over: Partial<ShimJob> = {}): ShimJob {
  const sandbox = { argv: ARGV, said: "bubblewrap" };
  return world.job(["/bin/sh", "-c", script], { sandbox, ...over });
}

test("L4: exit code and signal come through the sandbox; output works; no descriptor of ours is inside", async (t) => {
  if (!hasSandbox(t)) return;
  const world = await shimWorld(t);
  const ended = async (script: string) => {
    const run = world.start(inside(world, script));
    return { ...(await run.end()), log: run.log() };
  };
  const seven = await ended("echo out; echo err > /dev/stderr; [ -e /proc/self/fd/3 ] && echo open; exit 7");
  assert.deepEqual(
    [seven.reason, seven.exit, seven.signal, seven.certain, seven.sandbox, seven.log],
    ["exit", 7, null, true, "bubblewrap", "out\nerr\n"],
  );
  const killed = await ended("kill -SEGV $$");
  assert.deepEqual([killed.reason, killed.exit, killed.signal], ["signal", null, "SIGSEGV"]);
  const fine = await ended("true");
  assert.deepEqual([fine.exit, fine.leftovers, fine.survivors, fine.killed_with], [0, [], [], []]);
});

test("L1, case 71: whoever hides inside the sandbox ends with it, and that is certain", async (t) => {
  if (!hasSandbox(t)) return;
  const world = await shimWorld(t);
  const hides = `(setsid env -i sh -c 'echo up > "${world.dir}/up"; exec sleep 300' >/dev/null 2>&1 </dev/null &)`;
  const script = `${hides}; until [ -s "${world.dir}/up" ]; do sleep 0.02; done; exit 3`;
  const outcome = await world.start(inside(world, script)).end();
  assert.deepEqual([outcome.exit, outcome.certain, outcome.leftovers, outcome.survivors], [3, true, [], []]);
});

test("S5: a polite stop goes to the agent in the sandbox, not to bubblewrap; a deaf one is killed", async (t) => {
  if (!hasSandbox(t)) return;
  const world = await shimWorld(t);
  const stopped = async (name: string, trap: string) => {
    const script = `trap '${trap}' TERM; echo ${name}; while :; do sleep 0.05; done`;
    const run = world.start(inside(world, script, { grace_ms: trap === "" ? 300 : 30_000 }));
    await until("it is up", () => run.exists("agent.log") && run.log().includes(name));
    run.child.kill("SIGTERM");
    return run.end();
  };
  const polite = await stopped("kind", "echo heard; exit 5");
  assert.deepEqual([polite.reason, polite.exit, polite.killed_with], ["cancelled", 5, ["TERM"]]);
  assert.match(polite.log_tail, /heard/);
  const deaf = await stopped("deaf", "");
  assert.deepEqual(
    [deaf.reason, deaf.signal, deaf.killed_with, deaf.certain],
    ["cancelled", "SIGKILL", ["TERM", "KILL"], true],
  );
});

test("L4: a sandbox that cannot be made is no fault of the task, and bubblewrap's words are told", async (t) => {
  if (!hasSandbox(t)) return;
  const world = await shimWorld(t);
  const bad = { argv: [...ARGV, "--ro-bind", "/no/such/place", "/mnt"], said: "bubblewrap" };
  const outcome = await world.start(inside(world, "touch $W/ran", { sandbox: bad })).end();
  assert.deepEqual([outcome.reason, outcome.exit, outcome.sandbox], ["spawn_failed", null, undefined]);
  assert.match(outcome.detail ?? "", /could not make the sandbox.*bwrap: .*\/no\/such\/place/);
  const none = { argv: ["/no/bwrap"], said: "bubblewrap" };
  const absent = await world.start(inside(world, "true", { sandbox: none })).end();
  assert.deepEqual([absent.reason, absent.detail], ["spawn_failed", "there is no program /no/bwrap"]);
});

test("case 71: with the shim, all in the sandbox dies", async (t) => {
  if (!hasSandbox(t)) return;
  const world = await shimWorld(t);
  const run = world.start(inside(world, "echo up; exec sleep 300"));
  await until("it is up", () => run.exists("agent.log") && run.log().includes("up"));
  const { child } = await until("the child is noted", () => {
    const file = JSON.parse(readFileSync(join(run.job.dir, "shim.json"), "utf8"));
    return file.child && (file as { child: { pid: number } });
  });
  run.child.kill("SIGKILL");
  await until("bubblewrap is gone", () => !isRunning(child.pid));
});
