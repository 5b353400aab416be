// The shim on ordinary programs: exit codes, output, environment, files, exactly as its contract says.

import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { existsSync, readFileSync, statSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import test from "node:test";
import { type ShimRun, shimBundle, shimWorld } from "../helpers/shim-run.ts";
import { until } from "../helpers/wait.ts";

const sh = (line: string) => ["/bin/sh", "-c", line];
const pidFile = (run: ShimRun) => JSON.parse(readFileSync(join(run.job.dir, "shim.json"), "utf8"));

test("registers before the process starts, reports its end, and leaves the files in order", async (t) => {
  const world = await shimWorld(t);
  const run = world.start(
    world.job(sh('test -f "$W/a/shim.json" && echo hello; printf "last line"; exit 3')),
  );
  const outcome = await run.end();
  assert.equal(await run.exited, 0);
  assert.deepEqual(
    world.bus.calls.map((c) => c.method).filter((m) => m !== "heartbeat"),
    ["hello", "register", "complete"],
  );
  const { reason, exit, signal, leftovers, survivors, killed_with } = outcome;
  assert.deepEqual(
    { reason, exit, signal, leftovers, survivors, killed_with },
    { reason: "exit", exit: 3, signal: null, leftovers: [], survivors: [], killed_with: [] },
  );
  assert.equal(run.log(), "hello\nlast line");
  assert.equal(outcome.log_tail, "hello\nlast line");
  assert.equal(outcome.log_bytes, 15);
  assert.deepEqual(run.outbox(), outcome);
  assert.ok(run.exists("outbox.json.ack"));
  const done = JSON.parse(readFileSync(join(run.job.dir, "status.done"), "utf8"));
  assert.deepEqual(done, { v: 1, reason: "exit", exit: 3, signal: null, ended: outcome.ended });
  for (const file of ["agent.log", "outbox.json", "shim.json", "status.done"])
    assert.equal(statSync(join(run.job.dir, file)).mode & 0o777, 0o600, file);
  const self = pidFile(run);
  assert.equal(self.pid, run.child.pid);
  const registered = world.bus.of("register")[0]?.params;
  assert.deepEqual(registered, { kind: "agent", name: "agent", pid: self.pid, start_time: self.start_time });
});

test("/dev/stdout, /dev/stderr and standard input work as programs expect", async (t) => {
  const world = await shimWorld(t);
  const run = world.start(
    world.job(sh("echo one > /dev/stdout; echo two > /dev/stderr; cat; echo three >&2")),
  );
  assert.equal((await run.end()).exit, 0);
  assert.equal(run.log(), "one\ntwo\nthree\n");
});

test("W4: the environment is the job's and nothing of the shim's; the locale is UTF-8", async (t) => {
  const world = await shimWorld(t);
  const run = world.start(world.job(sh("env"), { env: { LC_ALL: "POSIX", A: "1" } }));
  await run.end();
  const env = new Map(
    run
      .log()
      .trim()
      .split("\n")
      .map((l) => l.split(/=(.*)/s) as [string, string]),
  );
  for (const own of ["PWD", "OLDPWD", "SHLVL", "_"]) env.delete(own); // the shell's own
  const { BUSBAR_MARK: mark, ...rest } = Object.fromEntries(env);
  assert.match(mark ?? "", /^[0-9a-f]{32}$/);
  assert.deepEqual(rest, {
    PATH: process.env.PATH,
    HOME: run.job.dir,
    LC_ALL: "C.UTF-8",
    LANG: "C.UTF-8",
    A: "1",
    W: world.dir,
    BB_TEST_WORLD: world.entry.split("=")[1],
    BUSBAR_ATTEMPT: "r/t#1",
  });
});

test("a process ended by a signal says which", async (t) => {
  const world = await shimWorld(t);
  const outcome = await world.start(world.job(sh("kill -SEGV $$"))).end();
  assert.deepEqual([outcome.reason, outcome.exit, outcome.signal], ["signal", null, "SIGSEGV"]);
});

for (const [what, argv, cwd, detail] of [
  ["no such program", ["busbar-no-such-program"], undefined, /there is no program busbar-no-such-program/],
  ["a file that is not executable", ["/etc/passwd"], undefined, /\/etc\/passwd is not executable/],
  ["no such directory", ["/bin/true"], "/nowhere/at/all", /\/nowhere\/at\/all does not exist/],
] as const)
  test(`${what} is spawn_failed, with the reason`, async (t) => {
    const world = await shimWorld(t);
    const run = world.start(world.job([...argv], cwd ? { cwd } : {}));
    const outcome = await run.end();
    assert.equal(outcome.reason, "spawn_failed");
    assert.match(outcome.detail ?? "", detail);
    assert.ok(existsSync(join(run.job.dir, "status.done")));
  });

test("L2: open files are limited, soft and hard alike; a CPU limit is named as the reason", async (t) => {
  const world = await shimWorld(t);
  const limits = { nofile: 100, cpu_s: 1 };
  const run = world.start(
    world.job(sh("ulimit -Sn; ulimit -Hn; ulimit -c; while :; do :; done"), { limits }),
  );
  const outcome = await run.end();
  assert.equal(run.log(), "100\n100\n0\n");
  assert.equal(outcome.reason, "cpu");
  assert.match(outcome.detail ?? "", /cpu 1 s: a process used more/);
  assert.ok(outcome.cpu_ms >= 500, `cpu_ms ${outcome.cpu_ms}`);
});

test("L2: CPU time of a whole tree, looked at by every sample, ends it although none of its processes used much", async (t) => {
  const world = await shimWorld(t);
  const limits = { cpu_total_s: 1 };
  const burn = "n=0; while [ $n -lt 400 ]; do sh -c 'i=0; while [ $i -lt 20000 ]; do i=$((i+1)); done'; done";
  const outcome = await world.start(world.job(sh(`${burn} & ${burn} & wait`), { limits })).end();
  assert.equal(outcome.reason, "cpu");
  assert.match(outcome.detail ?? "", /^cpu_total 1 s: its processes used \d+\.\d s$/);
  assert.deepEqual(outcome.survivors, []);
});

test("L2: a file larger than it may be ends its writer, and is the reason", async (t) => {
  const world = await shimWorld(t);
  const line = "exec head -c 100000 /dev/zero > big";
  const outcome = await world.start(world.job(sh(line), { limits: { fsize: 4096 } })).end();
  assert.deepEqual([outcome.reason, outcome.signal], ["fsize", "SIGXFSZ"]);
  assert.deepEqual(outcome.limit_hits, ["fsize 4 KiB: a process wrote a larger file"]);
  assert.equal(statSync(join(world.dir, "work", "big")).size, 4096);
});

test("issue 4.1: who writes more than it may is ended, and told how much and where", async (t) => {
  const world = await shimWorld(t);
  const limits = { disk: 4 << 20 };
  const fill = "mkdir -p sub && head -c 20000000 /dev/zero > sub/big";
  const slow = world.job(sh(`${fill}; exec sleep 300`), { limits, timeout_ms: 120_000 });
  const ended = await world.start(slow).end(90_000);
  assert.equal(ended.reason, "disk");
  assert.match(
    ended.detail ?? "",
    /^disk 4 MiB: it wrote \d+\.?\d* MiB or more, most of it in work\/sub\/big \(/,
  );
  assert.deepEqual([ended.survivors, ended.limit_hits?.length], [[], 1]);
});

test("heartbeats carry the use of the whole tree", async (t) => {
  const world = await shimWorld(t);
  const run = world.start(world.job(sh("sleep 1.5 & sleep 1.5 & wait")));
  const outcome = await run.end();
  const usages = world.bus.of("heartbeat").map((c) => c.params.usage as { processes: number; rss: number });
  assert.ok(
    usages.some((u) => u.processes === 3 && u.rss > 0),
    JSON.stringify(usages),
  );
  assert.ok(outcome.peak_rss > 0);
});

test("performance E: the program needs nothing but a few modules of Node, and little memory of its own", async (t) => {
  const used = new Set(
    [
      ...shimBundle()
        .toString()
        .matchAll(/require\("([^"]+)"\)/g),
    ].map((m) => m[1]),
  );
  const allowed = ["buffer", "child_process", "fs", "net", "path"].map((name) => `node:${name}`);
  assert.deepEqual(
    [...used].filter((name) => !allowed.includes(name ?? "")),
    [],
  );
  const world = await shimWorld(t);
  const run = world.start(world.job(sh('while ! [ -e "$W/go" ]; do sleep 0.05; done')));
  await until("some heartbeats", () => world.bus.of("heartbeat").length > 3);
  const bare = spawn(process.execPath, ["-e", "require('net').createServer().listen(process.env.S)"], {
    env: { S: join(world.dir, "bare.sock") },
    stdio: "ignore",
  });
  t.after(() => bare.kill("SIGKILL"));
  await until("the bare program", () => existsSync(join(world.dir, "bare.sock")));
  const own = anonymousKb(run.child.pid);
  const floor = anonymousKb(bare.pid);
  t.diagnostic(`own memory ${own} kB, of a bare Node with net ${floor} kB`);
  assert.ok(own < floor + 2_500, `${own} kB against ${floor} kB`);
  writeFileSync(join(world.dir, "go"), "");
  await run.end();
});

function anonymousKb(pid: number | undefined): number {
  return Number(/^Anonymous:\s+(\d+)/m.exec(readFileSync(`/proc/${pid}/smaps_rollup`, "latin1"))?.[1]);
}
