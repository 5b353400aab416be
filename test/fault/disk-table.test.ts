// B7, case 70: every call to the disk that a life of the state makes (start, changes, reads, rotation, checkpoint, end,
// start after a kill) fails in turn. BUSBAR_FUZZ_RUNS=1 takes each with every error. The calls are counted in a life without faults, so none is left out.
//
// In each life: what is answered is either done or refused with a typed error; a refused change has not happened; the
// fault goes away and the same work goes on; after a restart everything is there once; no file stays open.

import assert from "node:assert/strict";
import { test } from "node:test";
import { planHash, submit } from "../../bus/state/decide-run.ts";
import type { Store } from "../../bus/state/store.ts";
import { isCode } from "../../schemas/errors.ts";
import { DISK_OPS, type DiskOp, FaultyDisk } from "../helpers/faulty-disk.ts";
import { MemoryDisk } from "../helpers/memory-disk.ts";
import { dump, MemoryLog, openStore, runSpec, specsOf } from "../helpers/state.ts";

const ERRNOS = ["ENOSPC", "EIO", "EMFILE", "EDQUOT", "EROFS", "EACCES"];
/** The long form: each call with each error; otherwise each call with the next of them. */
const everyError = process.env.BUSBAR_FUZZ_RUNS !== undefined;
const ROOT = "/s";
const DIR = "/s/bus";
const RUNS = 7;
const READ = {
  actor: "agent:r1/a/1",
  method: "get_file",
  request_id: "q",
  response_time_ms: 1,
  access: { path: "f" },
};

const specOf = (run: string) => runSpec(run, specsOf({ a: [], b: ["a"] }));
const send = (store: Store, run: string) => {
  const spec = specOf(run);
  return store.change({ actor: "person", method: "submit_run" }, (d) =>
    submit(d, { spec }, "me", planHash(spec)),
  );
};

/** True when it was done, false when it was refused as it should be. */
async function tried(work: () => Promise<unknown>): Promise<boolean> {
  try {
    await work();
    return true;
  } catch (error) {
    assert.ok(isCode(error, "STORAGE"), `refused with a typed error, not ${String((error as Error).stack)}`);
    assert.match(error.message, /: E[A-Z]+$/, "it says what the disk said");
    return false;
  }
}

async function open(disk: FaultyDisk): Promise<Store> {
  const again = () => openStore(DIR, { disk, log: new MemoryLog(), segmentBytes: 4_000 });
  let store: Store | undefined;
  await tried(async () => {
    store = await again();
  });
  assert.ok(store || disk.opened.size === 0, "a start that failed has nothing open");
  if (store) return store;
  disk.strike = undefined;
  return again();
}

/** What a life has acknowledged, and what it has refused and not been asked for again. */
interface Told {
  done: Set<string>;
  refused: Set<string>;
}

/** A life of the state: each step may be refused, none may do harm. */
async function live(disk: FaultyDisk, name: string, told: Told): Promise<unknown> {
  const store = await open(disk);
  for (let n = 0; n < RUNS; n++) {
    const run = `${name}${n}`;
    const one = tried(() => send(store, run));
    const two = tried(() => store.access(READ, true));
    const ended = await one;
    await two;
    assert.equal(store.view.run(run) !== undefined, ended, "seen when, and only when, it was answered");
    (ended ? told.done : told.refused).add(run);
    if (n % 4 === 1) await store.checkpoint();
    if (n % 4 === 3) await tried(() => store.query({ newest: true, limit: 3 }));
    if (n % 4 === 2) await store.access({ ...READ, method: "ping" });
  }
  await tried(() => store.verify());
  const before = dump(store);
  await store.close();
  assert.deepEqual([...disk.opened.values()], [], "nothing is open after the end");
  return before;
}

async function lives(prepare: (disk: FaultyDisk) => void): Promise<{ disk: FaultyDisk; told: Told }> {
  const memory = new MemoryDisk(ROOT);
  const disk = new FaultyDisk(memory);
  const told: Told = { done: new Set(), refused: new Set() };
  prepare(disk);
  await live(disk, "one", told);
  await asKilled(memory);
  await live(disk, "two", told);
  disk.strike = undefined;
  disk.writeAtMost = Number.POSITIVE_INFINITY;
  return { disk, told };
}

/** What a kill leaves: half a record, and a document on its way. */
async function asKilled(disk: MemoryDisk): Promise<void> {
  const newest = (await disk.list(`${DIR}/journal`)).sort().at(-1);
  if (newest === undefined) return;
  const file = await disk.open(`${DIR}/journal/${newest}`, "r+");
  await file.write(Buffer.from('{"v":1,"seq":'), 0, 13, (await file.stat()).size);
  await disk.mkdir(`${DIR}/checkpoint`);
  await disk.open(`${DIR}/checkpoint/.one1.json.7-1.tmp`, "wx");
}

/** The disk is well again: what was refused is asked for again, and then everything is there once. */
async function afterwards({ disk, told }: { disk: FaultyDisk; told: Told }): Promise<void> {
  let store = await openStore(DIR, { disk });
  for (const run of told.done) assert.ok(store.view.run(run), `${run} was acknowledged`);
  for (const run of told.refused) await send(store, run);
  const ids = [...store.view.runs()].map(({ run }) => run);
  assert.deepEqual(ids.sort(), [...told.done, ...told.refused].sort(), "each once");
  const { records } = await store.query({ limit: 10_000 });
  const submitted = records.filter(({ event }) => event?.type === "run.submitted").map(({ run }) => run);
  assert.deepEqual(submitted.sort(), ids.sort(), "and each once in the journal");
  assert.deepEqual(await store.verify(), { ok: true, records: store.seq, replay: { same: true } });
  const before = dump(store);
  await store.close();
  store = await openStore(DIR, { disk });
  assert.deepEqual(dump(store), before);
  await store.close();
  assert.equal(disk.opened.size, 0);
}

const counted = await lives(() => {});
const counts = { ...counted.disk.counts };

test("the life that is walked over calls every operation of the disk", async () => {
  await afterwards(counted);
  for (const op of DISK_OPS) assert.ok(counts[op] > 0, `${op} is called`);
});

for (const op of DISK_OPS) {
  for (const [how, lasts] of [
    ["once", 1],
    ["and the next twelve", 12],
  ] as const) {
    test(`case 70: each of the ${counts[op]} calls of ${op} fails, ${how}`, async () => {
      for (let nth = 1; nth <= counts[op]; nth++)
        for (const errno of everyError ? ERRNOS : [ERRNOS[(nth + lasts) % ERRNOS.length]!])
          await row(`${op} ${nth} ${errno}`, (disk) => {
            disk.strike = (kind, n) => (kind === op && n >= nth && n < nth + lasts ? errno : undefined);
            if (op === "write" || op === "writeNow") disk.shortWrite = errno === "ENOSPC" ? 300 : 0;
          });
    });
  }
}

async function row(name: string, prepare: (disk: FaultyDisk) => void): Promise<void> {
  try {
    await afterwards(await lives(prepare));
  } catch (error) {
    (error as Error).message = `${name}: ${(error as Error).message}`;
    throw error;
  }
}

test("case 70: from each call on the whole disk refuses, until it does not", async () => {
  const total = DISK_OPS.reduce((sum: number, op: DiskOp) => sum + counts[op], 0);
  for (let nth = 1; nth <= total; nth += 3) {
    await row(`call ${nth} and twenty more`, (disk) => {
      let n = 0;
      disk.strike = () => {
        n += 1;
        return n >= nth && n < nth + 20 ? "EIO" : undefined;
      };
    });
  }
});

test("case 70: writes that take few bytes at a time go on where they stopped", async () => {
  for (const most of [1, 7, 100])
    await row(`at most ${most}`, (disk) => {
      disk.writeAtMost = most;
    });
});

test("case 70: a write that takes nothing and says nothing is a failure, not a loop without end", async () => {
  await row("at most 0", (disk) => {
    disk.strike = (_op, _n, path) => {
      disk.writeAtMost =
        path.includes("journal") && disk.counts.writeNow > 3 && disk.counts.writeNow < 9 ? 0 : 999;
      return undefined;
    };
  });
});
