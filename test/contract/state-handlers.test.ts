// The handlers that change state, called as the dispatcher calls them: params parsed by the method table.

import assert from "node:assert/strict";
import { test } from "node:test";
import { isCode } from "../../schemas/errors.ts";
import { METHODS } from "../../schemas/methods.ts";
import { bus, code, FakePeer, ref } from "../helpers/handlers.ts";
import { outcomeOf } from "../helpers/outcomes.ts";
import { BASE, oid, runSpec, taskSpec } from "../helpers/state.ts";
import { until } from "../helpers/wait.ts";

test("every method that is not a pure read has a handler here, and no other", async (t) => {
  const b = await bus(t);
  const elsewhere = [
    "ping",
    "hello",
    "get_task",
    "get_file",
    "list_files",
    "write_manifest",
    "subscribe",
    "shutdown",
  ];
  const here = Object.keys(METHODS).filter((m) => !elsewhere.includes(m));
  assert.deepEqual(Object.keys(b.methods.handlers).sort(), here.sort());
});

test("register_worker: one scheduler at a time; its place is free when its connection closes", async (t) => {
  const b = await bus(t);
  const first = new FakePeer();
  const sandbox = { works: false, said: "not installed", cure: "install it" };
  const words = { worker: "w1", host: "h", pid: 1, start_time: "1", slots: 2, sandbox };
  const answer = await b.call("scheduler", "register_worker", words, { peer: first });
  assert.equal(answer.tasks.length, 3);
  assert.deepEqual([answer.state_dir, answer.runtime_dir, answer.seq], ["/state", "/run", b.store.seq]);
  await b.call("scheduler", "register_worker", words, { peer: first });
  const second = b.call("scheduler", "register_worker", { ...words, worker: "w2" }, { peer: new FakePeer() });
  await assert.rejects(second, code("WORKER_EXISTS"));
  assert.deepEqual(b.methods.worker(), { worker: "w1", sandbox });
  first.close();
  assert.deepEqual(b.methods.worker(), { worker: null });
  await b.call("scheduler", "register_worker", { ...words, worker: "w2" }, { peer: new FakePeer() });
  const events = (await b.store.query({ limit: 1_000 })).records.map((r) => r.event?.type);
  assert.deepEqual(
    events.filter((e) => e?.startsWith("worker.")),
    ["worker.registered", "worker.gone", "worker.registered"],
  );
});

test("claim: answers the tokens of that attempt; cancel reaches its shim at once, or when it comes back", async (t) => {
  const b = await bus(t);
  const a = await b.claim("a");
  assert.deepEqual([a.answer.shim_token, a.answer.agent_token], ["shim.a.1", "agent.a.1"]);
  const peer = new FakePeer();
  const start = { kind: "agent", name: "agent", pid: 7, start_time: "1" } as const;
  const shim = { peer, attempt: ref(a) };
  assert.ok((await b.call("shim", "register", start, shim)).heartbeat_ms > 0);
  assert.deepEqual(await b.call("person", "cancel", { run: "r", task: "a" }), { cancelled: ["a"] });
  assert.deepEqual(peer.got, [["cancel", { reason: "cancelled by person" }]]);
  const back = new FakePeer();
  await b.call("shim", "heartbeat", { kind: "agent" }, { peer: back, attempt: ref(a) });
  assert.deepEqual(back.got, [["cancel", { reason: "cancelled by person" }]]);
  const outcome = outcomeOf(ref(a), { reason: "cancelled" });
  assert.deepEqual(await b.call("shim", "complete", { outcome }, shim), { accepted: true });
  const seq = b.store.seq;
  assert.deepEqual(await b.call("shim", "complete", { outcome }, shim), { accepted: true });
  assert.equal(b.store.seq, seq, "B6: the same ending again is no event");
  const other = { ...outcome, ref: { ...ref(a), task: "c" } };
  await assert.rejects(b.call("shim", "complete", { outcome: other }, shim), code("INVALID_PARAMS"));
});

test("publish: answered by the next snapshot of the attempt; FENCED when it ends before", async (t) => {
  const b = await bus(t);
  const a = await b.claim("a");
  const asked = b.call("agent", "publish", {}, { attempt: ref(a) });
  const seen = async () =>
    (await b.store.query({ newest: true, limit: 1 })).records[0]?.event?.type === "task.publish_requested";
  await until("the scheduler is asked", seen);
  const shot = {
    ...ref(a),
    base: BASE,
    commit: oid(1),
    tree: oid(2),
    changed: [{ path: "f", mode: "100644", oid: oid(3) }],
  };
  assert.deepEqual(await b.call("scheduler", "publish_snapshot", shot), { version: 1, inputs_changed: [] });
  assert.deepEqual(await asked, { version: 1, commit: oid(1), tree: oid(2), changed_count: 1 });
  const again = b.call("agent", "publish", {}, { attempt: ref(a) });
  const refused = assert.rejects(again, code("FENCED"));
  await until("the scheduler is asked", seen);
  await b.call("person", "cancel", { run: "r", task: "a" });
  await refused;
  await assert.rejects(b.call("agent", "publish", {}, { attempt: ref(a) }), code("FENCED"));
});

test("B8: what landed on paths that an attempt has read is told, with the tasks that landed it", async (t) => {
  const b = await bus(t);
  const a = await b.claim("a");
  const c = await b.claim("c");
  b.store.access({
    actor: "agent:r/c#1",
    method: "get_file",
    request_id: "q",
    response_time_ms: 1,
    ...ref(c),
    access: { path: "api.ts", oid: oid(9) },
  });
  const changed = [
    { path: "api.ts", mode: "100644", oid: oid(3) },
    { path: "own", mode: "100644", oid: oid(3) },
  ];
  await b.call("scheduler", "publish_snapshot", {
    ...ref(a),
    base: BASE,
    commit: oid(1),
    tree: oid(2),
    changed,
  });
  const snapshot = { version: 1, commit: oid(1), tree: oid(2), changed_count: 2 };
  await b.call("scheduler", "settle_attempt", {
    ...ref(a),
    result: { kind: "passed", snapshot, base: BASE },
  });
  assert.deepEqual(await b.call("scheduler", "inputs_changed", ref(c)), { paths: [], landed_since: [] });
  const landed = await b.call("scheduler", "land", {
    ...ref(a),
    old_head: BASE,
    commit: oid(5),
    tree: oid(2),
  });
  assert.deepEqual(landed.ready, ["b"]);
  assert.deepEqual(await b.call("scheduler", "inputs_changed", ref(c)), {
    paths: ["api.ts"],
    landed_since: ["a"],
  });
  const own = { ...ref(c), base: BASE, commit: oid(6), tree: oid(7), changed: [] };
  assert.deepEqual(await b.call("scheduler", "publish_snapshot", own), {
    version: 1,
    inputs_changed: ["api.ts"],
  });
  assert.deepEqual(b.store.view.task("r", "c")?.attempts[0]?.inputs_changed, ["api.ts"]);
});

test("task_status_update: an agent speaks for its own task only; people see it, the state does not move", async (t) => {
  const b = await bus(t);
  const a = await b.claim("a");
  const word = { status: "working", message: "half way", percent: 50 };
  const { state_version } = await b.call("agent", "task_status_update", word, { attempt: ref(a) });
  assert.equal(
    (await b.call("agent", "task_status_update", word, { attempt: ref(a) })).state_version,
    state_version,
  );
  const foreign = b.call("agent", "task_status_update", { ...word, task_id: "c" }, { attempt: ref(a) });
  await assert.rejects(foreign, code("FORBIDDEN"));
  const { tasks } = await b.call("person", "list_tasks", { run: "r", states: ["running"] });
  assert.equal(tasks[0]?.attempts[0]?.progress?.message, "half way");
});

test("people: lists, summary, metrics, verify, audit", async (t) => {
  const b = await bus(t);
  const { summary } = await b.call("person", "get_run", { run: "r" });
  assert.deepEqual([summary.status, summary.counts, summary.total], ["active", { ready: 2, pending: 1 }, 3]);
  await b.call("person", "pause", { run: "r" });
  assert.equal((await b.call("person", "list_runs", {})).runs[0]?.status, "paused");
  await b.call("person", "resume", { run: "r" });
  for (const method of ["get_run", "list_tasks"] as const) {
    await assert.rejects(b.call("person", method, { run: "nope" }), code("NO_SUCH_RUN"));
  }
  assert.equal((await b.call("person", "verify", {})).ok, true);
  const { text } = await b.call("person", "metrics", {});
  assert.match(text, /^busbar_tasks\{state="ready"\} 2$/m);
  assert.match(text, new RegExp(`^busbar_journal_seq ${b.store.seq}$`, "m"));
  const { records } = await b.call("person", "query_audit", { run: "r", method: "pause" });
  assert.deepEqual(
    records.map((r) => r.event?.type),
    ["run.paused"],
  );
});

test("issue 5.1: a run that was cancelled while it was paused waits for nothing any more", async (t) => {
  const b = await bus(t);
  const why = async () => (await b.call("person", "get_run", { run: "r" })).summary.paused_why;
  await b.call("person", "pause", { run: "r", why: "the gate is red" });
  assert.equal(await why(), "the gate is red");
  await b.call("person", "cancel", { run: "r" });
  assert.equal(await why(), undefined);
});

test("issue 2.6: a plan or a further task with a profile that the bus has not read is refused, with the way on", async (t) => {
  const b = await bus(t);
  const tasks = [taskSpec("x"), taskSpec("y", { agent: { use: "mine", args: [] } })];
  const { seq } = b.store;
  const known = (e: unknown) =>
    isCode(e, "NO_SUCH_PROFILE") &&
    /task "y" names the agent "mine".*\(known: command\)/.test(e.message) &&
    /`busctl down`, `busctl up`, then again/.test(String(e.data.help));
  await assert.rejects(b.call("person", "submit_run", { spec: runSpec("q", tasks) }), known);
  await assert.rejects(b.call("person", "submit_run", { spec: runSpec("r", tasks), add_to: "r" }), known);
  assert.equal(b.store.seq, seq, "nothing was begun");
});
