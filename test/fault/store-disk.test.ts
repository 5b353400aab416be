// case 70 disk-full: what the state does when the disk refuses, and afterwards.

import assert from "node:assert/strict";
import { readdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { type TestContext, test } from "node:test";
import { planHash, submit } from "../../bus/state/decide-run.ts";
import type { Store } from "../../bus/state/store.ts";
import { isCode } from "../../schemas/errors.ts";
import { FaultyDisk } from "../helpers/faulty-disk.ts";
import { dump, MemoryLog, openStore, runSpec, specsOf } from "../helpers/state.ts";
import { tempDir } from "../helpers/temp.ts";
import { until } from "../helpers/wait.ts";

const CTX = { actor: "person", method: "submit_run", requestId: "q" };
const READ = {
  actor: "person",
  method: "get_file",
  request_id: "q",
  response_time_ms: 1,
  access: { path: "f" },
};
const send = (store: Store, run: string) => {
  const spec = runSpec(run, specsOf({ a: [], b: ["a"] }));
  return store.change(CTX, (d) => submit(d, { spec }, "me", planHash(spec)));
};
const isStorage = (e: unknown) => isCode(e, "STORAGE");

async function faulty(t: TestContext, over: Record<string, unknown> = {}) {
  const dir = tempDir(t);
  const disk = new FaultyDisk();
  disk.only = "journal";
  const log = new MemoryLog();
  const store = await openStore(dir, { disk, log, ...over });
  return { dir, disk, log, store };
}

for (const [name, set] of [
  ["ENOSPC at once", (d: FaultyDisk) => d.faults.set("write", "ENOSPC")],
  [
    "ENOSPC after some bytes",
    (d: FaultyDisk) => Object.assign(d, { shortWrite: 700 }).faults.set("write", "ENOSPC"),
  ],
  ["EIO from fdatasync", (d: FaultyDisk) => d.faults.set("datasync", "EIO")],
  ["EROFS", (d: FaultyDisk) => d.faults.set("write", "EROFS")],
] as const) {
  test(`case 70 disk-full: ${name}: the change is refused whole, reads go on, and it recovers`, async (t) => {
    const { dir, disk, log, store } = await faulty(t);
    await send(store, "first");
    const before = dump(store);
    set(disk);
    const both = await Promise.allSettled([send(store, "second"), send(store, "third")]);
    for (const end of both) assert.ok(end.status === "rejected" && isStorage(end.reason), "both of the tick");
    assert.match(store.degraded ?? "", /^state cannot be written: E[A-Z]+$/);
    assert.deepEqual(dump(store), before, "nothing of it is seen");
    store.access(READ);
    await assert.rejects(send(store, "second"), isStorage, "still");
    assert.equal(log.lines.filter((l) => l.level === "error").length, 1, "said once, not per try");

    disk.faults.clear();
    await send(store, "second");
    assert.equal(store.degraded, undefined);
    const { records } = await store.query({ method: "get_file" });
    assert.equal(records.length, 1, "the read of the bad time was kept");
    assert.equal((await store.verify()).ok, true, "the chain has no gap");
    const after = dump(store);
    await store.close();
    const again = await openStore(dir, { log });
    assert.deepEqual(dump(again), after);
    await again.close();
  });
}

test("case 70, B4: a read that cannot be recorded is refused and leaves no record; it works again when there is space", async (t) => {
  const { disk, store } = await faulty(t);
  await send(store, "first");
  disk.faults.set("write", "ENOSPC");
  await assert.rejects(store.access(READ, true), isStorage, "tried");
  await assert.rejects(store.access(READ, true), isStorage, "not tried again so soon");
  await store.access({ ...READ, method: "ping" }); // people must see what is the matter
  assert.match(store.degraded ?? "", /ENOSPC/);
  disk.faults.clear();
  await send(store, "second");
  await store.access(READ, true);
  const { records } = await store.query({ kind: "access" });
  assert.deepEqual(
    records.map((r) => r.method),
    ["ping", "get_file"],
  );
  assert.equal((await store.verify()).ok, true);
  await store.close();
});

test("case 70: a sync that fails takes back the change, and keeps the read that was answered behind it", async (t) => {
  const { dir, disk, store } = await faulty(t);
  await send(store, "first");
  disk.faults.set("datasync", "EIO");
  const change = send(store, "second");
  await store.access(READ, true); // same write; it does not wait for the disk
  await assert.rejects(change, isStorage);
  disk.faults.clear();
  await send(store, "third");
  const { records } = await store.query({});
  assert.deepEqual([...new Set(records.map((r) => r.run ?? r.method))], ["first", "get_file", "third"]);
  const before = dump(store);
  await store.close();
  const again = await openStore(dir);
  assert.deepEqual(dump(again), before);
  await again.close();
});

test("case 70: the torn bytes cannot be cut off either: nothing is written behind them until they are", async (t) => {
  const { dir, disk, store } = await faulty(t);
  await send(store, "first");
  disk.faults.set("write", "ENOSPC").set("truncate", "EIO");
  disk.shortWrite = 100;
  await assert.rejects(send(store, "second"), isStorage);
  disk.faults.delete("write");
  await assert.rejects(send(store, "second"), isStorage);
  disk.faults.clear();
  await send(store, "second");
  const file = readFileSync(join(dir, "journal/000000000001.jsonl"), "utf8");
  for (const line of file.trimEnd().split("\n")) JSON.parse(line);
  await store.close();
});

test("case 70: a change decided on top of one that fails fails with it", async (t) => {
  const { disk, store } = await faulty(t);
  await send(store, "first");
  disk.faults.set("datasync", "EIO");
  const pause = store.change(CTX, (d) => d.emit({ run: "first" }, { type: "run.paused", by: "me" }));
  const sees = store.change(CTX, (d) => d.mustRun("first").paused);
  await assert.rejects(pause, isStorage);
  await assert.rejects(sees, isStorage, "an answer that rests on it is not given");
  assert.equal(await store.change(CTX, (d) => d.mustRun("first").paused), false);
  disk.faults.clear();
  await store.close();
});

test("case 70: a refusal that rests on a change which then fails is none: it is decided again on what is true", async (t) => {
  const { disk, store } = await faulty(t);
  await send(store, "r");
  disk.faults.set("write", "ENOSPC");
  const first = send(store, "x");
  // The same run with another plan: refused, were the first one there.
  const spec = runSpec("x", specsOf({ z: [] }));
  const other = () => store.change(CTX, (d) => submit(d, { spec }, "me", planHash(spec)));
  const second = other();
  const ends = await Promise.allSettled([first, second]);
  for (const end of ends) assert.ok(end.status === "rejected" && isStorage(end.reason), String(end));
  disk.faults.clear();
  const [, refused] = await Promise.allSettled([send(store, "x"), other()]);
  assert.ok(refused.status === "rejected" && isCode(refused.reason, "RUN_EXISTS"), String(refused));
  await store.close();
});

test("case 70: while the disk refuses, a flood of reads is bounded and does not hammer it", async (t) => {
  const { disk, store } = await faulty(t);
  await send(store, "first");
  disk.faults.set("write", "ENOSPC");
  await assert.rejects(send(store, "x"), isStorage);
  const writes = disk.calls.write;
  for (let n = 0; n < 20_000; n++) store.access(READ);
  await new Promise((resolve) => setImmediate(resolve));
  assert.ok(disk.calls.write - writes <= 1);
  disk.faults.clear();
  await send(store, "x");
  assert.ok(store.journalCounters.dropped >= 10_000 && store.journalCounters.dropped < 10_010);
  await store.close();
});

test("case 70: a checkpoint that cannot be written leaves the old one whole, and the state goes on", async (t) => {
  const { dir, disk, log, store } = await faulty(t);
  disk.only = "checkpoint";
  await send(store, "first");
  await store.checkpoint();
  const meta = readFileSync(join(dir, "checkpoint/_meta.json"), "utf8");
  for (const fault of ["write", "open", "rename"] as const) {
    disk.faults.set(fault, "ENOSPC");
    await send(store, `more-${fault}`);
    await store.checkpoint();
    disk.faults.clear();
  }
  assert.equal(readFileSync(join(dir, "checkpoint/_meta.json"), "utf8"), meta);
  assert.equal(log.lines.filter((l) => /checkpoint could not be written/.test(l.message)).length, 3);
  assert.deepEqual(
    readdirSync(join(dir, "checkpoint")).filter((n) => n.endsWith(".tmp")),
    [],
  );
  const before = dump(store);
  await store.close();
  const again = await openStore(dir);
  assert.deepEqual(dump(again), before);
  await again.close();
});

test("B7: a damaged or missing checkpoint is said and the journal replayed; left temporary files go", async (t) => {
  const { dir, store } = await faulty(t);
  await send(store, "first");
  const before = dump(store);
  await store.close();
  writeFileSync(join(dir, "checkpoint/.first.json.1-1.tmp"), "{");
  for (const spoil of ['{"v":1', "", '{"v":1,"seq":2,"run":{"run":"first"}}']) {
    writeFileSync(join(dir, "checkpoint/first.json"), spoil);
    const log = new MemoryLog();
    const again = await openStore(dir, { log });
    assert.deepEqual(dump(again), before, spoil);
    assert.ok(log.lines.some((l) => /whole journal is replayed/.test(l.message)));
    await again.close();
  }
  assert.deepEqual(readdirSync(join(dir, "checkpoint")).sort(), ["_meta.json", "first.json"]);
});

test("a state written by a newer version is refused, not guessed at", async (t) => {
  const { dir, store } = await faulty(t);
  await send(store, "first");
  await store.close();
  const path = join(dir, "checkpoint/_meta.json");
  writeFileSync(path, readFileSync(path, "utf8").replace('"v":1', '"v":2'));
  await assert.rejects(openStore(dir), (e) => isCode(e, "STATE_TOO_NEW"));
});

test("the key: made once and closed to others; lost, the journal is not taken over by another key", async (t) => {
  const { dir, store } = await faulty(t);
  await send(store, "first");
  await store.close();
  const { statSync, rmSync } = await import("node:fs");
  assert.equal(statSync(join(dir, "key")).mode & 0o777, 0o600);
  assert.equal(statSync(join(dir, "key")).size, 32);
  rmSync(join(dir, "key"));
  await assert.rejects(
    openStore(dir),
    (e) => isCode(e, "KEY_UNUSABLE") && /key .* is missing/.test(e.message),
  );
});

test("segments: a full one is closed and the next begun; reads, verify and restart go across", async (t) => {
  const { dir, store } = await faulty(t, { segmentBytes: 2_000 });
  for (let n = 0; n < 12; n++) await send(store, `run${n}`);
  const files = readdirSync(join(dir, "journal")).sort();
  assert.ok(files.length > 3 && files[0] === "000000000001.jsonl");
  const all = await store.query({ limit: 10_000 });
  assert.deepEqual(
    all.records.map((r) => r.seq),
    Array.from({ length: store.seq }, (_, i) => i + 1),
  );
  const back = await store.query({ limit: 10_000, newest: true });
  assert.deepEqual(back.records, [...all.records].reverse());
  assert.deepEqual(await store.verify(), { ok: true, records: store.seq, replay: { same: true } });
  const before = dump(store);
  await store.close();
  const again = await openStore(dir, { segmentBytes: 2_000 });
  assert.deepEqual(dump(again), before);
  await send(again, "onemore");
  assert.ok(await until("durable", () => again.seq > all.records.length));
  await again.close();
});
