// Retention: the oldest files of the journal go, on purpose, and everything that is promised about the rest still holds. The bus
// dies, and the machine loses its power, before each step.

import assert from "node:assert/strict";
import { type TestContext, test } from "node:test";
import { gunzipSync } from "node:zlib";
import { planHash, submit } from "../../bus/state/decide-run.ts";
import type { Keep } from "../../bus/state/outlived.ts";
import { packMember } from "../../bus/state/packed.ts";
import type { Store } from "../../bus/state/store.ts";
import { isCode } from "../../schemas/errors.ts";
import { armFaultPoints, type FaultPoint } from "../../schemas/fault-points.ts";
import { FaultyDisk } from "../helpers/faulty-disk.ts";
import { type Luck, MemoryDisk } from "../helpers/memory-disk.ts";
import { dump, FakeClock, MemoryLog, openStore, runSpec, specsOf, T0 } from "../helpers/state.ts";
import { until } from "../helpers/wait.ts";

const DIR = "/s/bus";
const JOURNAL = `${DIR}/journal/`;
const DAY = 24 * 3600_000;

interface Place {
  clock: FakeClock;
  log: MemoryLog;
  open(disk: MemoryDisk, keep?: Keep): Promise<Store>;
}

function place(): Place {
  const [clock, log] = [new FakeClock(), new MemoryLog()];
  const open = (disk: MemoryDisk, keep?: Keep) =>
    openStore(DIR, { disk, segmentBytes: 4_000, clock, log, ...(keep && { keep }) });
  return { clock, log, open };
}

const files = (disk: MemoryDisk, end: string) =>
  disk.paths
    .filter((path) => path.startsWith(JOURNAL) && path.endsWith(end))
    .map((path) => path.slice(JOURNAL.length));

/** A run a day, with calls; the newest file is plain, the others are packed. */
async function fill(
  store: Store,
  disk: MemoryDisk,
  clock: FakeClock,
  from: number,
  days: number,
): Promise<void> {
  for (let day = from; day < from + days; day++) {
    clock.ms = T0 + day * DAY;
    const spec = runSpec(`r${day}`, specsOf({ a: [], b: ["a"] }));
    await store.change({ actor: "person" }, (d) => submit(d, { spec }, "me", planHash(spec)));
    for (let n = 0; n < 10; n++)
      await store.access({
        actor: `agent:r${day}/a#1`,
        method: "get_file",
        request_id: `q-${day}-${n}`,
        response_time_ms: 1,
        access: { path: "x".repeat(200) },
      });
  }
  await store.query({ limit: 1 });
  await store.checkpoint();
  await until("packed", () => files(disk, ".jsonl").length === 1 && files(disk, ".tmp").length === 0);
}

/** A journal of some days, closed. */
async function written(here: Place, days = 12): Promise<MemoryDisk> {
  const disk = new MemoryDisk("/s");
  const store = await here.open(disk);
  await fill(store, disk, here.clock, 0, days);
  await store.close();
  assert.ok(files(disk, ".gz").length > 6);
  return disk;
}

const removedEvents = async (store: Store) =>
  (await store.query({ kind: "event", limit: 10_000 })).records.flatMap(({ event }) =>
    event?.type === "journal.removed" ? [event] : [],
  );

/** Opens it with a bound and waits until files have gone. */
async function retired(here: Place, disk: MemoryDisk, keep: Keep): Promise<Store> {
  const before = files(disk, ".gz").length;
  const store = await here.open(disk, keep);
  await until(
    "some are gone",
    () => files(disk, ".gz").length < before && here.log.lines.some((l) => /are removed/.test(l.message)),
  );
  await store.verify(); // waits for the removal to be over
  return store;
}

test("files that are too old go, the newest stay; verify says so and proves the rest, questions answer from it", async () => {
  const here = place();
  const disk = await written(here);
  const whole = await here.open(disk);
  const before = dump(whole);
  const all = (await whole.query({ limit: 10_000 })).records;
  await whole.close();
  const store = await retired(here, disk, { keep_days: 4.5 });
  const { removed, ...proof } = await store.verify();
  assert.ok(removed);
  const { to } = removed;
  assert.deepEqual(removed, {
    to,
    newest: all[to - 1]!.ts,
    at: new Date(here.clock.ms).toISOString(),
    rule: "audit.keep_days 4.5",
  });
  assert.ok(Date.parse(removed.newest) < here.clock.ms - 4.5 * DAY);
  assert.deepEqual(proof, { ok: true, records: store.seq - to, replay: { same: true } });
  assert.deepEqual(await removedEvents(store), [
    { type: "journal.removed", from: 1, to, rule: removed.rule },
  ]);
  const page = await store.query({ limit: all.length - to });
  assert.deepEqual(page.records, all.slice(to));
  assert.deepEqual((await store.query({ run: "r0" })).records, []);
  assert.deepEqual((await store.query({ run: "r0" })).removed, removed);
  // The first file that is left is not too old as a whole.
  const left = files(disk, ".gz")[1] as string;
  assert.ok(Date.parse(all[Number(left.slice(0, 12)) - 2]!.ts) >= here.clock.ms - 4.5 * DAY);
  assert.deepEqual(dump(store), before);
  await store.close();

  // A start without checkpoint: nothing that is gone is needed for the state.
  for (const path of disk.paths) if (path.includes("/checkpoint/")) disk.put(path);
  const again = await here.open(disk);
  assert.deepEqual(dump(again), before);
  assert.equal((await again.verify()).ok, true);
  await again.close();
  const documents = await here.open(disk);
  assert.deepEqual(dump(documents), before, "the new checkpoint has all runs");
  await documents.close();
});

test("too many bytes: the oldest go until the rest is small enough, again and again; gaps are remembered", async () => {
  const here = place();
  const disk = await written(here);
  const sizes = () =>
    disk.paths
      .filter((p) => p.startsWith(JOURNAL) && /\.(gz|idx|jsonl)$/.test(p))
      .reduce((sum, p) => sum + disk.bytes(p)!.length, 0);
  // The end is cut off: the checkpoint is newer.
  const last = files(disk, ".jsonl")[0] as string;
  disk.put(JOURNAL + last, disk.bytes(JOURNAL + last)!.subarray(0, 0));
  const gapped = await here.open(disk);
  assert.equal(gapped.gaps.length, 1);
  await fill(gapped, disk, here.clock, 20, 10);
  await gapped.close();
  const bound = sizes() / 2;
  const store = await retired(here, disk, { keep_bytes: bound });
  assert.ok(sizes() <= bound + 4_000, `${sizes()}`);
  await fill(store, disk, here.clock, 40, 30);
  await until("again", () => sizes() <= bound + 8_000);
  const proof = await store.verify();
  const events = await removedEvents(store);
  assert.equal(proof.removed?.to, events.at(-1)?.to);
  assert.ok(proof.removed!.to > gapped.gaps[0]!.to, "the record of the gap itself is gone");
  assert.deepEqual(proof.gaps, gapped.gaps);
  assert.deepEqual(store.gaps, gapped.gaps);
  assert.deepEqual([proof.first_bad, proof.replay], [undefined, { same: true }]);
  await store.close();
  const again = await here.open(disk);
  assert.deepEqual(again.gaps, gapped.gaps);
  await again.close();
});

test("a file that is missing and was not removed by us is damage, also where others were; so is a beginning that was changed", async () => {
  const here = place();
  const disk = await written(here);
  const first = files(disk, ".gz")[0] as string;
  const unexplained = disk.image("all");
  unexplained.put(JOURNAL + first);
  const open = await here.open(unexplained);
  assert.deepEqual(pick((await open.verify()).first_bad), ["removed", 1]);
  await open.close();

  await (await retired(here, disk, { keep_days: 4.5 })).close();
  const beginning = `${JOURNAL}beginning.json`;
  const more = disk.image("all");
  const next = files(more, ".gz")[0] as string;
  more.put(JOURNAL + next);
  const store = await here.open(more);
  assert.deepEqual(pick((await store.verify()).first_bad), ["removed", Number(next.slice(0, 12))]);
  await store.close();
  for (const spoil of [
    (bytes: Buffer) => Buffer.from(bytes.toString().replace(/"to":(\d+)/, (_, n) => `"to":${Number(n) + 1}`)),
    (bytes: Buffer) => Buffer.from(bytes.toString().replace(/,"mac":"[0-9a-f]{32}"\}\n$/, "}\n")),
    () => undefined,
  ]) {
    const changed = disk.image("all");
    changed.put(beginning, spoil(changed.bytes(beginning)!));
    const refused = await here.open(changed);
    const { first_bad, removed } = await refused.verify();
    assert.deepEqual([...pick(first_bad), removed], ["removed", 1, undefined]);
    await refused.close();
    for (const path of changed.paths) if (path.includes("/checkpoint/")) changed.put(path);
    await assert.rejects(
      here.open(changed),
      (e) => isCode(e, "JOURNAL_DAMAGED") && e.data.kind === "removed",
    );
  }
});

test("a damaged old file is not removed, nor is another: they stay as evidence, and that is said", async () => {
  const forged = async (bytes: Buffer) =>
    packMember(Buffer.from(gunzipSync(bytes).toString().replace("q-", "p-")));
  for (const spoil of [async (bytes: Buffer) => Buffer.from(bytes).fill(9, 40, 60), forged]) {
    const here = place();
    const disk = await written(here, 8);
    const third = JOURNAL + (files(disk, ".gz")[2] as string);
    disk.put(third, await spoil(disk.bytes(third)!));
    const before = files(disk, ".gz");
    const store = await here.open(disk, { keep_bytes: 0 });
    const said = () => here.log.lines.find((l) => /were not removed/.test(l.message));
    await until("said", () => said() !== undefined);
    assert.match(String(said()?.facts?.why), /the journal is damaged: .*jsonl/);
    await store.close();
    assert.deepEqual(files(disk, ".gz"), before);
  }
});

test("issue 3.4: a clock that jumps to 2038 removes nothing by age, across starts, and that is said; set right, all goes on", async () => {
  const here = place();
  const disk = await written(here);
  const [before, right] = [files(disk, ".gz"), here.clock.ms];
  const doubts = () => here.log.lines.filter((l) => /clock is far ahead/.test(l.message)).length;
  for (const life of [1, 2]) {
    here.clock.ms = Date.UTC(2038, 0, 19) + life * 3_600_000;
    const store = await here.open(disk, { keep_days: 30 });
    await until("the clock was doubted", () => doubts() >= life);
    const spec = runSpec(`ahead${life}`, specsOf({ a: [] }));
    await store.change({ actor: "person" }, (d) => submit(d, { spec }, "me", planHash(spec)));
    await store.close();
    assert.deepEqual(before, files(disk, ".gz").slice(0, before.length));
  }
  here.clock.ms = right + 3_600_000;
  await (await retired(here, disk, { keep_days: 4.5 })).close();
  assert.ok(files(disk, ".gz").length < before.length);
});

test("issue 3.4: a removal that failed is tried again after a pause that grows, and that is said", async () => {
  const here = place();
  const [inner, time] = [await written(here), { passed: 0 }];
  here.clock.monotonic = () => time.passed;
  const disk = new FaultyDisk(inner);
  let refused = 0;
  disk.strike = (op, _nth, path) => {
    if (op !== "unlink" || !path.endsWith(".gz")) return undefined;
    refused += 1;
    return "EIO";
  };
  const before = files(inner, ".gz");
  const store = await openStore(DIR, { ...here, disk, segmentBytes: 4_000, keep: { keep_days: 4.5 } });
  let runs = 0;
  /** An occasion: a checkpoint of something new. Then `tries` have been made, and (as far as turns can tell) no more. */
  const occasion = async (after: number, tries: number) => {
    time.passed += after;
    const spec = runSpec(`more${runs++}`, specsOf({ a: [] }));
    await store.change({ actor: "person" }, (d) => submit(d, { spec }, "me", planHash(spec)));
    await store.checkpoint();
    for (let turns = 0; turns < 100; turns++) await new Promise(setImmediate);
    await until(`try ${tries}`, () => refused >= tries);
    await store.verify();
    assert.equal(refused, tries, `${time.passed}`);
  };
  await until("refused", () => refused === 1);
  await occasion(59_000, 1);
  await occasion(1_000, 2);
  await occasion(119_000, 2);
  await occasion(1_000, 3);
  const said = here.log.lines.filter((l) => /were not removed/.test(l.message));
  assert.deepEqual(
    said.map(({ facts }) => facts?.again_in_s),
    [60, 120, 240],
  );
  disk.strike = undefined;
  assert.deepEqual(files(inner, ".gz").slice(0, before.length), before);
  await occasion(240_000, 3);
  await until("they went", () => !files(inner, ".gz").includes(before[0] as string));
  const { ok, removed } = await store.verify();
  assert.ok(ok && removed);
  assert.ok(files(inner, ".gz").every((name) => Number(name.slice(0, 12)) > removed.to));
  assert.equal((await removedEvents(store)).length, 1, "it was recorded once");
  await store.close();
});

interface Death {
  at: string;
  disk: MemoryDisk;
}

/** What is found after a death at each point that is passed while files are removed. */
async function deaths(t: TestContext, here: Place, disk: MemoryDisk, keep: Keep): Promise<Death[]> {
  const found: Death[] = [];
  let begun = false;
  t.after(() => armFaultPoints(() => {}));
  armFaultPoints((name: FaultPoint) => {
    begun ||= name === "bus.retention.before-record";
    if (!begun) return;
    for (const luck of ["none", "half", "all"] as Luck[])
      found.push({ at: `${found.length} ${name} ${luck}`, disk: disk.image(luck) });
  });
  const store = await retired(here, disk, keep);
  armFaultPoints(() => {});
  await store.close();
  return found;
}

test("a death between any two steps: the next start proves the journal, has the state, and finishes or begins again", async (t) => {
  const here = place();
  const disk = await written(here, 6);
  const whole = await here.open(disk);
  const before = dump(whole);
  const all = (await whole.query({ limit: 10_000 })).records;
  await whole.close();
  const found = await deaths(t, here, disk, { keep_days: 2.5 });
  const passed = new Set(found.map(({ at }) => at.split(" ")[1]));
  for (const point of ["record", "beginning", "sync-directory"])
    assert.ok(passed.has(`bus.retention.before-${point}`), point);
  assert.ok(passed.has("bus.file.before-remove"));
  for (const point of ["write", "sync", "rename", "sync-directory"])
    assert.ok(passed.has(`bus.checkpoint.before-${point}`), point);
  let finished = 0;
  for (const { at, disk: image } of found) {
    // Without the setting: what was begun stands as it is.
    const calm = await here.open(image.image("all"));
    const proof = await calm.verify();
    assert.deepEqual([proof.ok, proof.replay], [true, { same: true }], at);
    assert.deepEqual(dump(calm), before, at);
    const there = (await calm.query({ limit: 10_000 })).records.filter(({ seq }) => seq <= all.length);
    assert.deepEqual(there.slice(-20), all.slice(-20), at);
    await calm.close();
    // With it: the removal comes to its end, and no file before the beginning is left.
    const store = await here.open(image, { keep_days: 2.5 });
    await until(`${at}: finished`, async () => {
      const { removed } = await store.verify();
      return (
        removed !== undefined && files(image, ".idx").every((name) => Number(name.slice(0, 12)) > removed.to)
      );
    });
    assert.ok(!files(image, ".tmp").length, at);
    assert.equal((await store.verify()).ok, true, at);
    assert.ok((await removedEvents(store)).length <= 2, at);
    assert.deepEqual(dump(store), before, at);
    await store.close();
    finished += 1;
  }
  assert.ok(finished > 30, `${finished}`);
});

function pick(bad: { kind: string; seq: number } | undefined): unknown[] {
  return [bad?.kind, bad?.seq];
}
