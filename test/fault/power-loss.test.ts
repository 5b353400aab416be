// B7: the machine loses its power before each call to the disk of a life of the state. What nobody synced may be there,
// not there, or there in part; what was acknowledged is there. The same where a sync fails on the way, after which
// the kernel counts pages as clean that the disk never got.

import assert from "node:assert/strict";
import { test } from "node:test";
import { Base } from "../../bus/state/base.ts";
import { planHash, submit } from "../../bus/state/decide-run.ts";
import { replay } from "../../bus/state/replay.ts";
import type { Store } from "../../bus/state/store.ts";
import type { JournalRecord } from "../../schemas/events.ts";
import { FaultyDisk } from "../helpers/faulty-disk.ts";
import { type Luck, MemoryDisk } from "../helpers/memory-disk.ts";
import { dump, openStore, runSpec, specsOf } from "../helpers/state.ts";

const DIR = "/s/bus";
const LUCKS: Luck[] = ["none", "half", "all"];
const long = process.env.BUSBAR_FUZZ_RUNS !== undefined;
const READ = { actor: "agent:r/a/1", method: "get_file", request_id: "q", response_time_ms: 1 };

const send = (store: Store, run: string, tasks = 1) => {
  const spec = runSpec(run, specsOf(Object.fromEntries([...Array(tasks).keys()].map((n) => [`t${n}`, []]))));
  return store.change({ actor: "person", method: "submit_run" }, (d) =>
    submit(d, { spec }, "me", planHash(spec)),
  );
};

/** What a machine finds after the loss of power at one call, and what it had promised until then. */
interface Loss {
  at: string;
  disk: MemoryDisk;
  done: string[];
  tried: string[];
}

/** Changes, reads, checkpoints and full segments, and a restart in the middle; a picture before each call. */
async function losses(every: number, failing: (op: string, nth: number) => boolean): Promise<Loss[]> {
  const memory = new MemoryDisk("/s");
  const disk = new FaultyDisk(memory);
  const found: Loss[] = [];
  const done: string[] = [];
  const tried: string[] = [];
  let calls = 0;
  disk.strike = (op, nth) => {
    calls += 1;
    if (calls % every === 0)
      for (const luck of LUCKS)
        found.push({
          at: `call ${calls}, ${op} ${nth}, ${luck}`,
          disk: memory.image(luck),
          done: [...done],
          tried: [...tried],
        });
    return failing(op, nth) ? "EIO" : undefined;
  };
  for (const life of ["one", "two"]) {
    const open = () => openStore(DIR, { disk, segmentBytes: 4_000 });
    const store = await open().catch(open); // the sync of a start may be the one that fails
    for (let n = 0; n < 6; n++) {
      const run = `${life}${n}`;
      tried.push(run);
      const change = send(store, run).then(
        () => done.push(run),
        () => {},
      );
      for (let k = 0; k < n; k++) await store.access({ ...READ, access: { path: "x".repeat(500) } });
      await change;
      await store.access({ ...READ, access: { path: "y" } });
      if (n % 3 === 2) await store.checkpoint();
    }
    await store.close();
  }
  return found;
}

/** Starts from it, works, and starts again: the promises hold. Returns the journal. */
async function comesBack({ at, disk, done, tried }: Loss): Promise<JournalRecord[]> {
  try {
    const store = await openStore(DIR, { disk });
    const there = [...store.view.runs()].map(({ run }) => run);
    for (const run of done) assert.ok(there.includes(run), `${run} was acknowledged`);
    for (const run of there) assert.ok(tried.includes(run), run);
    const { records } = await store.query({ limit: 10_000 });
    assert.deepEqual(dump(store), stateOf(records), "the state is that of its journal");
    await send(store, "after");
    const before = dump(store);
    assert.deepEqual(await store.verify(), { ok: true, records: store.seq, replay: { same: true } });
    await store.close();
    const again = await openStore(DIR, { disk: disk.image("none") });
    assert.deepEqual(dump(again), before, "and what was closed stays");
    await again.close();
    return records;
  } catch (error) {
    (error as Error).message = `${at}: ${(error as Error).message}`;
    throw error;
  }
}

function stateOf(records: JournalRecord[]): unknown {
  const base = new Base();
  for (const record of records) replay(base, record);
  return dump({ view: base });
}

test("B7: power lost before any call: all that was acknowledged is there, and the journal is a beginning of the true one", async () => {
  const found = await losses(long ? 1 : 3, () => false);
  assert.ok(found.length > 100);
  const whole = await comesBack(found.at(-1)!);
  for (const loss of found.slice(0, -1)) {
    const records = await comesBack(loss);
    assert.deepEqual(records, whole.slice(0, records.length), loss.at);
  }
});

test("B7: a sync fails and its pages count as clean: after a loss of power nothing acknowledged is missing", async () => {
  for (let failing = 1; failing <= 14; failing += 1) {
    const found = await losses(long ? 1 : 11, (op, nth) => op === "datasync" && nth === failing);
    for (const loss of found) await comesBack(loss);
  }
});

test("B7: killed after a sync that failed: what the next life finds readable is made sure of before it builds on it", async () => {
  const memory = new MemoryDisk("/s");
  const disk = new FaultyDisk(memory);
  const killed = await openStore(DIR, { disk });
  await send(killed, "first");
  disk.strike = (op) => (op === "datasync" || op === "truncate" ? "EIO" : undefined);
  await assert.rejects(send(killed, "second", 60)); // some pages
  const store = await openStore(DIR, { disk: memory }); // nothing of the first is closed
  await send(store, "third");
  const again = await openStore(DIR, { disk: memory.image("none") });
  assert.deepEqual(
    [...again.view.runs()].map(({ run }) => run),
    ["first", "second", "third"],
    "the refused one came back whole, as it may",
  );
  assert.equal((await again.verify()).ok, true);
  for (const each of [again, store]) await each.close();
});
