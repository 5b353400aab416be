// Exactly once (B6): what is said again changes nothing, and nobody of an attempt that is over can say anything. The
// table is complete by construction: a method that changes something is either of an attempt and fenced here, or named
// as one that is of none.

import assert from "node:assert/strict";
import { type TestContext, test } from "node:test";
import { Snapshots } from "../../bus/snapshot.ts";
import type { Store } from "../../bus/state/store.ts";
import { isCode } from "../../schemas/errors.ts";
import type { AttemptRef } from "../../schemas/ids.ts";
import { METHODS, type MethodName, type Params, type Role } from "../../schemas/methods.ts";
import { Bus, FakePeer } from "../helpers/handlers.ts";
import { outcomeOf } from "../helpers/outcomes.ts";
import { BASE, dump, oid, openStore, runSpec, specsOf } from "../helpers/state.ts";
import { tempDir } from "../helpers/temp.ts";

const FIRST: AttemptRef = { run: "r", task: "a", attempt: 1 };

const verdict = { check: "c", tier: "deep", tree: oid(1), verdict: "pass", exit: 0 } as const;
const snapshot = { version: 1, commit: oid(1), tree: oid(2), changed_count: 1 };
const changed = [{ path: "src/f", mode: "100644", oid: oid(3) }];

/** What somebody of attempt 1 would say. */
const OF_AN_ATTEMPT: { [M in MethodName]?: Params<M> } = {
  task_status_update: { status: "working", message: "" },
  request_files: { paths: ["lib/x"], reason: "" },
  publish: {},
  register: { kind: "agent", name: "agent", pid: 7, start_time: "b:1" },
  heartbeat: { kind: "agent", usage: { rss: 1, cpu_ms: 1, processes: 1 } },
  complete: { outcome: outcomeOf(FIRST) },
  attempt_update: { ...FIRST, phase: "prove" },
  hold_attempt: { ...FIRST, why: "the disk is full" },
  publish_snapshot: { ...FIRST, base: BASE, commit: oid(1), tree: oid(2), changed },
  record_verdict: { ...FIRST, verdict: { ...verdict, duration_ms: 1, command: "c" } },
  settle_attempt: { ...FIRST, result: { kind: "passed", snapshot, base: BASE } },
  land: { ...FIRST, old_head: BASE, commit: oid(4), tree: oid(2) },
};
/** Fenced by state_version, or of a person, a run or the bus. */
const OF_NONE: readonly MethodName[] = [
  "approve",
  "cancel",
  "claim",
  "grant_files",
  "pause",
  "register_worker",
  "reject",
  "report_into",
  "resume",
  "retry_task",
  "shutdown",
  "submit_run",
];

async function busOf(t: TestContext, dir = tempDir(t)): Promise<Bus> {
  const store = await openStore(dir);
  const b = new Bus(store);
  t.after(() => b.methods.stop());
  return b;
}

/** Attempt 1 of task a is lost, attempt 2 is at work. */
async function secondAttempt(t: TestContext): Promise<Bus> {
  const b = await busOf(t);
  await b.call("person", "submit_run", { spec: runSpec("r", specsOf({ a: [] })) });
  await b.claim("a");
  const evidence = { summary: "s" };
  await b.call("scheduler", "settle_attempt", {
    ...FIRST,
    result: { kind: "failed", cause: "lost", evidence },
  });
  await b.store.change({ actor: "bus" }, (d) => d.emitTask(d.mustTask("r", "a"), { type: "task.ready" }));
  assert.equal((await b.claim("a")).attempt, 2);
  return b;
}

const roleOf = (method: MethodName) => (METHODS[method].roles as readonly Role[])[0] as Role;

test("every method that changes something is of an attempt, and fenced, or of none", () => {
  const changing = Object.entries(METHODS).filter(([, def]) => !def.reads);
  assert.deepEqual(
    changing.map(([name]) => name).sort(),
    [...Object.keys(OF_AN_ATTEMPT), ...OF_NONE].sort(),
    "name it in one of the two lists",
  );
});

for (const [method, params] of Object.entries(OF_AN_ATTEMPT) as [MethodName, never][])
  test(`a zombie of attempt 1 says ${method}: FENCED, and attempt 2 does not see it`, async (t) => {
    const b = await secondAttempt(t);
    const before = dump(b.store);
    const { seq } = b.store;
    const said = b.call(roleOf(method), method, params, { attempt: FIRST });
    await assert.rejects(said, (error) => isCode(error, "FENCED"));
    assert.deepEqual([b.store.seq, dump(b.store)], [seq, before]);
    await b.store.close();
  });

test("a zombie of attempt 1 reads no file, and a claim with an old state_version is STALE", async (t) => {
  const b = await secondAttempt(t);
  const snapshots = new Snapshots(() => b.store.view);
  const read = () => snapshots.resolve({ role: "agent", attempt: FIRST }, {});
  assert.throws(read, (error) => isCode(error, "FENCED"));
  const old = { run: "r", task: "a", state_version: 1, worker: "w", base: BASE, workspace: "/other" };
  await assert.rejects(b.call("scheduler", "claim", old), (error) => isCode(error, "STALE"));
  await b.store.close();
});

test("an outcome of attempt 1 under the token of attempt 2 is refused: no outbox is taken for another's", async (t) => {
  const b = await secondAttempt(t);
  const { seq } = b.store;
  const swapped = b.call(
    "shim",
    "complete",
    { outcome: outcomeOf(FIRST) },
    { attempt: { ...FIRST, attempt: 2 } },
  );
  await assert.rejects(swapped, (error) => isCode(error, "INVALID_PARAMS"));
  assert.equal(b.store.seq, seq);
  await b.store.close();
});

const ends = (store: Store) => store.view.task("r", "a")?.attempts[0]?.procs?.filter((p) => p.ended).length;

test("complete a hundred times, at once, by two connections, and again after a restart: one event", async (t) => {
  const dir = tempDir(t);
  const b = await busOf(t, dir);
  await b.call("person", "submit_run", { spec: runSpec("r", specsOf({ a: [] })) });
  await b.claim("a");
  const peers = [new FakePeer(), new FakePeer()];
  const say = (bus: Bus, n: number) =>
    bus.call(
      "shim",
      "complete",
      { outcome: outcomeOf(FIRST) },
      { attempt: FIRST, peer: peers[n % 2] as FakePeer },
    );
  const { seq } = b.store;
  const answers = await Promise.all(Array.from({ length: 100 }, (_, n) => say(b, n)));
  assert.deepEqual(new Set(answers.map((answer) => JSON.stringify(answer))).size, 1);
  assert.deepEqual([b.store.seq - seq, ends(b.store)], [1, 1]);
  b.methods.stop();
  await b.store.close();
  const again = await busOf(t, dir);
  const before = again.store.seq;
  for (let n = 0; n < 100; n++) await say(again, n);
  assert.deepEqual([again.store.seq, ends(again.store)], [before, 1]);
  await again.store.close();
});

test("record_verdict: told again it is one; an older one again behind another is news, for the newest counts", async (t) => {
  const b = await busOf(t);
  await b.call("person", "submit_run", { spec: runSpec("r", specsOf({ a: [] })) });
  await b.claim("a");
  const pass = { ...verdict, duration_ms: 3, command: "c" };
  const fail = { ...pass, verdict: "fail", exit: 1 } as const;
  const say = (one: Params<"record_verdict">["verdict"]) =>
    b.call("scheduler", "record_verdict", { ...FIRST, verdict: one });
  for (const one of [fail, fail, pass, pass, fail, { ...pass, check: "other" }, fail]) await say(one);
  const said = b.store.view.task("r", "a")?.attempts[0]?.verdicts.map((v) => `${v.check} ${v.verdict}`);
  assert.deepEqual(said, ["c fail", "c pass", "c fail", "other pass"]);
  await b.store.close();
});

test("claim: a workspace that is not the plain absolute name of a directory is refused", async (t) => {
  const b = await busOf(t);
  await b.call("person", "submit_run", { spec: runSpec("r", specsOf({ a: [] })) });
  const wish = { run: "r", task: "a", state_version: 1, worker: "w", base: BASE };
  for (const workspace of [
    "",
    "w",
    "./w",
    "/",
    "/w/",
    "//w",
    "/w/../v",
    "/w/.",
    "/w\0",
    `/${"w".repeat(4096)}`,
  ])
    await assert.rejects(b.call("scheduler", "claim", { ...wish, workspace }), /directory/, workspace);
  await b.store.close();
});
