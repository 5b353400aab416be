// The agent's door: through its socket an agent speaks to the bus as its own attempt, with nothing to prove.

import assert from "node:assert/strict";
import { chmodSync, existsSync, mkdirSync, readFileSync, statSync, writeFileSync } from "node:fs";
import { connect, type Socket } from "node:net";
import { dirname, join } from "node:path";
import test, { type TestContext } from "node:test";
import { MAX_TASK_CONNECTIONS } from "../../schemas/limits.ts";
import { shimWorld, type World } from "../helpers/shim-run.ts";
import { until } from "../helpers/wait.ts";

const WAITS = ["/bin/sh", "-c", ': > "$W/began"; while ! [ -e "$W/go" ]; do sleep 0.02; done'];

async function withDoor(t: TestContext, argv = WAITS) {
  const world = await shimWorld(t);
  const door = join(world.dir, "t", "s");
  world.bus.answers.set("get_task", (params) => ({ asked: params, text: "é".repeat(10) }));
  const run = world.start(world.job(argv, { task_socket: door }));
  // The agent is begun once its door is open; the socket's file is there a moment before anybody listens.
  if (argv === WAITS) await until("the agent", () => existsSync(join(world.dir, "began")));
  return { world, door, run };
}

/** Sends text, half-closes, and gives all that comes back. */
function ask(door: string, text: string): Promise<string> {
  return new Promise((resolve, reject) => {
    const socket = connect({ path: door, allowHalfOpen: true });
    let got = "";
    socket.on("data", (chunk) => {
      got += chunk;
    });
    socket.on("error", reject);
    socket.on("end", () => resolve(got));
    socket.on("close", () => resolve(got));
    socket.end(text);
  });
}
const request = (id: number, params: object = {}) =>
  `${JSON.stringify({ jsonrpc: "2.0", id, method: "get_task", params })}\n`;
const finish = (world: World) => writeFileSync(join(world.dir, "go"), "");

test("a connection is the attempt: greeted by the shim, bytes passed as they are, gone at the end", async (t) => {
  const { world, door, run } = await withDoor(t);
  assert.equal(statSync(door).mode & 0o777, 0o600);
  assert.equal(statSync(dirname(door)).mode & 0o777, 0o700);
  world.bus.answerAfterMs = 50; // the half-closed side has to be waited for
  const answers = (await ask(door, request(1) + request(2, { task: "x" }))).trim().split("\n");
  world.bus.answerAfterMs = 0;
  assert.deepEqual(
    answers.map((line) => JSON.parse(line)),
    [
      { jsonrpc: "2.0", id: 1, result: { asked: {}, text: "é".repeat(10) } },
      { jsonrpc: "2.0", id: 2, result: { asked: { task: "x" }, text: "é".repeat(10) } },
    ],
  );
  const call = world.bus.of("get_task")[0];
  assert.deepEqual([call?.role, call?.token], ["agent", "agent-token-0123456789"]);
  finish(world);
  await run.end();
  assert.equal(existsSync(door), false);
});

test("issue 4.4, L6: what an agent tells the bus holds no secret, and stays whole", async (t) => {
  const world = await shimWorld(t);
  const door = join(world.dir, "t", "s");
  const value = 'pa55 "w@rd"/with\\chars';
  world.bus.answers.set("get_task", (params) => params);
  const secrets = [{ name: "KEY", value }];
  const run = world.start(world.job(WAITS, { task_socket: door, secrets }));
  await until("the agent", () => existsSync(join(world.dir, "began")));
  const frames = request(1, { task: `it is ${value}` }) + request(2, { task: "pa55" });
  const answers = (await ask(door, frames))
    .trim()
    .split("\n")
    .map((line) => JSON.parse(line));
  assert.deepEqual(
    answers.map(({ result }) => result.task),
    ["it is [redacted:KEY]", "pa55"],
  );
  // An answer comes also while the connection stays open: nothing of a call is held back.
  const socket = connect({ path: door });
  t.after(() => socket.destroy());
  let got = "";
  socket.on("data", (chunk) => {
    got += chunk;
  });
  socket.write(request(3, { task: "pa55" }));
  await until("the answer", () => got.endsWith("\n"));
  finish(world);
  await run.end();
});

test("large answers come through a slow reader whole", async (t) => {
  const { world, door, run } = await withDoor(t);
  world.bus.answers.set("get_task", () => "y".repeat(3_000_000));
  const answer = JSON.parse(await ask(door, request(1)));
  assert.equal(answer.result.length, 3_000_000);
  finish(world);
  await run.end();
});

test("the bus is away for a moment: the connection waits for it", async (t) => {
  const { world, door, run } = await withDoor(t);
  await world.bus.down();
  const answer = ask(door, request(7));
  await world.bus.up();
  assert.equal(JSON.parse(await answer).id, 7);
  finish(world);
  await run.end();
});

test("a refused greeting is one JSON-RPC error line", async (t) => {
  const { world, door, run } = await withDoor(t);
  world.bus.refusals.set("hello", { code: "FENCED", times: 1 });
  const answer = JSON.parse(await ask(door, request(1)));
  assert.deepEqual([answer.id, answer.error.data.code], [null, "FENCED"]);
  finish(world);
  await run.end();
});

test("bus-shim call: an agent with nothing but a shell asks the bus", async (t) => {
  const world = await shimWorld(t);
  const line = [
    `node "$W/bus-shim.cjs" call get_task '{"task":"up"}' > "$W/ok"; echo "ok $?"`,
    `node "$W/bus-shim.cjs" call no_such > "$W/bad" 2> "$W/err"; echo "bad $?"`,
    `node "$W/bus-shim.cjs" call get_task 'not json' 2>> "$W/err"; echo "syntax $?"`,
  ].join("\n");
  world.bus.answers.set("get_task", (params) => ({ asked: params }));
  const run = world.start(world.job(["/bin/sh", "-c", line], { task_socket: join(world.dir, "t", "s") }));
  assert.equal((await run.end()).exit, 0);
  assert.equal(run.log(), "ok 0\nbad 1\nsyntax 1\n");
  assert.deepEqual(JSON.parse(readFileSync(join(world.dir, "ok"), "utf8")), { asked: { task: "up" } });
  assert.equal(readFileSync(join(world.dir, "bad"), "utf8"), "");
  const err = readFileSync(join(world.dir, "err"), "utf8");
  assert.match(err, /there is no method no_such\nSee PROTOCOL\.md/);
  assert.match(err, /are not JSON/);
});

test("case 64 socket-path-too-long: a task socket that cannot be opened is spawn_failed, with the reason", async (t) => {
  const world = await shimWorld(t);
  const door = join(world.dir, "x".repeat(120), "s");
  const outcome = await world.start(world.job(["/bin/true"], { task_socket: door })).end();
  assert.equal(outcome.reason, "spawn_failed");
  assert.match(outcome.detail ?? "", /at most 107/);
});

test("a task socket in a directory that is open to others is refused", async (t) => {
  const world = await shimWorld(t);
  const dir = join(world.dir, "open");
  mkdirSync(dir);
  chmodSync(dir, 0o755);
  const outcome = await world.start(world.job(["/bin/true"], { task_socket: join(dir, "s") })).end();
  assert.equal(outcome.reason, "spawn_failed");
  assert.match(outcome.detail ?? "", /is open to others/);
});

test("one agent may hold so many connections and no more; the others go on", async (t) => {
  const { world, door, run } = await withDoor(t);
  const held: Socket[] = [];
  t.after(() => held.forEach((socket) => void socket.destroy()));
  for (let i = 0; i < MAX_TASK_CONNECTIONS; i++) held.push(connect(door));
  await until("all of them", () => world.bus.of("hello").length === 1 + MAX_TASK_CONNECTIONS);
  const refused = JSON.parse(await ask(door, ""));
  assert.equal(refused.error.data.code, "FORBIDDEN");
  held.pop()?.destroy();
  await until("a free place", async () => JSON.parse(await ask(door, request(5))).id === 5);
  finish(world);
  await run.end();
});
