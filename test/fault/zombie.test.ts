// Whoever speaks for an attempt that is over, or that the state has forgotten, touches nothing, and the audit says so.
// Real bus, real shim, real agent; the test is the scheduler of the later attempt, because a real one would end the zombie.

import assert from "node:assert/strict";
import { cpSync, existsSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { hostname } from "node:os";
import { join } from "node:path";
import { test } from "node:test";
import type { BusClient } from "../../bus/client/client.ts";
import { connectThin } from "../../bus/client/thin.ts";
import { isCode } from "../../schemas/errors.ts";
import { type EngineWorld, engineWorld, pidIn, shellTask } from "../helpers/engine.ts";
import { isAlive } from "../helpers/processes.ts";
import { until } from "../helpers/wait.ts";

/** Waits for the file `go`, then calls the bus as long as its shim lets it; `late` when it is through. */
const talkative = shellTask(
  "a",
  [
    'echo $$ > "$W/agent.pid"; until [ -e "$W/go" ]; do sleep 0.05; done',
    `busbar-call get_file '{"path":"f.txt"}' > "$W/got" 2>&1`,
    `busbar-call task_status_update '{"status":"late"}' > "$W/said" 2>&1`,
    `busbar-call request_files '{"paths":["f.txt"]}' > "$W/asked" 2>&1`,
    'echo a > a.txt; touch "$W/late"',
  ].join("; "),
);
const touch = (world: EngineWorld, name: string) => writeFileSync(join(world.dir, name), "");

const stateOf = (world: EngineWorld) => join(world.dir, "state");
/** The token of the one attempt that the real scheduler claimed. */
function zombieToken(world: EngineWorld, role: "agent" | "shim"): string {
  const [key = ""] = readdirSync(stateOf(world));
  const claims = join(stateOf(world), key, "scheduler/claims");
  const [note = ""] = readdirSync(claims);
  return JSON.parse(readFileSync(join(claims, note), "utf8")).tokens[role];
}
const socketOf = (world: EngineWorld): string =>
  JSON.parse(readFileSync(join(world.repo, ".git/busbar/endpoint.json"), "utf8")).socket;

/** The next attempt at a, begun by the test. */
async function nextAttempt(world: EngineWorld, scheduler: BusClient, run: string): Promise<number> {
  const facts = { host: hostname(), pid: process.pid, start_time: "", slots: 1 };
  await scheduler.call("register_worker", { worker: "test", ...facts });
  const ready = async () => (await world.state(run)).task("a").state.name === "ready";
  await until("the task is ready again", ready);
  const { run: at, task } = await world.state(run);
  const { state_version } = task("a");
  const workspace = join(world.dir, "second");
  const claim = { run, task: "a", state_version, worker: "test", base: at.head, workspace };
  const { attempt } = await scheduler.call("claim", claim);
  await scheduler.call("attempt_update", { run, task: "a", attempt, phase: "agent" });
  return attempt;
}

async function refusals(world: EngineWorld, code: string): Promise<Set<string>> {
  const { records } = await world.person.call("query_audit", { kind: "access", limit: 10_000 });
  return new Set(records.filter(({ access }) => access?.error === code).map(({ method }) => method ?? ""));
}

test("issue 3.3: bus and scheduler killed, attempt 1 lost while its shim is stopped, attempt 2 begun: the zombie's completion, status and reads touch nothing and are in the audit", async (t) => {
  const world = await engineWorld(t, undefined, { config: { lease_s: 6 } });
  const run = await world.submit([talkative]);
  await until("the agent runs", () => pidIn(join(world.dir, "agent.pid")));
  const phase = async () => {
    const { state } = (await world.state(run)).task("a");
    return state.name === "running" && state.phase === "agent";
  };
  await until("the bus knows that it runs", phase);
  const shim = await world.shimOf(run, "a");
  const dir = (await world.state(run)).task("a").attempts[0]?.workspace ?? "";
  process.kill(shim, "SIGSTOP");
  await world.kill(world.scheduler);
  await world.kill(world.bus);
  await world.startBus();
  const lost = async () => (await world.state(run)).task("a").attempts[0]?.result === "lost";
  await until("attempt 1 is lost", lost);
  // Attempt 2 has all the time of the world.
  await world.kill(world.bus);
  writeFileSync(join(world.dir, "config.json"), JSON.stringify({ lease_s: 600 }));
  await world.startBus();
  const scheduler = await world.asScheduler();
  assert.equal(await nextAttempt(world, scheduler, run), 2);
  const before = (await world.state(run)).task("a");
  // The zombie wakes. Nobody ends its agent but itself: it is told that its attempt is over and may end at once.
  touch(world, "go");
  process.kill(shim, "SIGCONT");
  await until("the zombie is through", () => !isAlive(shim));
  const after = (await world.state(run)).task("a");
  assert.deepEqual(after, before, "nothing of the task moved");
  assert.ok(
    existsSync(join(dir, "outbox.json")) && existsSync(join(dir, "status.done")),
    "it wrote its own end down",
  );
  // Its token outlives it: whoever has it is refused, too.
  for (const role of ["agent", "shim"] as const) {
    const token = zombieToken(world, role);
    const zombie = await connectThin({ socket: socketOf(world), role, token, client: "zombie" });
    const calls: [string, object][] =
      role === "agent"
        ? [
            ["task_status_update", { status: "late" }],
            ["request_files", { paths: ["f.txt"] }],
            ["publish", {}],
            ["get_file", { path: "f.txt" }],
            ["list_files", {}],
          ]
        : [
            ["register", { kind: "agent", name: "agent", pid: shim, start_time: "x" }],
            ["heartbeat", { kind: "agent" }],
            ["complete", { outcome: JSON.parse(readFileSync(join(dir, "outbox.json"), "utf8")) }],
          ];
    for (const [method, params] of calls)
      await assert.rejects(zombie.call(method, params), (e) => isCode(e, "FENCED"), method);
    zombie.close();
  }
  assert.deepEqual((await world.state(run)).task("a"), before);
  const refused = await refusals(world, "FENCED");
  for (const method of ["task_status_update", "request_files", "get_file", "register", "complete"])
    assert.ok(refused.has(method), `${method} is not in the audit: ${[...refused]}`);
  scheduler.close();
});

test("issue 3.3: a number that is given again after a restore: the shim of the forgotten attempt, and whoever has its tokens, cannot speak for the new one", async (t) => {
  const world = await engineWorld(t);
  await world.kill(world.scheduler);
  const run = await world.submit([talkative]);
  await world.kill(world.bus);
  const backup = join(world.dir, "backup");
  cpSync(stateOf(world), backup, { recursive: true, verbatimSymlinks: true });
  await world.startBus();
  world.startScheduler();
  await until("the agent runs", () => pidIn(join(world.dir, "agent.pid")));
  const shim = await world.shimOf(run, "a");
  const tokens = { agent: zombieToken(world, "agent"), shim: zombieToken(world, "shim") };
  await world.kill(world.scheduler);
  await world.kill(world.bus);
  // The whole directory is as it was before the claim: nothing is left that knows of attempt 1. Its shim lives on.
  rmSync(stateOf(world), { recursive: true });
  cpSync(backup, stateOf(world), { recursive: true, verbatimSymlinks: true });
  await world.startBus();
  const scheduler = await world.asScheduler();
  assert.equal(await nextAttempt(world, scheduler, run), 1, "the number is given twice");
  const before = (await world.state(run)).task("a");
  for (const role of ["agent", "shim"] as const) {
    const zombie = connectThin({ socket: socketOf(world), role, token: tokens[role], client: "zombie" });
    await assert.rejects(zombie, (e) => isCode(e, "BAD_TOKEN"), role);
  }
  const knocks = async () => {
    const { records } = await world.person.call("query_audit", { method: "hello", limit: 10_000 });
    return records.filter(({ access }) => access?.error === "BAD_TOKEN").length;
  };
  await until("its shim knocks too, by itself", async () => (await knocks()) > 2);
  assert.deepEqual((await world.state(run)).task("a"), before);
  // A scheduler would end it: it runs without a right to.
  const agent = pidIn(join(world.dir, "agent.pid"));
  process.kill(shim, "SIGKILL");
  process.kill(-agent, "SIGKILL");
  await until("the zombie is gone", () => !isAlive(shim) && !isAlive(agent));
  assert.deepEqual((await world.state(run)).task("a"), before);
  scheduler.close();
});
