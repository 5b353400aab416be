// busctl and the programs behind it: up and down, races, a holder that is stopped, a bus that is killed.

import assert from "node:assert/strict";
import { spawn, spawnSync } from "node:child_process";
import { existsSync, mkdirSync, readdirSync, statSync, symlinkSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { test } from "node:test";
import { startTimeOf } from "../../bus/client/identity.ts";
import { runningScheduler } from "../../bus/client/running.ts";
import { processesOf } from "../helpers/processes.ts";
import { until } from "../helpers/wait.ts";
import { makeWorld } from "../helpers/world.ts";

const alive = (pid: number) => startTimeOf(pid) !== "";

test("case 62 stale-socket: nothing runs: said within 2 s, exit 3, nothing started; up works; down ends both", async (t) => {
  const w = makeWorld(t);
  const before = await w.busctl(["tasks"]);
  assert.equal(before.code, 3);
  assert.match(before.err, /not running/);
  assert.ok(before.ms < 20_000, `${before.ms} ms`);
  assert.equal(existsSync(join(w.repo, ".git/busbar/endpoint.json")), false);
  const json = await w.busctl(["tasks", "--json"]);
  assert.equal(JSON.parse(json.err).error.code, "BUS_AWAY");

  const up = await w.busctl(["up", "--json"]);
  assert.equal(up.code, 0, up.err);
  const facts = JSON.parse(up.out);
  assert.deepEqual(facts.started, ["bus", "scheduler"]);
  assert.equal(typeof facts.sandbox.works, "boolean");
  assert.equal(statSync(facts.socket).mode & 0o777, 0o600);
  assert.match((await w.busctl(["up"])).out, /already running, pid \d+/);

  const down = await w.busctl(["down", "--json"]);
  const said = JSON.parse(down.out);
  assert.deepEqual(
    [said.down, said.was_running, said.ended, said.survivors],
    [true, true, ["bus", "scheduler"], []],
  );
  assert.equal(alive(facts.pid), false);
  assert.equal((await w.busctl(["tasks"])).code, 3);
  assert.equal((await w.busctl(["down"])).code, 0);
});

test("case 63 two-daemons: 20 at once from repository, sub-directory, link and linked worktree: one bus, one scheduler, the losers exit 0", async (t) => {
  const w = makeWorld(t);
  mkdirSync(join(w.repo, "sub"));
  symlinkSync(w.repo, join(w.W, "link"));
  w.git("worktree", "add", "-q", "--detach", "../side");
  const places = ["repo", "repo/sub", "link", "side"];
  const all = await Promise.all(
    Array.from({ length: 20 }, (_, i) =>
      w.busctl(["up", "--json"], { cwd: join(w.W, places[i % places.length] ?? "repo") }),
    ),
  );
  assert.deepEqual(
    all.map((one) => one.code),
    all.map(() => 0),
    all.map((one) => one.err).join(""),
  );
  const said = all.map((one) => JSON.parse(one.out));
  assert.equal(new Set(said.map((one) => one.pid)).size, 1);
  for (const program of ["bus", "scheduler"])
    assert.equal(said.filter((one) => one.started.includes(program)).length, 1, program);
  const left = () => processesOf(w.W).map((one) => /(busd|scheduler\/main)\.js/.exec(one.command)?.[1]);
  await until("the losers are gone", () => left().length === 2);
  assert.deepEqual(left().sort(), ["busd", "scheduler/main"]);
});

test("case 63 two-daemons: a stopped bus is named by its pid and never replaced; afterwards all goes on", async (t) => {
  const w = makeWorld(t);
  const { pid } = JSON.parse((await w.busctl(["up", "--json"])).out);
  process.kill(pid, "SIGSTOP");
  t.after(() => {
    if (alive(pid)) process.kill(pid, "SIGCONT");
  });
  const plan = w.plan([{ id: "a", command: "echo a > a.txt" }]);
  const [tasks, up, run] = await Promise.all([
    w.busctl(["tasks"]),
    w.busctl(["up"]),
    w.busctl(["run", plan]),
  ]);
  process.kill(pid, "SIGCONT");
  for (const one of [tasks, up, run]) {
    assert.equal(one.code, 3, one.err);
    assert.match(one.err, new RegExp(`not answering, pid ${pid} holds the lock of .*; it is stopped`));
  }
  const after = await w.run([{ id: "a", command: "echo a > a.txt" }]);
  assert.equal(after.code, 0, after.err);
  assert.equal(JSON.parse((await w.busctl(["up", "--json"])).out).pid, pid);
});

test("case 63 two-daemons: lock and socket removed by hand: the second start works, the first ends and takes nothing with it", async (t) => {
  const w = makeWorld(t);
  const { pid: first, socket } = JSON.parse((await w.busctl(["up", "--json"])).out);
  w.sh(`rm repo/.git/busbar/lock ${socket}`);
  const up = await w.busctl(["up", "--json"]);
  assert.equal(up.code, 0, up.err);
  const { pid: second } = JSON.parse(up.out);
  assert.notEqual(second, first);
  if (alive(first)) process.kill(first, "SIGTERM");
  await until("the first is gone", () => !alive(first));
  assert.ok(existsSync(socket));
  assert.equal(w.endpoint().pid, second);
  const ran = await w.run([{ id: "a", command: "echo a > a.txt" }]);
  assert.equal(ran.code, 0, ran.err);
  // A child between fork and exec still has its parent's name.
  const programs = () =>
    processesOf(w.W).flatMap((one) => /(busd|scheduler\/main)\.js/.exec(one.command)?.[1] ?? []);
  await until("one bus and one scheduler run", () => programs().sort().join() === "busd,scheduler/main");
});

test("case 62 stale-socket: an endpoint of a crash, a rebooted machine or a madman: not running, nobody is signalled, up and down work", async (t) => {
  const w = makeWorld(t);
  const { socket } = JSON.parse((await w.busctl(["up", "--json"])).out);
  const real = w.endpoint();
  assert.equal((await w.busctl(["down"])).code, 0);
  const innocent = spawn("sleep", ["300"], { stdio: "ignore" });
  t.after(() => innocent.kill("SIGKILL"));
  const pid = innocent.pid ?? 0;
  const texts = [
    "",
    "abc",
    ...[
      { pid: 1 },
      { pid: -1 },
      { pid, start_time: "1" },
      { pid, start_time: startTimeOf(pid), boot_id: "of another boot" },
    ].map((lie) => JSON.stringify({ ...real, ...lie })),
  ];
  const listen =
    'require("net").createServer().listen(process.argv[1],()=>process.kill(process.pid,"SIGKILL"))';
  for (const text of texts) {
    spawnSync(process.execPath, ["-e", listen, socket]);
    assert.ok(existsSync(socket), "a dead socket lies there");
    writeFileSync(join(w.repo, ".git/busbar/endpoint.json"), text);
    const tasks = await w.busctl(["tasks"]);
    assert.equal(tasks.code, 3);
    assert.match(tasks.err, /^busctl: not running/);
    assert.match((await w.busctl(["down"])).out, /^not running/);
  }
  const up = await w.busctl(["up", "--json"]);
  assert.equal(up.code, 0, up.err);
  assert.equal(statSync(socket).mode & 0o777, 0o600);
  assert.equal((await w.busctl(["down"])).code, 0);
  assert.equal(alive(pid), true);
});

test("case 64 socket-path-too-long: a runtime directory too deep is refused with the length; else it is found", async (t) => {
  const w = makeWorld(t);
  const deep = join(w.W, "d".repeat(90));
  const refused = await w.busctl(["up"], { env: { BUSBAR_RUNTIME_DIR: deep } });
  assert.equal(refused.code, 3);
  assert.match(refused.err, /socket path is \d+ bytes, limit 107/);
  assert.deepEqual(
    readdirSync(w.W).filter((name) => name.startsWith("ddd")),
    [],
  );
  assert.equal((await w.busctl(["up"])).code, 0);
  const other = await w.busctl(["tasks"], {
    env: { BUSBAR_RUNTIME_DIR: "/tmp", HOME: "/", XDG_STATE_HOME: "/x" },
  });
  assert.equal(other.code, 0, other.err);
});

test("O8: the bus is killed during a run: busctl starts it again, the run ends green, the agent ran once", async (t) => {
  const w = makeWorld(t);
  const agent = w.agent(
    "slow",
    `echo x >> ${w.W}/runs; until test -e ${w.W}/go; do sleep 0.1; done; echo a > a.txt`,
  );
  const run = w.start(["run", w.plan([{ id: "a", command: agent }])]);
  await until("the agent runs", () => existsSync(join(w.W, "runs")));
  const { pid } = w.endpoint();
  process.kill(pid, "SIGKILL");
  await until("another bus answers", () => w.endpoint().pid !== pid);
  w.sh("touch go");
  const end = await run.ended;
  assert.equal(end.code, 0, end.out + end.err);
  assert.equal(w.sh("wc -l < runs").trim(), "1");
});

test("O8: the scheduler is killed during a run: busctl starts another, the run ends green", async (t) => {
  const w = makeWorld(t);
  const agent = w.agent(
    "slow",
    `echo x >> ${w.W}/runs; until test -e ${w.W}/go; do sleep 0.1; done; echo a > a.txt`,
  );
  const run = w.start(["run", w.plan([{ id: "a", command: agent }])]);
  await until("the agent runs", () => existsSync(join(w.W, "runs")));
  const workers = async () =>
    (await w.audit({ method: "register_worker", kind: "event" })).flatMap((one) =>
      one.event?.type === "worker.registered" ? [one.event.pid] : [],
    );
  const [first = 0] = await workers();
  assert.ok(first > 1);
  process.kill(first, "SIGKILL");
  await until("another scheduler is registered", async () => (await workers()).length > 1);
  w.sh("touch go");
  const end = await run.ended;
  assert.equal(end.code, 0, end.out + end.err);
  assert.equal(w.sh("wc -l < runs").trim(), "1");
});

test("O8: bus or scheduler killed with -9 while they come up: run starts them again and ends green", async (t) => {
  const w = makeWorld(t);
  const run = w.start(["run", w.plan([{ id: "a", command: "echo a > a.txt" }])]);
  for (const name of ["busd.js", "scheduler/main.js"]) {
    const found = await until(
      `${name} comes up`,
      () => processesOf(w.W).find((one) => one.command.includes(name)),
      30_000,
    );
    process.kill(found.pid, "SIGKILL");
  }
  const end = await run.ended;
  assert.equal(end.code, 0, end.out + end.err);
  assert.equal(w.git("show", "busbar/r:a.txt"), "a");
});

test("a stopped scheduler whose bus died is named by its pid, neither killed nor doubled; after CONT it comes back", async (t) => {
  const w = makeWorld(t);
  const { pid, state_dir } = JSON.parse((await w.busctl(["up", "--json"])).out);
  const scheduler = runningScheduler(state_dir)?.pid ?? 0;
  process.kill(scheduler, "SIGSTOP");
  t.after(() => alive(scheduler) && process.kill(scheduler, "SIGCONT"));
  process.kill(pid, "SIGKILL");
  const up = await w.busctl(["up", "--json"]);
  assert.equal(up.code, 3, up.out);
  const { error } = JSON.parse(up.err);
  assert.equal(error.code, "SCHEDULER_NOT_ANSWERING");
  assert.equal(error.pid, scheduler);
  assert.match(error.help, new RegExp(`kill -CONT ${scheduler}`));
  const schedulers = () => processesOf(w.W).filter((one) => one.command.includes("scheduler/main.js"));
  assert.deepEqual(
    schedulers().map((one) => one.pid),
    [scheduler],
  );
  process.kill(scheduler, "SIGCONT");
  const again = await w.busctl(["up", "--json"]);
  assert.deepEqual(JSON.parse(again.out).started, [], again.err);
  assert.deepEqual(
    schedulers().map((one) => one.pid),
    [scheduler],
  );
});
