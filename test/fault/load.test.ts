// The bus under load: memory and descriptors stay bounded, and others are served. Counts and bounds only; how long a
// lone caller waits beside 200 busy ones is a row of `npm run bench -- rpc`.

import assert from "node:assert/strict";
import { once } from "node:events";
import { readdirSync, readFileSync } from "node:fs";
import { connect, type Socket } from "node:net";
import { join } from "node:path";
import { type TestContext, test } from "node:test";
import { connectBus } from "../../bus/client/client.ts";
import { readToken } from "../../bus/client/find.ts";
import { busPaths, readEndpoint } from "../../bus/paths.ts";
import type { JournalRecord } from "../../schemas/events.ts";
import { addHistory, beginHistory } from "../../scripts/bench/history.ts";
import { personOf, startBusd } from "../helpers/busd.ts";
import { daemonInProcess } from "../helpers/daemon.ts";
import { GitRepo } from "../helpers/git-repo.ts";
import { tempDir } from "../helpers/temp.ts";
import { until } from "../helpers/wait.ts";

const READY_MS = 60_000; // tsx on a busy machine
const LONG_MS = 60_000;
const CONNECTIONS = Number(process.env.BUSBAR_LOAD_CONNECTIONS ?? 10_000);
/** The whole is 100,000. */
const EVENTS = Number(process.env.BUSBAR_LOAD_EVENTS ?? 30_000);

function repoIn(dir: string): { repo: GitRepo; base: string } {
  const repo = new GitRepo(join(dir, "repo"));
  repo.write("f.txt", "x".repeat(10_000));
  return { repo, base: repo.commit() };
}

/** The real busd with one client, and a look at its process. */
async function busd(t: TestContext) {
  const dir = tempDir(t, "load");
  const { repo } = repoIn(dir);
  const started = startBusd(t, repo.common, dir);
  const socket = (await until("the bus is ready", () => started.ready, READY_MS)) as string;
  const proc = `/proc/${started.child.pid}`;
  const endpoint = readEndpoint(join(repo.common, "busbar", "endpoint.json"));
  return {
    socket,
    other: await personOf(t, repo.common),
    hello: hello(readToken(endpoint!, "person")),
    descriptors: () => readdirSync(`${proc}/fd`).length,
    megabytes: () => Number(/VmRSS:\s+(\d+)/.exec(readFileSync(`${proc}/status`, "utf8"))?.[1]) / 1024,
  };
}

const call = (id: unknown, method: string, params: object = {}) =>
  `${JSON.stringify({ jsonrpc: "2.0", id, method, params })}\n`;

function hello(token: string): string {
  return call("hello", "hello", { protocol: { min: 1, max: 1 }, role: "person", token, client: "load" });
}

/** Tried again while more wait to be taken than the kernel lets wait. */
async function open(socket: string): Promise<Socket> {
  return until("a connection", async () => {
    const raw = connect(socket);
    raw.on("error", () => {}); // "close" follows
    return await once(raw, "connect").then(
      () => raw,
      () => undefined,
    );
  });
}

/** Counts the lines that come. */
function lines(socket: Socket): () => number {
  let count = 0;
  socket.on("data", (chunk: Buffer) => {
    for (const byte of chunk) if (byte === 0x0a) count += 1;
  });
  return () => count;
}

test("200 clients that call without pause are all answered, and so is a lone one beside them", async (t) => {
  const bus = await busd(t);
  const [descriptors, before] = [bus.descriptors(), bus.megabytes()];
  const busy = await Promise.all(Array.from({ length: 200 }, () => open(bus.socket)));
  t.after(() => busy.map((each) => each.destroy()));
  const counts = busy.map(lines);
  const CALLS = 100;
  const text = bus.hello + Array.from({ length: CALLS }, (_, n) => call(n, "list_runs")).join("");
  for (const each of busy) each.write(text);
  const answered = () => counts.reduce((sum, count) => sum + count(), 0);
  const all = 200 * (CALLS + 1);
  let alone = 0;
  while (answered() < all) {
    await bus.other.call("ping", {});
    alone += 1;
  }
  assert.equal(answered(), all);
  // In turns of 64 frames for each connection the lone one would wait for 12,800 others, and be answered twice.
  assert.ok(alone >= 10, `${alone} answers for the lone caller`);
  for (const each of busy) each.end();
  await until("descriptors are given back", () => bus.descriptors() <= descriptors + 2, LONG_MS);
  assert.ok(bus.megabytes() - before < 150, `${before} -> ${bus.megabytes()} MB`);
});

test("clients that never read, and clients that wait within a frame: bounded memory, others are served", async (t) => {
  const bus = await busd(t);
  const before = bus.megabytes();
  const deaf = await Promise.all(Array.from({ length: 20 }, () => open(bus.socket)));
  const half = await Promise.all(Array.from({ length: 20 }, () => open(bus.socket)));
  t.after(() => [...deaf, ...half].map((each) => each.destroy()));
  for (const each of deaf) {
    each.pause();
    // Some 30 MB of answers each, if they were all made.
    each.write(bus.hello + call(1, "metrics").repeat(10_000));
  }
  for (const each of half)
    each.write(Buffer.from(bus.hello + call(1, "ping").slice(0, -5) + " ".repeat(500_000)));
  await until("the half frames have arrived", () => half.every((each) => each.writableLength === 0), LONG_MS);
  for (let n = 0; n < 50; n++) await bus.other.call("list_runs", {});
  // What a deaf peer is owed stops at 1 MiB, and what it asks for waits in its own socket.
  assert.ok(
    deaf.some((each) => each.writableLength > 0),
    "the flood waits in its sender",
  );
  assert.ok(bus.megabytes() - before < 200, `${before} -> ${bus.megabytes()} MB`);
});

test("connections opened and closed, greeted or not, leave neither descriptors nor memory behind", async (t) => {
  const bus = await busd(t);
  const round = async (n: number) => {
    const some = await Promise.all(Array.from({ length: n }, () => open(bus.socket)));
    for (const [i, each] of some.entries()) {
      if (i % 4 === 0) each.end(call(i, "ping"));
      else if (i % 4 === 1) each.end(bus.hello);
      else if (i % 4 === 2) each.destroy();
      else each.end('{"half');
      each.resume();
    }
    await Promise.all(some.map((each) => each.closed || once(each, "close")));
  };
  await round(1_000); // what the first ones warm up does not count
  await until("all are gone", () => bus.other.call("ping", {}));
  const [descriptors, before] = [bus.descriptors(), bus.megabytes()];
  for (let n = 0; n < CONNECTIONS; n += 250) await round(250);
  await until("descriptors are given back", () => bus.descriptors() <= descriptors, LONG_MS);
  const more = bus.megabytes() - before;
  assert.ok(more < 60, `${before} MB before, ${more} MB more after ${CONNECTIONS} connections`);
});

test("connections that are opened and never greeted are closed at the deadline", async (t) => {
  const bus = await busd(t);
  const before = bus.descriptors();
  const silent = await Promise.all(Array.from({ length: 500 }, () => open(bus.socket)));
  t.after(() => silent.map((each) => each.destroy()));
  for (const each of silent) each.resume();
  await bus.other.call("list_runs", {});
  await until("all are closed by the bus", () => silent.every((each) => each.closed), LONG_MS);
  await until("descriptors are given back", () => bus.descriptors() <= before, LONG_MS);
});

test("a long journal of one run: subscribed from the first, also slowly, asked for and listed", async (t) => {
  const dir = tempDir(t, "events");
  const { repo, base } = repoIn(dir);
  const env = { HOME: dir, BUSBAR_STATE_DIR: join(dir, "state"), BUSBAR_RUNTIME_DIR: join(dir, "run") };
  const paths = busPaths(repo.common, env, process.getuid?.() ?? 0);
  const { daemon, store } = await daemonInProcess(paths, () => {});
  t.after(() => daemon.stop("test over"));
  const order = { run: "long", repo: repo.common, base, workspace: dir, tasks: 200, running: 20 };
  await beginHistory(store, order);
  await addHistory(store, order, EVENTS);
  const token = readToken({ runtime_dir: paths.runtime }, "person");
  const client = async () => {
    const made = await connectBus({
      socket: daemon.socket,
      role: "person",
      token,
      client: "t",
      callTimeoutMs: LONG_MS,
    });
    t.after(() => made.close());
    return made;
  };

  const [fast, asking] = [await client(), await client()];
  const slow = await open(daemon.socket);
  t.after(() => slow.destroy());
  const slowly = slowSubscriber(slow, hello(token) + call(1, "subscribe", { run: "long", from_seq: 0 }));
  let last = 0;
  let events = 0;
  fast.on("event", (record: JournalRecord) => {
    assert.ok(record.seq > last, `record ${record.seq} after ${last}`);
    last = record.seq;
    events += 1;
  });
  await fast.call("subscribe", { run: "long", from_seq: 0 });
  await until("every event has come", () => events >= EVENTS, 4 * LONG_MS);

  const { tasks } = await asking.call("list_tasks", { run: "long" });
  assert.deepEqual([tasks.length, tasks.filter((task) => task.state.name === "running").length], [200, 20]);
  const filter = { run: "long", task: "task_3", kind: "event" as const, limit: 1_000 };
  const seen = new Set<number>();
  for (let after: number | undefined = 0; after !== undefined; ) {
    const page: { records: JournalRecord[]; next?: number } = await asking.call("query_audit", {
      ...filter,
      after_seq: after,
    });
    for (const record of page.records) seen.add(record.seq);
    after = page.next;
  }
  assert.equal(
    seen.size,
    (store.view.task("long", "task_3")?.state_version ?? 0) - 1,
    "one record for each change after the submit",
  );

  assert.ok(slowly.count() < EVENTS, "the slow one held up nobody");
  assert.ok(daemon.server.connections >= 3, "nor was it cut off: its replay goes at its pace");
  slowly.goOn();
  await until("the slow one has every event too", () => slowly.count() > EVENTS, 4 * LONG_MS);
});

/** Reads nothing until it is told to. */
function slowSubscriber(socket: Socket, words: string) {
  const count = lines(socket);
  socket.pause();
  socket.write(words);
  return { count, goOn: () => socket.resume() };
}
