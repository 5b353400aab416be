// `busctl down` in every weather: agents at work, agents left, a bus that was killed; and `up` and `run` after it.

import assert from "node:assert/strict";
import { existsSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { type TestContext, test } from "node:test";
import { runningScheduler, runningShims } from "../../bus/client/running.ts";
import type { Task } from "../../schemas/task.ts";
import { isAlive, processesOf } from "../helpers/processes.ts";
import { until } from "../helpers/wait.ts";
import { makeWorld, type World } from "../helpers/world.ts";

/** A run whose only agent sleeps beside a child in a session of its own. */
async function sleeping(
  t: TestContext,
): Promise<{ w: World; child: number; bus: number; scheduler: number }> {
  const w = makeWorld(t);
  const agent = w.agent(
    "sleeper",
    `setsid sleep 60 & echo $! > ${w.W}/child.tmp; mv ${w.W}/child.tmp ${w.W}/child; sleep 60`,
  );
  const ran = await w.busctl(["run", "--detach", w.plan([{ id: "a", command: agent }])]);
  assert.equal(ran.code, 0, ran.err);
  await until("the agent runs", () => existsSync(join(w.W, "child")));
  const child = Number(readFileSync(join(w.W, "child"), "utf8"));
  const { pid: bus, state_dir } = w.endpoint();
  const scheduler = runningScheduler(state_dir)?.pid ?? 0;
  assert.ok(scheduler > 1, "the scheduler says who it is");
  assert.deepEqual(
    runningShims(state_dir).map(({ of }) => of),
    ["r/a#1"],
  );
  return { w, child, bus, scheduler };
}

test("O8: down while an agent runs: cancelled, and nobody is left when it returns", async (t) => {
  const { w, child, bus, scheduler } = await sleeping(t);
  const down = await w.busctl(["down"]);
  assert.deepEqual(processesOf(w.W), [], down.out + down.err);
  assert.deepEqual([child, bus, scheduler].filter(isAlive), []);
  assert.equal(down.code, 0, down.err);
  assert.match(down.out, /^down: ended bus and scheduler\n {2}cancelled 1 attempt: r\/a#1\n/);
  assert.equal((await w.busctl(["up"])).code, 0);
  const { tasks } = await w.state("r");
  assert.equal(tasks.get("a")?.state.name, "cancelled");
});

test("O8: down --leave-running leaves the agent and says so; the next up takes it over", async (t) => {
  const { w, child, bus, scheduler } = await sleeping(t);
  const down = await w.busctl(["down", "--leave-running"]);
  assert.equal(down.code, 0, down.err);
  assert.deepEqual([bus, scheduler].filter(isAlive), []);
  assert.equal(isAlive(child), true);
  assert.match(down.out, /1 attempt goes on without us: r\/a#1/);
  assert.equal((await w.busctl(["up"])).code, 0);
  const { tasks } = await w.state("r");
  assert.equal(tasks.get("a")?.state.name, "running");
  assert.equal(tasks.get("a")?.attempts.length, 1);
  assert.equal((await w.busctl(["down"])).code, 0);
  assert.equal(isAlive(child), false);
});

test("case 62 stale-socket: down after the bus was killed finds scheduler and agent, and ends both", async (t) => {
  const { w, child, bus, scheduler } = await sleeping(t);
  process.kill(bus, "SIGKILL");
  const down = await w.busctl(["down", "--json"]);
  assert.equal(down.code, 0, down.out + down.err);
  const said = JSON.parse(down.out);
  assert.equal(said.bus_was_dead, true);
  assert.deepEqual(said.cancelled, ["r/a#1"]);
  assert.deepEqual(said.survivors, []);
  assert.deepEqual([child, scheduler].filter(isAlive), []);
  assert.deepEqual(processesOf(w.W), []);
});

test("case 62 stale-socket: down after the bus was killed ends an idle scheduler; a foreign pid is left alone", async (t) => {
  const w = makeWorld(t);
  assert.equal((await w.busctl(["up"])).code, 0);
  const { pid, state_dir } = w.endpoint();
  const scheduler = runningScheduler(state_dir)?.pid ?? 0;
  process.kill(pid, "SIGKILL");
  const down = await w.busctl(["down"]);
  assert.equal(down.code, 0, down.err);
  assert.match(down.out, /The bus had died.*\ndown: ended scheduler/);
  assert.equal(isAlive(scheduler), false);
  // Somebody else has the pid by now: another start time.
  const file = join(state_dir, "scheduler", "process.json");
  const { boot_id } = w.endpoint();
  w.sh(`echo '{"v":1,"pid":${process.pid},"start_time":"1","boot_id":"${boot_id}"}' > ${file}`);
  assert.match((await w.busctl(["down"])).out, /^not running/);
});

test("O8: up after the bus was killed: the scheduler comes back, no second one is started", async (t) => {
  const w = makeWorld(t);
  assert.equal((await w.busctl(["up"])).code, 0);
  const { pid, state_dir } = w.endpoint();
  // It writes its file a moment after the bus knows it.
  const { pid: scheduler } = await until("the scheduler says who it is", () => runningScheduler(state_dir));
  process.kill(pid, "SIGKILL");
  const up = await w.busctl(["up", "--json"]);
  assert.equal(up.code, 0, up.err);
  assert.deepEqual(JSON.parse(up.out).started, ["bus"]);
  assert.equal(runningScheduler(state_dir)?.pid, scheduler);
  const ran = await w.run([{ id: "a", command: "echo a > a.txt" }]);
  assert.equal(ran.code, 0, ran.out + ran.err);
});

test("O8: down --leave-running when bus and scheduler were killed says what goes on, and ends nothing", async (t) => {
  const { w, child, bus, scheduler } = await sleeping(t);
  for (const pid of [bus, scheduler]) process.kill(pid, "SIGKILL");
  await until("both are gone", () => !isAlive(bus) && !isAlive(scheduler));
  const down = await w.busctl(["down", "--leave-running"]);
  assert.equal(down.code, 0, down.err);
  assert.match(
    down.out,
    /^down: bus and scheduler had died before\n {2}1 attempt goes on without us: r\/a#1\n/,
  );
  assert.equal(isAlive(child), true);
});

test("O8: down while the next scheduler clears up: the agent of the one before it ends with it", async (t) => {
  const { w, child, bus, scheduler } = await sleeping(t);
  for (const pid of [bus, scheduler]) process.kill(pid, "SIGKILL");
  await until("both are gone", () => !isAlive(bus) && !isAlive(scheduler));
  // Left by an attempt that is over, and deaf to TERM: clearing up takes as long as the grace.
  const { state_dir } = w.endpoint();
  w.sh(
    `BUSBAR_DIR="${state_dir}/runs/r/over" setsid sh -c 'trap ": > ${w.W}/termed" TERM; : > ${w.W}/deaf; while :; do sleep 0.1; done' > deaf.log 2>&1 &
     until [ -e "${w.W}/deaf" ]; do sleep 0.05; done`,
  );
  assert.equal((await w.busctl(["up"])).code, 0);
  await until("it clears up", () => existsSync(join(w.W, "termed")));
  const down = await w.busctl(["down"]);
  assert.equal(down.code, 0, down.out + down.err);
  assert.equal(isAlive(child), false);
  assert.deepEqual(processesOf(w.W), []);
});

test("O8: down during an attached run ends the watch with a clear line, exit 3, and nothing is started again", async (t) => {
  const w = makeWorld(t);
  const agent = w.agent("sleeper", `touch ${w.W}/begun; sleep 60`);
  const run = w.start(["run", w.plan([{ id: "a", command: agent }])]);
  await until("the agent runs", () => existsSync(join(w.W, "begun")));
  const down = await w.busctl(["down"]);
  assert.equal(down.code, 0, down.err);
  const end = await run.ended;
  assert.equal(end.code, 3, end.out + end.err);
  assert.match(end.out, /^Stopped: the bus was ended by a person \(busctl down\); r is not through\.$/m);
  assert.match(end.out, /busctl up; busctl retry r\/TASK/);
  assert.deepEqual(processesOf(w.W), []);
});

test("O8: down --leave-running during an attached run: the watch ends, the agent goes on, the watch can come back", async (t) => {
  const w = makeWorld(t);
  const agent = w.agent(
    "slow",
    `touch ${w.W}/begun; until test -e ${w.W}/go; do sleep 0.1; done; echo a > a.txt`,
  );
  const run = w.start(["run", "--json", w.plan([{ id: "a", command: agent }])]);
  await until("the agent runs", () => existsSync(join(w.W, "begun")));
  assert.equal((await w.busctl(["down", "--leave-running"])).code, 0);
  const end = await run.ended;
  assert.equal(end.code, 3, end.err);
  const last = JSON.parse(end.out.trimEnd().split("\n").at(-1) ?? "");
  assert.deepEqual([last.type, last.run, last.leave_running, last.exit], ["stopped", "r", true, 3]);
  assert.equal((await w.busctl(["tasks"])).code, 3, "nobody started the bus again");
  assert.equal((await w.busctl(["up"])).code, 0);
  const follow = w.start(["tasks", "--follow", "--run", "r"]);
  w.sh("touch go");
  const back = await follow.ended;
  assert.equal(back.code, 0, back.out + back.err);
});

/** A check that marks its begin, ends when told by a file, and does not hear TERM. */
const stubborn = (w: World, mark: string) =>
  `trap '' TERM; touch ${w.W}/${mark}; until test -e ${w.W}/go; do sleep 0.1; done`;

for (const gate of [
  { at: "a check of the landing", of: (run: string) => ({ middle: [{ name: "slow", run }] }) },
  {
    at: "a set-up of the landing",
    of: (run: string) => ({
      setup: [{ run: `if git grep -q seven HEAD -- other.txt; then ${run}; fi` }],
      middle: [{ name: "quick", run: "true" }],
    }),
  },
])
  test(`O8: down during ${gate.at} ends it, cancels nothing and says that the landing goes on; after up it merges by itself`, async (t) => {
    const w = makeWorld(t);
    // The second to land is proven on a tree of its own.
    const file = w.plan(
      [
        { id: "first", command: "echo seven > other.txt", priority: 1 },
        { id: "a", command: `until test -e ${w.W}/work; do sleep 0.1; done; echo a > a.txt` },
      ],
      { gate: gate.of(`if test -e a.txt; then ${stubborn(w, "checking")}; fi`) },
    );
    const ran = await w.busctl(["run", "--detach", file]);
    assert.equal(ran.code, 0, ran.out + ran.err);
    const merged = ({ state }: Task) => state.name === "passed" && state.merged !== null;
    const isMerged = async (id: string) => merged((await w.state("r")).tasks.get(id) as Task);
    await until("the first has landed", () => isMerged("first"));
    w.sh("touch work");
    await until("the check of the landing runs", () => existsSync(join(w.W, "checking")));
    const head = w.git("rev-parse", "busbar/r");
    const down = await w.busctl(["down"]);
    assert.deepEqual(processesOf(w.W), [], down.out + down.err);
    assert.equal(down.code, 0, down.out + down.err);
    assert.equal(down.out, "down: ended bus and scheduler\n  1 landing goes on after `busctl up`: r/a#1\n");
    assert.equal(w.git("rev-parse", "busbar/r"), head, "the branch is not touched");
    w.sh("touch go");
    assert.equal((await w.busctl(["up"])).code, 0);
    const follow = await w.busctl(["tasks", "--follow", "--run", "r"]);
    assert.equal(follow.code, 0, follow.out + follow.err);
    const { tasks, run } = await w.state("r");
    assert.equal(tasks.get("a")?.attempts.length, 1);
    assert.deepEqual([run.landed.length, run.paused], [2, false]);
  });

test("O8: down during a shallow check ends it with its attempt", async (t) => {
  const w = makeWorld(t);
  const gate = { shallow: [{ name: "slow", run: stubborn(w, "checking") }] };
  const ran = await w.busctl(["run", "--detach", w.plan([{ id: "a", command: "echo a > a.txt" }], { gate })]);
  assert.equal(ran.code, 0, ran.out + ran.err);
  await until("the check runs", () => existsSync(join(w.W, "checking")));
  const down = await w.busctl(["down"]);
  assert.deepEqual(processesOf(w.W), [], down.out + down.err);
  assert.equal(down.code, 0, down.out + down.err);
  assert.match(down.out, /^down: ended bus and scheduler\n {2}cancelled 1 attempt: r\/a#1\n/);
});

test("O8: down --leave-running leaves agents only: a check is ended, and made again after up", async (t) => {
  const w = makeWorld(t);
  const gate = { shallow: [{ name: "slow", run: stubborn(w, "checking") }] };
  const ran = await w.busctl(["run", "--detach", w.plan([{ id: "a", command: "echo a > a.txt" }], { gate })]);
  assert.equal(ran.code, 0, ran.out + ran.err);
  await until("the check runs", () => existsSync(join(w.W, "checking")));
  const down = await w.busctl(["down", "--leave-running"]);
  assert.deepEqual(processesOf(w.W), [], down.out + down.err);
  assert.equal(down.code, 0, down.out + down.err);
  assert.equal(down.out, "down: ended bus and scheduler\n");
  w.sh("touch go");
  assert.equal((await w.busctl(["up"])).code, 0);
  const follow = await w.busctl(["tasks", "--follow", "--run", "r"]);
  assert.equal(follow.code, 0, follow.out + follow.err);
  assert.equal((await w.state("r")).tasks.get("a")?.attempts.length, 1);
});
