// Two of anything (issue: one wins, the other is told): schedulers, runs of one plan, people who decide the same.

import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { once } from "node:events";
import { join } from "node:path";
import { test } from "node:test";
import { fileURLToPath } from "node:url";
import { runningScheduler } from "../../bus/client/running.ts";
import { until } from "../helpers/wait.ts";
import { makeWorld, type Ran, type World } from "../helpers/world.ts";

const SCHEDULER = fileURLToPath(new URL("../../dist/scheduler/main.js", import.meta.url));

/** Both, begun at the same moment: the one that ended with 0 first. */
async function both(w: World, one: string[], two = one): Promise<[won: Ran, lost: Ran]> {
  const all = await Promise.all([w.busctl(one), w.busctl(two)]);
  const [a, b] = all;
  return a.code === 0 ? [a, b] : [b, a];
}

function told({ code, err }: Ran, message: RegExp, deed: RegExp): void {
  assert.equal(code, 2, err);
  assert.match(err, message);
  assert.match(err, deed);
}

test("case 63 two-daemons: a second scheduler is refused, names the first by pid, and ends", async (t) => {
  const w = makeWorld(t);
  await w.busctl(["up"]);
  const { state_dir } = w.endpoint();
  const { pid } = await until("the scheduler says who it is", () => runningScheduler(state_dir));
  const second = spawn(process.execPath, [SCHEDULER, "--repo", join(w.repo, ".git")], {
    env: w.env,
    stdio: ["ignore", "ignore", "pipe"],
  });
  let said = "";
  second.stderr.on("data", (chunk: Buffer) => {
    said += chunk.toString("utf8");
  });
  const [code] = await once(second, "close");
  assert.equal(code, 3);
  assert.match(
    said,
    new RegExp(`^scheduler: WORKER_EXISTS: scheduler ".+" works here already, pid ${pid}\\n`),
  );
  assert.equal(runningScheduler(state_dir)?.pid, pid);
});

test("case 63 two-daemons: the same plan run twice at the same moment is one run: one submits, the other is told and attached", async (t) => {
  const w = makeWorld(t);
  const agent = w.agent(
    "slow",
    `echo x >> ${w.W}/runs; until test -e ${w.W}/go; do sleep 0.1; done; echo a > a.txt`,
  );
  const plan = w.plan([{ id: "a", command: agent }]);
  const runs = [w.start(["run", plan]), w.start(["run", plan])];
  const attached = () =>
    runs.filter((run) => /^r: runs already with exactly this plan; attached to it/m.test(run.out()));
  const submitted = () => runs.filter((run) => /^r: 1 task submitted/m.test(run.out()));
  await until("both have said what they are", () => attached().length + submitted().length === 2);
  assert.deepEqual([attached().length, submitted().length], [1, 1]);
  w.sh("touch go");
  for (const { code, out, err } of await Promise.all(runs.map((run) => run.ended)))
    assert.equal(code, 0, out + err);
  assert.equal(w.sh("wc -l < runs").trim(), "1");
});

test("case 63 two-daemons: another plan under the same name at the same moment: one runs, the other is told which, and how to watch it", async (t) => {
  const w = makeWorld(t);
  const wait = `until test -e ${w.W}/go; do sleep 0.1; done;`;
  const one = w.plan([{ id: "a", command: `${wait} echo a > a.txt` }]);
  w.sh("mv plan.json one.json");
  const two = w.plan([{ id: "b", command: `${wait} echo b > b.txt` }]);
  const [won, lost] = await both(
    w,
    ["run", "--detach", one.replace("plan.json", "one.json")],
    ["run", "--detach", two],
  );
  assert.equal(won.code, 0, won.err);
  told(
    lost,
    /run "r" is at work with another plan/,
    /busctl tasks --follow --run r.*busctl cancel r.*--name/,
  );
  w.sh("touch go");
  assert.equal((await w.busctl(["tasks", "--follow", "--run", "r"])).code, 0);
});

test("case 63 two-daemons: two people decide the same at the same moment: retry, approve, reject, grant, cancel", async (t) => {
  const w = makeWorld(t);
  const bad = w.agent("bad", `if test -e ${w.W}/good; then echo a > a.txt; else exit 1; fi`);
  await w.run([
    { id: "bad", command: bad, allowed_files: ["a.txt"] },
    { id: "seen", command: "echo b > b.txt", allowed_files: ["b.txt"], review: true },
    { id: "back", command: "echo c > c.txt", allowed_files: ["c.txt"], review: true },
    { id: "gone", command: "exit 1", allowed_files: ["d.txt"] },
    {
      id: "more",
      command: `busbar-call request_files '{"paths":["e.txt"],"reason":"x"}'`,
      allowed_files: ["f.txt"],
    },
  ]);
  w.sh("touch good");
  const look = /It was \w+[\w ]* by \S+ at \d{4}-.*busctl tasks --task r\//;

  const [, late] = await both(w, ["retry", "r/bad"]);
  told(late, /retry of task "r\/bad": it is /, look);
  const [, secondApproval] = await both(w, ["approve", "r/seen"]);
  told(secondApproval, /r\/seen"?: it is /, look);
  const [, other] = await both(w, ["approve", "r/back"], ["reject", "r/back", "--reason", "no"]);
  told(other, /r\/back"?: it is /, look);
  const [, secondGrant] = await both(w, ["grant", "r/more"]);
  told(secondGrant, /grant to "?r\/more"?: (it asked for no files|it is)/, look);

  const [one, two] = await both(w, ["cancel", "r/gone"]);
  assert.deepEqual([one.code, two.code], [0, 0], one.err + two.err);
  assert.match((await w.busctl(["cancel", "r/gone"])).out, /^r\/gone: was cancelled before\n$/);
  const events = await w.audit({ run: "r", kind: "event" });
  const count = (task: string, type: string) =>
    events.filter((e) => e.task === task && e.event?.type === type).length;
  assert.deepEqual(
    [
      count("bad", "task.retry_asked"),
      count("seen", "task.approved"),
      count("more", "task.files_granted"),
      count("gone", "task.cancelled"),
    ],
    [1, 1, 1, 1],
  );
});
