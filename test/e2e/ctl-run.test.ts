// `busctl run` as people and CI use it: attach, detach, signals, pipes, terminals, refusals.

import assert from "node:assert/strict";
import { spawnSync } from "node:child_process";
import { chmodSync, existsSync, mkdirSync, symlinkSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { test } from "node:test";
import { until } from "../helpers/wait.ts";
import { BUSCTL, makeWorld, type World } from "../helpers/world.ts";

function slow(w: World): string {
  return w.agent(
    "slow",
    `echo x >> ${w.W}/runs; until test -e ${w.W}/go; do sleep 0.1; done; echo a > a.txt`,
  );
}

const begun = (w: World) => until("the agent runs", () => existsSync(join(w.W, "runs")));

test("O8: the same plan a second time attaches and says so; Ctrl-C detaches with 130; the run goes on", async (t) => {
  const w = makeWorld(t);
  const plan = w.plan([{ id: "a", command: slow(w) }]);
  const first = w.start(["run", plan]);
  await begun(w);
  const second = w.start(["run", plan]);
  await until("the second is attached", () => /attached/.test(second.out()));
  second.child.kill("SIGINT");
  const detached = await second.ended;
  assert.equal(detached.code, 130, detached.err);
  assert.match(detached.out, /busctl tasks --follow --run r/);
  assert.match(detached.out, /busctl cancel r/);
  const follow = w.start(["tasks", "--follow"]);
  w.sh("touch go");
  const [one, two] = await Promise.all([first.ended, follow.ended]);
  assert.deepEqual([one.code, two.code], [0, 0], one.err + two.err);
  assert.equal(w.sh("wc -l < runs").trim(), "1");
  assert.equal(w.git("show", "busbar/r:a.txt"), "a");
});

test("issue 2.6: SIGTERM to a second run of the same plan leaves it; the run goes on under the first", async (t) => {
  const w = makeWorld(t);
  const plan = w.plan([{ id: "a", command: slow(w) }]);
  const first = w.start(["run", plan]);
  await begun(w);
  const second = w.start(["run", plan]);
  await until(
    "the second is attached",
    () => /attached to it[\s\S]*only leave it/.test(second.out()),
    20_000,
  );
  await until("the second watches", () => /a running #1/.test(second.out()), 20_000);
  second.child.kill("SIGTERM");
  const left = await second.ended;
  assert.equal(left.code, 130, left.err);
  assert.match(left.out, /busctl cancel r/);
  w.sh("touch go");
  const end = await first.ended;
  assert.equal(end.code, 0, end.out + end.err);
  assert.equal(w.git("show", "busbar/r:a.txt"), "a");
});

test("SIGTERM cancels the run, waits for its end, exit 1; the table says cancelled", async (t) => {
  const w = makeWorld(t);
  const run = w.start(["run", w.plan([{ id: "a", command: slow(w) }])]);
  await begun(w);
  run.child.kill("SIGTERM");
  const end = await run.ended;
  assert.equal(end.code, 1, end.out + end.err);
  assert.match(end.out, /cancelled +a /);
  assert.match((await w.busctl(["tasks"])).out, /cancelled +a /);
});

test("O7: a run with a failure: exit 1, the reason, the commands; report, diff, cat, logs, patch agree", async (t) => {
  const w = makeWorld(t);
  const tasks = [
    { id: "good", command: "echo good > good.txt; echo working", allowed_files: ["good.txt"] },
    { id: "bad", command: "echo bad > bad.txt", acceptance: ["echo why-not; false"] },
    { id: "kid", command: "echo kid > kid.txt", depends_on: ["bad"] },
  ];
  const run = await w.run(tasks);
  assert.equal(run.code, 1, run.err);
  assert.match(run.out, /git merge --ff-only busbar\/r/);
  assert.match(run.out, /busctl retry r\/bad --feedback/);
  assert.match(run.out, /1 task waits for bad \(blocked; by dependency\): kid/);
  assert.equal((await w.busctl(["cat", "good:good.txt"])).out, "good\n");
  assert.match((await w.busctl(["logs", "good"])).out, /working/);
  assert.match((await w.busctl(["diff", "good", "--stat"])).out, /good\.txt/);
  assert.match((await w.busctl(["ls", "good"])).out, /good\.txt\n/);
  const report = JSON.parse((await w.busctl(["report", "--format", "json"])).out);
  assert.equal(report.merged, 1);
  assert.equal(report.gate, "none");
  const bad = report.tasks.find((one: { task: string }) => one.task === "bad");
  assert.deepEqual([bad.state, bad.detail], ["blocked", "check"]);
  assert.match((await w.busctl(["report"])).out, /gate: \*\*NONE/);
  assert.match((await w.busctl(["tasks", "--task", "bad"])).out, /why-not/);
  assert.match((await w.busctl(["tasks", "--task", "kid"])).out, /bad is blocked/);
  const patch = (await w.busctl(["patch", "good"])).out;
  writeFileSync(join(w.W, "p.patch"), patch);
  w.git("apply", "--check", "../p.patch");
  assert.equal((await w.busctl(["verify"])).code, 0);
});

test("S2, case 56 duplicate-and-misspelt: a bad plan is exit 2 with its place, and nothing is started", async (t) => {
  const w = makeWorld(t);
  const file = join(w.W, "bad.yaml");
  writeFileSync(file, "gate: none\ntasks:\n  - id: a\n    comand: true\n    allowed_files: [a]\n");
  for (const verb of ["run", "submit"]) {
    const run = await w.busctl([verb, file]);
    assert.equal(run.code, 2);
    assert.match(run.err, /bad\.yaml:4:5: error: .*comand/);
    assert.doesNotMatch(run.err, /\bat .*:\d+:\d+\)/);
  }
  const json = JSON.parse((await w.busctl(["run", file, "--json"])).err);
  assert.equal(json.error.code, "BAD_PLAN");
  assert.equal(json.error.problems[0].line, 4);
  assert.equal((await w.busctl(["plan", file])).code, 2);
  assert.equal(existsSync(join(w.repo, ".git/busbar")), false);
});

test("a plan that lies in another repository than the current directory is refused, not guessed", async (t) => {
  const w = makeWorld(t);
  w.sh("git init -q other; cp -r repo/.git/config other/.git/config");
  const file = join(w.W, "other/plan.json");
  writeFileSync(
    file,
    JSON.stringify({ gate: "none", tasks: [{ id: "a", command: "true", allowed_files: ["a"] }] }),
  );
  const run = await w.busctl(["run", file, "--dry-run"]);
  assert.equal(run.code, 2);
  assert.match(run.err, /the plan lies in the repository .*other/);
  assert.equal((await w.busctl(["run", file, "--dry-run", "--repo", w.repo])).code, 0);
});

test("--json: every line is an object; --detach leaves at once; pipes that close end it quietly", async (t) => {
  const w = makeWorld(t);
  const submit = await w.busctl(["submit", w.plan([{ id: "a", command: "echo a > a.txt" }]), "--json"]);
  assert.equal(submit.code, 0, submit.err);
  assert.equal(JSON.parse(submit.out).run, "r");
  const follow = await w.busctl(["tasks", "--follow", "--run", "r", "--json"]);
  const lines = follow.out
    .trimEnd()
    .split("\n")
    .map((line) => JSON.parse(line));
  assert.deepEqual([lines.at(-1).type, lines.at(-1).exit], ["end", 0]);
  const head = w.sh(
    `cd repo; ${process.execPath} ${BUSCTL} tasks --audit | head -1; ${process.execPath} ${BUSCTL} --help 2>&1 | true`,
  );
  assert.equal(head.trimEnd().split("\n").length, 1, head);
});

test("on a terminal: the block is redrawn, and the cursor comes back when Ctrl-C leaves", async (t) => {
  if (spawnSync("script", ["--version"]).error) return t.skip("the program `script` is not installed");
  const w = makeWorld(t);
  const plan = w.plan([{ id: "a", command: slow(w) }]);
  const log = join(w.W, "typescript");
  const command = `${process.execPath} ${BUSCTL} run ${plan} & pid=$!; until test -e ${w.W}/runs; do sleep 0.1; done; sleep 0.5; kill -INT $pid; wait $pid; echo "code $?"`;
  const ran = spawnSync("script", ["-qec", `bash -c '${command}'`, log], {
    cwd: w.repo,
    env: { ...w.env, TERM: "xterm" },
    encoding: "utf8",
    timeout: 60_000,
  });
  w.sh("touch go");
  const out = ran.stdout;
  assert.ok(out.includes("\x1b[?25l"), out);
  assert.ok(out.lastIndexOf("\x1b[?25h") > out.lastIndexOf("\x1b[?25l"), out);
  assert.match(out, /code 130/);
});

test("the verbs of systemd's busctl go to that tool: arguments, exit code and signal; without it exit 2", async (t) => {
  const w = makeWorld(t);
  mkdirSync(join(w.W, "bin"));
  mkdirSync(join(w.W, "ours"));
  symlinkSync(BUSCTL, join(w.W, "ours/busctl"));
  const tool = join(w.W, "bin/busctl");
  writeFileSync(tool, '#!/bin/sh\n[ "$2" = die ] && kill -TERM $$\necho "system: $*"; exit 7\n');
  chmodSync(tool, 0o755);
  const env = { PATH: `${w.W}/ours:${w.W}/bin:${w.env.PATH}` };
  const list = await w.busctl(["--user", "list", "a b"], { env });
  assert.deepEqual([list.code, list.out], [7, "system: --user list a b\n"]);
  const died = await w.busctl(["wait", "die"], { env });
  assert.equal(died.signal ?? died.code, "SIGTERM");
  if (existsSync("/usr/bin/busctl"))
    return t.diagnostic("systemd's busctl is installed here: its absence was not tried");
  const none = await w.busctl(["status"]);
  assert.equal(none.code, 2);
  assert.match(none.err, /busctl tasks/);
});

test("init, plan, run: the first three commands of a person work as they are", async (t) => {
  const w = makeWorld(t);
  const init = await w.busctl(["init"]);
  assert.equal(init.code, 0, init.err);
  assert.equal((await w.busctl(["init"])).code, 2);
  assert.equal((await w.busctl(["plan", "plan.yaml"])).code, 0);
  const run = await w.busctl(["run", "plan.yaml"]);
  assert.equal(run.code, 0, run.out + run.err);
  assert.equal(w.git("log", "-1", "--format=%s", "busbar/repo").length > 0, true);
});

test("--into: the branch is moved when all is merged; one that is checked out is not, which is said, exit 1", async (t) => {
  const w = makeWorld(t);
  w.git("branch", "release");
  const task = (id: string) => [{ id, command: `echo ${id} > ${id}.txt` }];
  const moved = await w.busctl(["run", w.plan(task("a")), "--into", "release"]);
  assert.equal(moved.code, 0, moved.err);
  assert.equal(w.git("rev-parse", "release"), w.git("rev-parse", "busbar/r"));
  const stuck = await w.busctl(["run", w.plan(task("b"), { run: "s" }), "--into", "main"]);
  assert.equal(stuck.code, 1, stuck.err);
  assert.match(stuck.err, /warning: main is checked out in /);
  assert.match(stuck.out, /main was not moved: it is checked out in .*git merge --ff-only/);
  const bad = await w.busctl(["run", w.plan(task("c"), { run: "u" }), "--into", "a..b"]);
  assert.equal(bad.code, 2);
});
