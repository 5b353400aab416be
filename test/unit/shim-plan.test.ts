// The deciding files of the shim: launch plan, environment, job, outcome, what /proc says.

import assert from "node:assert/strict";
import test from "node:test";
import type { ShimJob } from "../../schemas/job.ts";
import { processEnvironment } from "../../shim/env.ts";
import { parseJob } from "../../shim/job.ts";
import { launchArgv } from "../../shim/launch.ts";
import { killedIn } from "../../shim/oom.ts";
import { type Measured, makeOutcome, notStarted } from "../../shim/outcome.ts";
import { parseStat } from "../../shim/proc.ts";

const JOB: ShimJob = {
  v: 1,
  ref: { run: "r", task: "t", attempt: 2 },
  kind: "agent",
  name: "agent",
  argv: ["prog", "a b", "$x"],
  cwd: "/w",
  dir: "/d",
  files: { log: "l", outbox: "o", done: "s", pid: "p" },
  env: {},
  secrets: [],
  timeout_ms: 1,
  grace_ms: 0,
  limits: {},
  writes_in: "/d",
  launch: { steps: [], wrap: [], writes: [], missing: [] },
  bus: { socket: "/s", shim_token: "x" },
};
test("W4: a UTF-8 locale, PATH and HOME are there; what the job says stands, except for another locale", () => {
  assert.deepEqual(processEnvironment(JOB, "m"), {
    PATH: "/usr/local/bin:/usr/bin:/bin",
    HOME: "/d",
    LANG: "C.UTF-8",
    LC_ALL: "C.UTF-8",
    BUSBAR_ATTEMPT: "r/t#2",
    BUSBAR_MARK: "m",
  });
  const env = { PATH: "/p", HOME: "/h", LC_ALL: "de_DE.utf8", LANG: "C", BUSBAR_SOCKET: "/wrong" };
  const made = processEnvironment({ ...JOB, env, task_socket: "/t/s" }, "m");
  assert.deepEqual(
    [made.PATH, made.HOME, made.LC_ALL, made.LANG, made.BUSBAR_SOCKET],
    ["/p", "/h", "de_DE.utf8", "C.UTF-8", "/t/s"],
  );
});

test("a job is checked before anything is done, and no message repeats a value of it", () => {
  const parse = (over: object) => parseJob(Buffer.from(JSON.stringify({ ...JOB, ...over })));
  assert.deepEqual(parse({}), JOB);
  const bad: object[] = [
    { v: 2 },
    { ref: { run: "../x", task: "t", attempt: 1 } },
    { kind: "SECRET" },
    { argv: [] },
    { argv: ["a", 1] },
    { files: { ...JOB.files, log: "../SECRET" } },
    { env: { A: 1 } },
    { env: undefined },
    { secrets: [{ name: "A" }] },
    { timeout_ms: 0 },
    { launch: undefined },
    { launch: { ...JOB.launch, steps: [1] } },
    { bus: { socket: "/s" } },
    { task_socket: "/t" },
  ];
  for (const over of bad)
    assert.throws(
      () => parse(over),
      (error: Error) => /^reading the job: /.test(error.message) && !/SECRET/.test(error.message),
      JSON.stringify(over),
    );
  assert.throws(() => parseJob(Buffer.from('{"SECRET')), {
    message: "reading the job: standard input holds no JSON line",
  });
  assert.throws(() => parseJob(Buffer.from("null")), { message: /no job of version 1/ });
});

const MEASURED: Measured = {
  started: "s",
  ended: "e",
  duration_ms: 1.6,
  peak_rss: 1,
  cpu_ms: 2,
  group: {},
  killed: [],
  disk: undefined,
  limits_missing: ["x"],
};
const LOG = { bytes: 1, dropped: 2, tail: "t" };

test("the outcome names a limit only where it was asked for, and redacts what the process could choose", () => {
  const ending = {
    ...notStarted("exit", "why"),
    certain: false,
    exit: 152,
    leftovers: [{ pid: 5, command: "run KEY" }],
    survivors: [{ pid: 6, command: "KEY" }],
  };
  const of = (limits: ShimJob["limits"]) =>
    makeOutcome({ ...JOB, limits }, ending, LOG, MEASURED, (text) => text.replaceAll("KEY", "*"));
  assert.equal(of({}).reason, "exit");
  assert.equal(of({}).detail, "why");
  const limited = of({ cpu_s: 3 });
  assert.deepEqual(
    [limited.reason, limited.exit, limited.duration_ms, limited.certain],
    ["cpu", 152, 2, false],
  );
  assert.match(limited.detail ?? "", /cpu 3 s: a process used more/);
  assert.deepEqual(limited.leftovers, [{ pid: 5, command: "run *" }]);
  assert.deepEqual(limited.survivors, [{ pid: 6, command: "*" }]);
  const large = makeOutcome(
    { ...JOB, limits: { fsize: 2048 } },
    { ...ending, exit: null, signal: "SIGXFSZ" },
    LOG,
    MEASURED,
    (text) => text,
  );
  assert.deepEqual(
    [large.reason, large.limit_hits],
    ["fsize", ["fsize 2 KiB: a process wrote a larger file"]],
  );
});

test("L3: the end names memory or pids only where the kernel counted it and the process itself did not end well", () => {
  const of = (exit: number | null, measured: Partial<Measured>, signal: string | null = null) => {
    const ending = { ...notStarted(signal === null ? "exit" : "signal", ""), exit, signal };
    const job = { ...JOB, limits: { memory: 2048, pids: 7 } };
    return makeOutcome(job, ending, LOG, { ...MEASURED, ...measured }, (t) => t.replaceAll("KEY", "*"));
  };
  const killed = of(null, { group: { memoryKills: 1, memoryPeak: 1999 } }, "SIGKILL");
  assert.deepEqual([killed.reason, killed.memory_kills, killed.peak_rss], ["memory", 1, 1999]);
  assert.equal(killed.detail, "memory 2 KiB for all together: the kernel killed it; at most 2 KiB were held");
  const guessed = of(1, {
    group: { memoryKills: 2 },
    largest: { pid: 5, rss: 1024, command: "node KEY" },
  });
  assert.match(
    guessed.detail ?? "",
    /killed 2 of its processes, of which the largest seen was node \* \(1 KiB\)$/,
  );
  const named = of(1, { group: { memoryKills: 1 }, killed: [{ pid: 5, name: "node", rss: 1024 }] });
  assert.match(named.detail ?? "", /the kernel killed node \(pid 5, 1 KiB\)$/);
  // The test runner died, and the agent lived to hear of it.
  const lived = of(0, { group: { memoryKills: 2 } });
  assert.deepEqual([lived.reason, lived.memory_kills, lived.limit_hits?.length], ["exit", 2, 1]);
  assert.equal(of(null, { group: { memoryKills: 0 } }, "SIGKILL").reason, "signal");
  assert.deepEqual(
    [of(2, { group: { pidsHit: true } }).reason, of(2, { group: { pidsHit: false } }).reason],
    ["pids", "exit"],
  );
});

test("L3: whom the kernel killed is read from its log by the name of the group; another group's dead are not ours", () => {
  const chosen = (group: string, pid: number) =>
    `6,1,9,-;oom-kill:constraint=CONSTRAINT_MEMCG,nodemask=(null),oom_memcg=/b/${group},task_memcg=/b/${group},task=node,pid=${pid},uid=0`;
  const dead = (pid: number, name: string) =>
    `3,2,9,-;Memory cgroup out of memory: Killed process ${pid} (${name}) total-vm:108kB, anon-rss:97152kB, file-rss:3kB`;
  const log = [
    chosen("other", 4),
    dead(4, "a"),
    "6,1,9,-;x",
    chosen("mine", 5),
    dead(6, "b"),
    dead(5, "no) de"),
  ];
  assert.deepEqual(killedIn(log, ["mine", "x"]), [{ pid: 5, name: "no) de", rss: 97152 * 1024 }]);
  assert.deepEqual(killedIn(log, []), []);
});

test("L2, L3: one shell enters the groups, sets the limits and becomes the program; arguments pass as they are", () => {
  const launch = { ...JOB.launch, steps: ["ulimit -c 0", "ulimit -n 64"], wrap: ["prlimit", "--"] };
  assert.deepEqual(launchArgv({ ...JOB, launch }, ["/g/it's/cgroup.procs"]), [
    "/bin/sh",
    "-c",
    "echo 0 > '/g/it'\\''s/cgroup.procs' || exit 125; ulimit -c 0 2>/dev/null; ulimit -n 64 2>/dev/null; exec \"$@\"",
    "busbar",
    "prlimit",
    "--",
    "prog",
    "a b",
    "$x",
  ]);
});

test("/proc/PID/stat: a command with brackets and spaces does not move the fields", () => {
  const rest = "Z 10 20 30 0 -1 0 0 0 0 0 1 2 3 4 20 0 1 0 777 1000 55 18446744073709551615";
  const proc = parseStat(42, `42 (a) R 1 (b) ${rest}`);
  assert.deepEqual(proc, {
    pid: 42,
    ppid: 10,
    pgrp: 20,
    sid: 30,
    start: 777,
    dead: true,
    cpuMs: 100,
    childCpuMs: 70,
    rssPages: 55,
  });
  assert.equal(parseStat(1, ""), undefined);
});
