// Who dies, what happens (design section 8), with the real programs: bus, scheduler, shim, agent, and all at once, while
// agents run. Leases are short here, so that "longer than the lease" is seconds.

import assert from "node:assert/strict";
import { existsSync, readdirSync, readFileSync, renameSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { type TestContext, test } from "node:test";
import { fileURLToPath } from "node:url";
import { type EngineWorld, engineWorld, pidIn, shellTask } from "../helpers/engine.ts";
import { isAlive } from "../helpers/processes.ts";
import { until } from "../helpers/wait.ts";

const LEASE_MS = 6_000;
const config = { lease_s: LEASE_MS / 1000, kill_grace_ms: 500 };
const FIXTURES = fileURLToPath(new URL("../fixtures/shims", import.meta.url));

/** Counts its starts, says its pid, waits for the file `go`, then does its work. */
const patient = `echo x >> "$W/starts"; echo $$ > "$W/agent.pid"; until [ -e "$W/go" ]; do sleep 0.05; done; echo done > out.txt`;
const long = (command = patient) => shellTask("long", command, { allowed_files: ["out.txt"], retries: 0 });

async function atWork(t: TestContext, command = patient, args: string[] = []) {
  const world = await engineWorld(t, undefined, { config, schedulerArgs: args });
  const run = await world.submit([long(command)]);
  const pid = await until("the agent works", () => pidIn(join(world.dir, "agent.pid")));
  return { world, run, pid };
}
/** Where shims have the sockets of their tasks. */
const socketsOf = ({ dir }: EngineWorld) =>
  readdirSync(dir, { recursive: true, encoding: "utf8" })
    .map((path) => join(dir, path))
    .find((path) => path.endsWith("/t") && existsSync(join(path, "..", "tokens")));
const go = (world: EngineWorld) => writeFileSync(join(world.dir, "go"), "");
const starts = (world: EngineWorld) => readFileSync(join(world.dir, "starts"), "utf8");

/** It ended well, with these results of its attempts; nothing landed twice. */
async function endedWith(world: EngineWorld, run: string, results: string[]) {
  const { task } = await world.ended(run);
  assert.deepEqual(
    task("long").attempts.map((attempt) => attempt.result),
    results,
  );
  assert.equal(task("long").state.name, "passed");
  assert.equal(world.git("git rev-list --count main..busbar/r"), "1");
  return task("long");
}

/** Past the lease of an attempt that was renewed until now. */
const leaseOver = () => {
  const end = performance.now() + LEASE_MS + 500;
  return until("the lease is over", () => performance.now() > end, LEASE_MS + 5_000);
};

test("issue 3.1: no scheduler for longer than the lease, and the agent ends meanwhile: its work counts, it runs once", async (t) => {
  const { world, run, pid } = await atWork(t);
  await world.kill(world.scheduler);
  go(world);
  await until("the agent has ended", () => !isAlive(pid));
  const told = async () =>
    (await world.state(run)).task("long").attempts[0]?.procs?.some(({ ended }) => ended);
  await until("its shim has told it", told);
  await leaseOver();
  world.startScheduler();
  await endedWith(world, run, ["passed"]);
  assert.equal(starts(world), "x\n");
});

test("issue 3.1: taking over fails at first: tried again while the bus is there, and nothing starts before", async (t) => {
  const { world, run, pid } = await atWork(t);
  await world.kill(world.scheduler);
  const sockets = await until("the sockets of tasks", () => socketsOf(world));
  renameSync(sockets, `${sockets}.away`);
  writeFileSync(sockets, "");
  world.startScheduler();
  await until(
    "it fails twice",
    () => (world.log().match(/taking over failed; tried again/g) ?? []).length > 1,
  );
  assert.ok(isAlive(pid));
  rmSync(sockets);
  renameSync(`${sockets}.away`, sockets);
  go(world);
  await endedWith(world, run, ["passed"]);
  assert.equal(starts(world), "x\n");
});

test("bus killed and away for longer than the lease: the agent goes on, nothing is lost or counted", async (t) => {
  const { world, run, pid } = await atWork(t);
  await world.kill(world.bus);
  await leaseOver();
  assert.ok(isAlive(pid));
  await world.startBus();
  const beats = async () => {
    const { records } = await world.person.call("query_audit", { run, method: "register", newest: true });
    return records.length > 1; // the shim came back by itself
  };
  await until("the shim has registered again", beats);
  go(world);
  const { counts } = await endedWith(world, run, ["passed"]);
  assert.deepEqual(counts, {});
  assert.equal(starts(world), "x\n");
});

test("bus killed, the agent ends meanwhile: the outbox is delivered when the bus is back", async (t) => {
  const { world, run, pid } = await atWork(t);
  await world.kill(world.bus);
  go(world);
  await until("the agent has ended", () => !isAlive(pid));
  await world.startBus();
  const { attempts } = await endedWith(world, run, ["passed"]);
  assert.equal(attempts[0]?.procs?.find(({ kind }) => kind === "agent")?.ended?.exit, 0);
});

test("bus killed while a check runs: its verdict waits for the bus, and costs no attempt", async (t) => {
  const world = await engineWorld(t, undefined, { config });
  const waits = 'touch "$W/checking"; until [ -e "$W/go" ]; do sleep 0.05; done; echo x >> "$W/checks"';
  const run = await world.submit([{ ...long("echo done > out.txt"), acceptance: [{ run: waits }] }]);
  await until("the check runs", () => readdirSync(world.dir).includes("checking"));
  await world.kill(world.bus);
  go(world);
  await until("the check has ended", () => readdirSync(world.dir).includes("checks"));
  await until("its outcome is kept", () =>
    world.git('ls "$PWD"/../state/*/runs/r/*/checks').includes("outbox.json"),
  );
  await world.startBus();
  await endedWith(world, run, ["passed"]);
  assert.equal(readFileSync(join(world.dir, "checks"), "utf8"), "x\n", "checked once");
});

test("bus stopped for longer than the lease: what the shims said meanwhile is read before they are called lost", async (t) => {
  const { world, run } = await atWork(t);
  world.bus.child.kill("SIGSTOP");
  await leaseOver();
  world.bus.child.kill("SIGCONT");
  go(world);
  await endedWith(world, run, ["passed"]);
});

test("a shim that is stopped: shown, lost when its lease ends, and wholly ended before the next attempt starts", async (t) => {
  const command = `[ -e "$W/agent.pid" ] && { kill -0 $(cat "$W/agent.pid") && touch "$W/both"; echo 2 > out.txt; exit; }; ${patient}`;
  const { world, run, pid } = await atWork(t, command);
  const shim = await world.shimOf(run, "long");
  process.kill(shim, "SIGSTOP");
  const doubt = await until("the doubt is told", async () => {
    const { state } = (await world.state(run)).task("long");
    return state.name === "running" && state.doubt;
  });
  assert.equal(doubt.pid, shim);
  assert.match(doubt.why, /stopped/);
  const { attempts } = await endedWith(world, run, ["lost", "passed"]);
  assert.match(attempts[0]?.evidence?.summary ?? "", new RegExp(`no sign of life.*pid ${shim}.*stopped`));
  assert.deepEqual([isAlive(pid), isAlive(shim)], [false, false]);
  assert.equal(readdirSync(world.dir).includes("both"), false, "two agents of one task at the same time");
});

test("a shim that goes on in time: the doubt is over, nothing is lost", async (t) => {
  const { world, run } = await atWork(t);
  const doubt = async () => {
    const { state } = (await world.state(run)).task("long");
    return state.name === "running" && state.doubt !== undefined;
  };
  const shim = await world.shimOf(run, "long");
  process.kill(shim, "SIGSTOP");
  await until("the doubt is told", doubt);
  process.kill(shim, "SIGCONT");
  await until("it is over", async () => !(await doubt()));
  go(world);
  await endedWith(world, run, ["passed"]);
});

test("shim killed: what left its session, and what dropped its environment inside it, is ended", async (t) => {
  const tree = `(setsid sh -c 'echo $$ > "$W/daemon.pid"; exec sleep 300' &); (env -i W="$W" sh -c 'echo $$ > "$W/bare.pid"; exec sleep 300' &); (setsid sh -c 'env -i sh -c "echo \\$\\$ > $W/deep.pid; exec sleep 300"; :' &); until [ -s "$W/daemon.pid" ] && [ -s "$W/bare.pid" ] && [ -s "$W/deep.pid" ]; do sleep 0.05; done`;
  const { world, run, pid } = await atWork(t, `[ -e "$W/agent.pid" ] || { ${tree}; }; ${patient}`);
  const pids = ["daemon", "bare", "deep"].map((name) => pidIn(join(world.dir, `${name}.pid`)));
  process.kill(await world.shimOf(run, "long"), "SIGKILL");
  await until("all of it is ended", () => ![pid, ...pids].some(isAlive));
  go(world);
  await endedWith(world, run, ["lost", "passed"]);
});

test("everything killed at once: the attempt is lost, and the next one passes", async (t) => {
  const { world, run, pid } = await atWork(t);
  const shim = await world.shimOf(run, "long");
  for (const one of [world.bus.child.pid, world.scheduler.child.pid, shim, pid])
    process.kill(one as number, "SIGKILL");
  await world.kill(world.scheduler);
  await world.startBus();
  world.startScheduler();
  go(world);
  await endedWith(world, run, ["lost", "passed"]);
});

test("bus, scheduler and shim killed: the agent that is left is ended before its task starts again", async (t) => {
  const { world, run, pid } = await atWork(t);
  const shim = await world.shimOf(run, "long");
  for (const one of [world.bus.child.pid, world.scheduler.child.pid, shim])
    process.kill(one as number, "SIGKILL");
  await world.kill(world.scheduler);
  await world.startBus();
  world.startScheduler();
  await until("the agent is ended", () => !isAlive(pid));
  go(world);
  await endedWith(world, run, ["lost", "passed"]);
});

/** What an agent can do to files that lie where it can write, so that its end would seem to be the machine's doing. */
const FORGERIES = {
  "the boot in shim.json": `sed -i 's/"start_time":"[^:]*:/"start_time":"00000000-0000-0000-0000-000000000000:/' shim.json`,
  "the note of its claim": "rm ../../../scheduler/claims/*",
};
for (const [what, forge] of Object.entries(FORGERIES))
  test(`${what} is forged before shim and scheduler die: that explains nothing, and is not free of charge`, async (t) => {
    const first = `[ -e "$W/agent.pid" ] || (cd "$(dirname "$HOME")" && ${forge})`;
    const { world, run } = await atWork(t, `${first}; ${patient}`);
    const shim = await world.shimOf(run, "long");
    await world.kill(world.scheduler);
    process.kill(shim, "SIGKILL");
    world.startScheduler();
    go(world);
    const { attempts } = await endedWith(world, run, ["lost", "passed"]);
    assert.equal(attempts[0]?.evidence?.machine, undefined, JSON.stringify(attempts[0]?.evidence));
  });

test("the lease ended while no scheduler was there: the next one ends what still runs, then tries again", async (t) => {
  const { world, run, pid } = await atWork(t);
  const shim = await world.shimOf(run, "long");
  await world.kill(world.scheduler);
  process.kill(shim, "SIGKILL");
  await until(
    "the bus calls it lost",
    async () => (await world.state(run)).task("long").counts.lost === 1,
    20_000,
  );
  assert.ok(isAlive(pid), "nobody was there to end it");
  world.startScheduler();
  await until("the agent is ended", () => !isAlive(pid));
  go(world);
  await endedWith(world, run, ["lost", "passed"]);
});

test("scheduler killed right after it started a shim, which has not registered yet: taken over, started once", async (t) => {
  const args = ["--shim", join(FIXTURES, "late.cjs")];
  const world = await engineWorld(t, undefined, { config, schedulerArgs: args });
  const run = await world.submit([long()]);
  await until("the shim's program has begun", () => readdirSync(world.dir).includes("late.pid"));
  await world.kill(world.scheduler);
  world.startScheduler(args);
  await until("it is taken over", () => world.log().includes('"attempt taken over"'));
  writeFileSync(join(world.dir, "late.go"), "");
  go(world);
  await endedWith(world, run, ["passed"]);
  assert.equal(starts(world), "x\n");
});

test("a shim of which the next scheduler can know nothing: shown, neither killed nor freed, and its outcome counts", async (t) => {
  const { world, run, pid } = await atWork(t, patient, ["--shim", join(FIXTURES, "blind.cjs")]);
  await world.kill(world.scheduler);
  world.startScheduler();
  const told = async () => {
    const { records } = await world.person.call("query_audit", { run, method: "attempt_update" });
    return records.find(
      ({ event }) => event?.type === "task.doubt" && event.doubt?.why.includes("start time"),
    );
  };
  await until("the doubt is told", told);
  await leaseOver();
  assert.ok(isAlive(pid), "its heartbeats renew the lease");
  go(world);
  await endedWith(world, run, ["passed"]);
});

const none = { setup: [], shallow: [], middle: [], deep: [] };
const once = 'mkdir "$W/first" || exit 0; echo $$ > "$W/check.pid"; sleep 300';
const PHASES = {
  prepare: { gate: { ...none, setup: [{ run: once, key: [] }] }, results: ["lost", "passed"] },
  prove: {
    gate: { ...none, shallow: [{ name: "s", run: once, inputs: [], timeout_s: 60, limits: {} }] },
    results: ["passed"],
  },
};
for (const [phase, { gate, results }] of Object.entries(PHASES))
  test(`scheduler killed in phase ${phase}: its check is ended, the task goes through`, async (t) => {
    const world = await engineWorld(t, undefined, { config });
    const run = await world.submit([long("echo done > out.txt")], { gate });
    const check = await until("the check runs", () => pidIn(join(world.dir, "check.pid")));
    await world.kill(world.scheduler);
    world.startScheduler();
    await until("the check is ended", () => !isAlive(check));
    const { counts } = await endedWith(world, run, results);
    assert.equal(counts.lost ?? 0, results.length - 1);
  });
