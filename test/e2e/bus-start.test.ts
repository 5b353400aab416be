// The real busd: start, takeover, one only, end (cases 62 stale-socket, 63 two-daemons, 64 socket-path-too-long; B1, B7).

import assert from "node:assert/strict";
import { spawn, spawnSync } from "node:child_process";
import {
  cpSync,
  existsSync,
  lstatSync,
  mkdirSync,
  readdirSync,
  renameSync,
  rmSync,
  statSync,
  symlinkSync,
  writeFileSync,
} from "node:fs";
import { dirname, join } from "node:path";
import { type TestContext, test } from "node:test";
import { findBus } from "../../bus/client/find.ts";
import { busPaths, readEndpoint } from "../../bus/paths.ts";
import { personOf, startBusd } from "../helpers/busd.ts";
import { GitRepo } from "../helpers/git-repo.ts";
import { tempDir } from "../helpers/temp.ts";
import { until } from "../helpers/wait.ts";

const uid = process.getuid?.() ?? 0;

function bench(t: TestContext, at = "repo") {
  const dir = tempDir(t, "busd");
  const repo = new GitRepo(join(dir, at));
  repo.write("f.txt", "base\n");
  repo.commit();
  const env = { HOME: dir, BUSBAR_STATE_DIR: join(dir, "state"), BUSBAR_RUNTIME_DIR: join(dir, "run") };
  return { dir, repo, common: repo.common, paths: busPaths(repo.common, env, uid) };
}

const READY_MS = 60_000; // tsx on a busy machine
const ready = (daemon: ReturnType<typeof startBusd>) =>
  until(
    "the bus is ready",
    () => Promise.race([daemon.ready, daemon.ended.then((e) => Promise.reject(new Error(e.stderr)))]),
    READY_MS,
  );

test("case 62 stale-socket: a dead socket and a reused pid hinder nobody; nothing is killed; the end leaves nothing", async (t) => {
  const { dir, common, paths } = bench(t);
  const innocent = spawn("sleep", ["300"], { stdio: "ignore" });
  t.after(() => innocent.kill());
  for (const made of [paths.runtime, dirname(paths.endpoint)])
    mkdirSync(made, { recursive: true, mode: 0o700 });
  const listen =
    'require("net").createServer().listen(process.argv[1],()=>process.kill(process.pid,"SIGKILL"))';
  spawnSync(process.execPath, ["-e", listen, paths.socket]);
  const old = {
    v: 1,
    socket: paths.socket,
    state_dir: "/s",
    runtime_dir: "/r",
    pid: innocent.pid,
    start_time: "1",
    boot_id: "x",
  };
  writeFileSync(paths.endpoint, JSON.stringify(old));
  const before = await findBus(common);
  assert.deepEqual([before.state, before.pid], ["dead", undefined]);

  const daemon = startBusd(t, common, dir);
  assert.equal(await ready(daemon), paths.socket);
  assert.equal(lstatSync(paths.socket).mode & 0o777, 0o600);
  assert.equal(statSync(paths.runtime).mode & 0o777, 0o700);
  const found = await findBus(common);
  assert.deepEqual([found.state, found.ping?.pid], ["alive", daemon.child.pid]);
  daemon.child.kill("SIGTERM");
  assert.equal((await daemon.ended).exit, 0);
  assert.equal(innocent.exitCode, null);
  assert.ok(!existsSync(paths.socket) && !existsSync(paths.endpoint));
  assert.equal((await findBus(common)).state, "dead");
});

test("case 62 stale-socket: a file, directory or link at the socket's path stays, and the start says so", async (t) => {
  const { dir, common, paths } = bench(t);
  mkdirSync(paths.runtime, { recursive: true, mode: 0o700 });
  const put = [
    () => writeFileSync(paths.socket, "mine"),
    () => mkdirSync(paths.socket),
    () => symlinkSync("/nowhere", paths.socket),
  ];
  for (const make of put) {
    make();
    const { exit, stderr } = await startBusd(t, common, dir).ended;
    assert.equal(exit, 1);
    assert.match(stderr, /SOCKET_OBSTRUCTED: .*bus\.sock/);
    assert.ok(lstatSync(paths.socket));
    rmSync(paths.socket, { recursive: true });
  }
  assert.equal((await findBus(common)).state, "dead");
});

test("case 63 two-daemons: of four started at once from four paths one lives; the losers say who runs", async (t) => {
  const { dir, repo, common } = bench(t);
  symlinkSync(repo.dir, join(dir, "repo-link"));
  repo.git("worktree", "add", "-q", "-b", "side", "../side");
  const ways = [
    common,
    join(dir, "repo-link/.git"),
    repo.git("-C", "../side", "rev-parse", "--git-common-dir"),
    common,
  ];
  const daemons = ways.map((way) => startBusd(t, way, dir));
  const sockets = await Promise.all(daemons.map((daemon) => daemon.ready));
  assert.equal(sockets.filter((socket) => socket !== undefined).length, 1);
  for (const [i, daemon] of daemons.entries()) {
    if (sockets[i] !== undefined) continue;
    const { exit, stderr } = await daemon.ended;
    // On a busy machine the one that lives may not have an answer yet; who it is is known all the same.
    assert.ok(exit === 3 || exit === 4, stderr);
    assert.match(stderr, /(ALREADY_RUNNING|BUS_NOT_ANSWERING): .*pid \d+/);
  }
});

test("case 63 two-daemons: a stopped one is `not answering, pid N holds the lock`, and goes on after CONT", async (t) => {
  const { dir, common } = bench(t);
  const first = startBusd(t, common, dir);
  await ready(first);
  first.child.kill("SIGSTOP");
  const found = await findBus(common, 300);
  assert.deepEqual([found.state, found.pid], ["unknown", first.child.pid]);
  const second = await startBusd(t, common, dir).ended;
  assert.equal(second.exit, 4);
  assert.match(
    second.stderr,
    new RegExp(`BUS_NOT_ANSWERING: not answering, pid ${first.child.pid} holds the lock`),
  );
  first.child.kill("SIGCONT");
  await (await personOf(t, common)).call("ping", {});
});

test("case 63 two-daemons: locks and socket taken away by hand: the first ends and never removes the second's", async (t) => {
  const { dir, common, paths } = bench(t);
  const first = startBusd(t, common, dir);
  await ready(first);
  first.child.kill("SIGSTOP"); // so that it cannot notice before the second is there
  for (const taken of [paths.lock, paths.stateLock, paths.socket]) rmSync(taken);
  const second = startBusd(t, common, dir);
  await ready(second);
  first.child.kill("SIGCONT");
  assert.equal((await first.ended).exit, 0);
  const found = await findBus(common);
  assert.deepEqual([found.state, found.ping?.pid], ["alive", second.child.pid]);
  assert.equal(readEndpoint(paths.endpoint)?.pid, second.child.pid);
});

test("case 63 two-daemons: another repository in the place of a moved one: its bus waits for the end of the first, and never shares a state", async (t) => {
  const { dir, repo, common, paths } = bench(t);
  const first = startBusd(t, common, dir);
  await ready(first);
  first.child.kill("SIGSTOP"); // so that it cannot notice
  repo.git("clone", "-q", "--bare", common, join(dir, "other"));
  renameSync(common, join(dir, "moved"));
  renameSync(join(dir, "other"), common);
  const second = await startBusd(t, common, dir).ended;
  assert.equal(second.exit, 1);
  assert.match(second.stderr, /STATE_IN_USE: opening the state .*: another bus holds .*\/lock/);
  const third = startBusd(t, common, dir);
  first.child.kill("SIGCONT");
  assert.equal((await first.ended).exit, 0);
  await ready(third);
  assert.equal((await findBus(common)).ping?.pid, third.child.pid);
  assert.equal(readEndpoint(paths.endpoint)?.pid, third.child.pid);
});

test("case 63 two-daemons: a copy of a repository has a bus and a state of its own, under the same BUSBAR_STATE_DIR", async (t) => {
  const { dir, repo, common } = bench(t);
  const first = startBusd(t, common, dir);
  await ready(first);
  cpSync(repo.dir, join(dir, "copy"), { recursive: true });
  const copy = join(dir, "copy/.git");
  assert.ok(readEndpoint(join(copy, "busbar/endpoint.json")), "it came along");
  const before = await findBus(copy);
  assert.deepEqual(
    [before.state, before.endpoint],
    ["dead", null],
    "the copy is not served by the first's bus",
  );
  const second = startBusd(t, copy, dir);
  await ready(second);
  for (const [where, { child }] of [
    [common, first],
    [copy, second],
  ] as const) {
    const ping = await (await personOf(t, where)).call("ping", {});
    assert.deepEqual([ping.pid, ping.repo], [child.pid, where]);
    assert.equal(
      ping.state_dir,
      busPaths(where, { BUSBAR_STATE_DIR: join(dir, "state"), HOME: dir }, uid).state,
    );
  }
  second.child.kill("SIGTERM");
  await second.ended;
  assert.equal((await findBus(common)).ping?.pid, first.child.pid);
});

test("case 63 two-daemons: a repository that is moved away from under its bus: the bus ends, and one starts at the new place", async (t) => {
  const { dir, repo, common } = bench(t);
  const first = startBusd(t, common, dir);
  await ready(first);
  renameSync(repo.dir, join(dir, "elsewhere"));
  const moved = join(dir, "elsewhere/.git");
  assert.notEqual((await findBus(moved)).state, "alive", "no client of the new place talks to it");
  assert.equal((await first.ended).exit, 0);
  const second = startBusd(t, moved, dir);
  await ready(second);
  assert.equal((await findBus(moved)).ping?.pid, second.child.pid);
});

test("case 64 socket-path-too-long: a deep repository works; a deep runtime directory is refused at once", async (t) => {
  const { dir, common } = bench(t, `${"a-rather-long-directory-name/".repeat(4)}ünïcode dir/repo`);
  const daemon = startBusd(t, common, dir);
  const socket = await ready(daemon);
  assert.ok(lstatSync(socket).isSocket());
  // A client in another environment finds it all the same: it asks the repository.
  assert.equal((await (await personOf(t, common)).call("ping", {})).repo, common);
  daemon.child.kill("SIGTERM");
  await daemon.ended;

  const long = join(dir, "ü".repeat(60));
  const refused = await startBusd(t, common, dir, { BUSBAR_RUNTIME_DIR: long }).ended;
  assert.equal(refused.exit, 1);
  assert.match(refused.stderr, /SOCKET_PATH_TOO_LONG: socket path is \d+ bytes, limit 107: \//);
  assert.ok(!existsSync(long));
});

test("B7: killed and started again it says the same state; `shutdown` and idleness end it", async (t) => {
  const { dir, common, paths } = bench(t);
  const first = startBusd(t, common, dir);
  await ready(first);
  const seq = (await personOf(t, common)).hello.seq;
  first.child.kill("SIGKILL");
  await first.ended;
  const second = startBusd(t, common, dir);
  await ready(second);
  const person = await personOf(t, common);
  assert.ok(person.hello.seq >= seq);
  assert.deepEqual((await person.call("list_runs", {})).runs, []);
  assert.deepEqual(await person.call("shutdown", {}), { ok: true });
  await person.closed;
  assert.equal((await second.ended).exit, 0);
  const idle = startBusd(t, common, dir, {}, ["--idle-exit-ms", "100"]);
  await ready(idle);
  assert.equal((await idle.ended).exit, 0);
  assert.deepEqual(readdirSync(paths.runtime).sort(), ["t", "tokens"]);
  assert.deepEqual(readdirSync(dirname(paths.lock)).sort(), ["home.json", "lock"]);
});

test("bad words are USAGE with exit 2; a directory that is not there is an error of its own", async (t) => {
  const { dir, common } = bench(t);
  for (const args of [["--idle-exit-ms", "soon"], ["--nonsense"], ["--repo"]]) {
    const { exit, stderr } = await startBusd(t, common, dir, {}, args).ended;
    assert.equal(exit, 2);
    assert.match(stderr, /^busd: USAGE: /);
    assert.ok(!/ at .*:\d+:\d+/.test(stderr), "no stack trace");
  }
  const { exit, stderr } = await startBusd(t, join(dir, "nothing"), dir).ended;
  assert.equal(exit, 1);
  assert.match(stderr, /NOT_A_REPOSITORY: .*nothing/);
});
