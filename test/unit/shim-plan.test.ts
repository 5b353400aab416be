// The deciding files of the shim: launch plan, environment, job, outcome, what /proc says.

import assert from "node:assert/strict";
import test from "node:test";
import type { ShimJob } from "../../schemas/job.ts";
import { processEnvironment } from "../../shim/env.ts";
import type { GroupFacts } from "../../shim/group.ts";
import { parseJob } from "../../shim/job.ts";
import { type LaunchHost, planLaunch } from "../../shim/launch.ts";
import { makeOutcome, notStarted } from "../../shim/outcome.ts";
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
  limits: { core: 0 },
  bus: { socket: "/s", shim_token: "x" },
};
const USER: LaunchHost = { uid: 1000, hardNofile: 4096, prlimit: "/usr/bin/prlimit" };
const plan = (limits: Partial<ShimJob["limits"]>, host: Partial<LaunchHost> = {}) =>
  planLaunch({ argv: JOB.argv, limits: { core: 0, ...limits } }, { ...USER, ...host });

test("L2: one shell sets the limits and becomes the program; arguments pass as they are", () => {
  assert.deepEqual(plan({ nofile: 1024, cpu_s: 10, fsize: 1025 }), {
    argv: [
      "/bin/sh",
      "-c",
      "ulimit -c 0 2>/dev/null; ulimit -n 1024 2>/dev/null; ulimit -S -t 10 2>/dev/null; ulimit -H -t 15 2>/dev/null; " +
        'ulimit -f 3 2>/dev/null; exec "$@"',
      "busbar",
      "prog",
      "a b",
      "$x",
    ],
    missing: [],
  });
});

test("L2: nproc goes by prlimit, and what cannot be set is said", () => {
  assert.deepEqual(plan({ nproc: 64 }).argv.slice(3), [
    "busbar",
    "/usr/bin/prlimit",
    "--nproc=64:64",
    "--",
    ...JOB.argv,
  ]);
  assert.deepEqual(plan({ nproc: 64 }, { uid: 0 }).missing, ["nproc: 64 asked, root is not held by it"]);
  assert.deepEqual(plan({ nproc: 8 }).missing, ["nproc: 8 asked, below 32 programs hang at start"]);
  assert.deepEqual(plan({ nproc: 64 }, { prlimit: undefined }).missing, [
    "nproc: 64 asked, prlimit is not installed",
  ]);
  assert.deepEqual(plan({ nofile: 9000 }).missing, ["nofile: 9000 asked, the hard limit here is 4096"]);
  assert.match(plan({ nofile: 9000 }).argv[2] ?? "", /ulimit -n 4096 /);
  assert.deepEqual(plan({ nofile: 9000 }, { uid: 0 }).missing, []);
});

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
    { limits: undefined },
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

test("the outcome names a limit only where it was asked for, and redacts what the process could choose", () => {
  const measured = {
    started: "s",
    ended: "e",
    duration_ms: 1.6,
    peak_rss: 1,
    cpu_ms: 2,
    group: {},
    limits_missing: ["x"],
  };
  const log = { bytes: 1, dropped: 2, tail: "t" };
  const ending = {
    ...notStarted("exit", "why"),
    certain: false,
    exit: 152,
    leftovers: [{ pid: 5, command: "run KEY" }],
    survivors: [{ pid: 6, command: "KEY" }],
  };
  const of = (limits: ShimJob["limits"]) =>
    makeOutcome({ ...JOB, limits }, ending, log, measured, (text) => text.replaceAll("KEY", "*"));
  assert.equal(of({ core: 0 }).reason, "exit");
  assert.equal(of({ core: 0 }).detail, "why");
  const limited = of({ core: 0, cpu_s: 3 });
  assert.deepEqual(
    [limited.reason, limited.exit, limited.duration_ms, limited.certain],
    ["limit", 152, 2, false],
  );
  assert.match(limited.detail ?? "", /more than 3 s of CPU/);
  assert.deepEqual(limited.leftovers, [{ pid: 5, command: "run *" }]);
  assert.deepEqual(limited.survivors, [{ pid: 6, command: "*" }]);
});

test("L3: the end names memory or pids only where the kernel counted it and the process itself did not end well", () => {
  const log = { bytes: 0, dropped: 0, tail: "" };
  const of = (exit: number | null, group: GroupFacts, signal: string | null = null) => {
    const measured = {
      started: "s",
      ended: "e",
      duration_ms: 1,
      peak_rss: 1,
      cpu_ms: 2,
      group,
      limits_missing: [],
    };
    const ending = { ...notStarted(signal === null ? "exit" : "signal", ""), exit, signal };
    const limits = { core: 0, memory: 1000, pids: 7 };
    const { reason, detail, memory_kills, peak_rss } = makeOutcome(
      { ...JOB, limits },
      ending,
      log,
      measured,
      (t) => t,
    );
    return { reason, detail, memory_kills, peak_rss };
  };
  const killed = of(null, { memoryKills: 1, memoryPeak: 999 }, "SIGKILL");
  assert.deepEqual([killed.reason, killed.memory_kills, killed.peak_rss], ["memory", 1, 999]);
  assert.match(killed.detail ?? "", /it was killed at the limit of 1000 bytes/);
  assert.match(of(1, { memoryKills: 2 }).detail ?? "", /2 of its processes were killed/);
  // The test runner died, and the agent lived to hear of it.
  assert.deepEqual([of(0, { memoryKills: 2 }).reason, of(0, { memoryKills: 2 }).memory_kills], ["exit", 2]);
  assert.equal(of(null, { memoryKills: 0 }, "SIGKILL").reason, "signal");
  assert.deepEqual([of(2, { pidsHit: true }).reason, of(2, { pidsHit: false }).reason], ["limit", "exit"]);
});

test("L3: the process enters its groups before anything else, and does not run outside", () => {
  const { argv } = planLaunch({ argv: ["a"], limits: { core: 0 } }, USER, ["/g/it's/cgroup.procs"]);
  assert.equal(
    argv[2],
    `echo 0 > '/g/it'\\''s/cgroup.procs' || exit 125; ulimit -c 0 2>/dev/null; exec "$@"`,
  );
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
