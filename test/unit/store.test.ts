import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { test } from "node:test";
import { claim } from "../../bus/state/decide-attempt.ts";
import { planHash, submit } from "../../bus/state/decide-run.ts";
import { land, settle } from "../../bus/state/decide-settle.ts";
import type { Store } from "../../bus/state/store.ts";
import { FaultyDisk } from "../helpers/faulty-disk.ts";
import { BASE, dump, HALF, oid, openStore, runSpec, specsOf } from "../helpers/state.ts";
import { tempDir } from "../helpers/temp.ts";

const ME = { actor: "person", method: "submit_run", requestId: "q1" };
const GRAPH = { a: [], b: ["a"], c: ["a", "b"] };

async function submitted(store: Store): Promise<void> {
  const spec = runSpec("r", specsOf(GRAPH));
  await store.change(ME, (d) => submit(d, { spec }, "me", planHash(spec)));
}

/** Claims, settles and lands a ready task; its landing is commit `n`. */
async function through(store: Store, task: string, n: number): Promise<string[]> {
  const ctx = { actor: "scheduler:w" };
  const { state_version } = store.view.task("r", task)!;
  const head = store.view.run("r")!.head;
  const ref = { run: "r", task };
  const got = await store.change(ctx, (d) =>
    claim(d, { ...ref, state_version, worker: "w", base: head, workspace: "/w" }),
  );
  const snapshot = { version: 1, commit: oid(n + 100), tree: oid(n + 200), changed_count: 1 };
  const result = { kind: "passed", snapshot, base: head } as const;
  await store.change(ctx, (d) => settle(d, { ...ref, attempt: got.attempt, result }, HALF));
  const landing = { ...ref, attempt: got.attempt, old_head: head, commit: oid(n), tree: oid(n + 300) };
  return (await store.change(ctx, (d) => land(d, landing))).ready;
}

test("B5: a landing readies the dependents in the same transaction, and all survives a restart", async (t) => {
  const dir = tempDir(t);
  const store = await openStore(dir);
  await submitted(store);
  assert.equal(store.view.task("r", "a")?.state.name, "ready");
  assert.deepEqual(store.view.task("r", "c")?.state, { name: "pending", waits_for: ["a", "b"] });
  assert.deepEqual(await through(store, "a", 1), ["b"]);
  assert.deepEqual(store.view.task("r", "c")?.state, { name: "pending", waits_for: ["b"] });
  assert.deepEqual(await through(store, "b", 2), ["c"]);
  assert.equal(store.view.run("r")?.head, oid(2));
  assert.equal(store.view.snapshots("r", "b")[0]?.commit, oid(1), "version 0 is the base of the attempt");
  const before = dump(store);
  const seq = store.seq;
  await store.close();

  const again = await openStore(dir);
  assert.deepEqual(dump(again), before, "from checkpoint");
  assert.equal(again.seq, seq);
  assert.deepEqual(await again.verify(), { ok: true, records: seq, replay: { same: true } });
  await again.close();
});

test("B7: without any checkpoint the journal alone gives the same state", async (t) => {
  const dir = tempDir(t);
  const { rm } = await import("node:fs/promises");
  const store = await openStore(dir);
  await submitted(store);
  await through(store, "a", 1);
  const before = dump(store);
  await store.close();
  await rm(`${dir}/checkpoint`, { recursive: true });
  const again = await openStore(dir);
  assert.deepEqual(dump(again), before);
  assert.deepEqual(await through(again, "b", 2), ["c"], "and it goes on from there");
  await again.close();
});

test("B6: one of many claims at once wins, the others are told that newer state exists", async (t) => {
  const store = await openStore(tempDir(t));
  await submitted(store);
  const { state_version } = store.view.task("r", "a")!;
  const claims = Array.from({ length: 20 }, (_, i) =>
    store.change({ actor: "scheduler" }, (d) =>
      claim(d, { run: "r", task: "a", state_version, worker: `w${i}`, base: BASE, workspace: "/w" }),
    ),
  );
  const ends = await Promise.allSettled(claims);
  assert.equal(ends.filter((e) => e.status === "fulfilled").length, 1);
  for (const e of ends) if (e.status === "rejected") assert.equal(e.reason.code, "STALE");
  await store.close();
});

test("B4: when a read may be answered its record stands in the file, whatever the disk is busy with", async (t) => {
  const dir = tempDir(t);
  const disk = new FaultyDisk();
  const store = await openStore(dir, { disk });
  await submitted(store);
  const { syncs } = store.journalCounters;
  let release = () => {};
  disk.beforeDatasync = new Promise((resolve) => {
    release = () => resolve();
  });
  const change = store.change(ME, (d) => d.emit({ run: "r" }, { type: "run.paused", by: "me" }));
  const read = (n: number) =>
    store.access(
      {
        actor: "person",
        method: "get_file",
        request_id: `q${n}`,
        response_time_ms: 1,
        access: { path: `f${n}` },
      },
      true,
    );
  await Promise.all([read(1), read(2)]);
  await read(3);
  const text = readFileSync(join(dir, "journal/000000000001.jsonl"), "utf8");
  for (const n of [1, 2, 3]) assert.ok(text.includes(`"request_id":"q${n}"`));
  assert.equal(store.journalCounters.syncs, syncs, "none of them waited for the disk");
  assert.equal(store.view.run("r")?.paused, false, "nor is the change seen before it is durable");
  const asked = store.query({ method: "get_file" });
  release();
  assert.deepEqual(
    (await asked).records.map((r) => r.request_id),
    ["q1", "q2", "q3"],
  );
  await change;
  await store.close();
});

test("B4: reads are recorded, feed the read set, and can be asked for with events, both ways round", async (t) => {
  const dir = tempDir(t);
  const store = await openStore(dir);
  await submitted(store);
  const { state_version } = store.view.task("r", "a")!;
  await store.change({ actor: "scheduler:w", method: "claim" }, (d) =>
    claim(d, { run: "r", task: "a", state_version, worker: "w", base: BASE, workspace: "/w" }),
  );
  for (const n of [1, 2, 3]) {
    store.access({
      actor: "agent:r/a#1",
      method: "get_file",
      request_id: `q${n}`,
      response_time_ms: 1,
      run: "r",
      task: "a",
      attempt: 1,
      access: { path: `f${n}`, oid: oid(n) },
    });
  }
  await store.change({ actor: "person", method: "pause" }, (d) =>
    d.emit({ run: "r" }, { type: "run.paused", by: "me" }),
  );
  assert.deepEqual([...store.view.readSet("r", "a", 1).keys()], ["f1", "f2", "f3"]);
  const oldest = await store.query({ task: "a", method: "get_file", limit: 2 });
  assert.deepEqual(
    oldest.records.map((r) => r.access?.path),
    ["f1", "f2"],
  );
  const more = await store.query({ task: "a", method: "get_file", after_seq: oldest.next! });
  assert.deepEqual(more, { records: more.records.slice(0, 1) });
  const newest = await store.query({ newest: true, limit: 3 });
  assert.deepEqual(
    newest.records.map((r) => r.event?.type ?? r.access?.path),
    ["run.paused", "f3", "f2"],
  );
  const older = await store.query({ newest: true, limit: 2, after_seq: newest.next! });
  assert.deepEqual(
    older.records.map((r) => r.event?.type ?? r.access?.path),
    ["f1", "task.claimed"],
  );
  const streamed = [];
  for await (const r of store.recordsAfter(0, { run: "r" })) streamed.push(r.event?.type);
  assert.deepEqual(streamed, ["run.submitted", "task.ready", "task.claimed", "run.paused"]);
  const before = dump(store);
  await store.close();
  const again = await openStore(dir);
  assert.deepEqual(dump(again), before, "read sets come back too");
  await again.close();
});
