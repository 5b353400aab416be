// B7: any file of the state is damaged: cut, changed in a bit, lost, older than the others, with a line twice or in the
// wrong place. A start then gives the true state, or the state after a beginning of what happened and says so (with a record of the gap), or it is
// refused with a place, and every file is left as it was. BUSBAR_FUZZ_RUNS=N is the long form.

import assert from "node:assert/strict";
import { test } from "node:test";
import fc from "fast-check";
import type { AnchorPort } from "../../bus/state/anchor.ts";
import { Base } from "../../bus/state/base.ts";
import { pause } from "../../bus/state/decide-run.ts";
import { replay } from "../../bus/state/replay.ts";
import type { Store } from "../../bus/state/store.ts";
import { isCode } from "../../schemas/errors.ts";
import type { JournalRecord } from "../../schemas/events.ts";
import { act, graph, schedule, start, stepsUpTo } from "../helpers/histories.ts";
import { MemoryDisk } from "../helpers/memory-disk.ts";
import { dump, FakeClock, MemoryLog, openStore } from "../helpers/state.ts";

/** How to damage a state: what to do, to which file, where. */
const damage = fc.record({
  what: fc.constantFrom("cut", "cut", "flip", "flip", "twice", "nul", "lose", "older", "moved"),
  file: fc.nat(),
  at: fc.nat(),
  bit: fc.nat(7),
});
type Damage = typeof damage extends fc.Arbitrary<infer T> ? T : never;

/** The files of an earlier moment, by path. */
type Files = Map<string, Buffer>;
const filesOf = (disk: MemoryDisk): Files =>
  new Map(disk.paths.map((path) => [path, Buffer.from(disk.bytes(path)!)]));

/** What a bus that dies now leaves: nothing that it had begun in the background goes on. */
function remains(disk: MemoryDisk, anchor: MemoryAnchors): { disk: MemoryDisk; anchor: MemoryAnchors } {
  const [dead, anchors] = [new MemoryDisk("/s"), new MemoryAnchors()];
  for (const [path, bytes] of filesOf(disk)) dead.put(path, bytes);
  anchors.texts.push(...anchor.texts);
  return { disk: dead, anchor: anchors };
}

function doDamage(disk: MemoryDisk, harm: Damage, earlier: Files): void {
  const path = disk.paths[harm.file % disk.paths.length];
  if (path !== undefined)
    disk.put(path, damaged(disk.bytes(path) ?? Buffer.alloc(0), harm, earlier.get(path)));
}

/** Undefined: the file is lost. */
function damaged(bytes: Buffer, { what, at, bit }: Damage, earlier: Buffer | undefined): Buffer | undefined {
  const where = bytes.length === 0 ? 0 : at % bytes.length;
  const start = bytes.lastIndexOf(10, Math.max(0, where - 1)) + 1;
  const end = bytes.indexOf(10, where) + 1 || bytes.length;
  const [before, line, after] = [bytes.subarray(0, start), bytes.subarray(start, end), bytes.subarray(end)];
  switch (what) {
    case "cut":
      return bytes.subarray(0, at % 3 === 0 ? end : where);
    case "flip": {
      const copy = Buffer.from(bytes);
      if (copy.length > 0) copy[where] = copy[where]! ^ (1 << bit);
      return copy;
    }
    case "twice":
      return Buffer.concat([before, line, line, after]);
    case "nul":
      return Buffer.concat([bytes, Buffer.alloc(1 + (at % 5000))]);
    case "lose":
      return undefined;
    case "older":
      return earlier;
    case "moved":
      return Buffer.concat([before, after, line]);
  }
}

const runs = Number(process.env.BUSBAR_FUZZ_RUNS ?? 150);

test(`B7: damage of any file: the state is the true one, or that of a beginning and said, or the start is refused with a place (${runs} runs)`, async () => {
  await fc.assert(
    fc.asyncProperty(
      graph,
      schedule,
      stepsUpTo(40),
      fc.tuple(fc.nat(40), fc.nat(40), fc.boolean()),
      fc.array(damage, { minLength: 1, maxLength: 2 }),
      async (tasks, kind, list, [first, second, closed], harms) => {
        const disk = new MemoryDisk("/s");
        const clock = new FakeClock();
        const anchor = new MemoryAnchors();
        const over = { clock, disk, anchor, segmentBytes: 6_000 };
        const store = await openStore("/s/bus", over);
        await store.change({ actor: "me" }, start(tasks, kind));
        let earlier = filesOf(disk);
        for (const [i, step] of list.entries()) {
          clock.ms += step.n * 10_000;
          await store.change({ actor: "me" }, (d) => act(d, step)).catch(() => {});
          if (i === first || i === second) await store.checkpoint();
          if (i === first) earlier = filesOf(disk);
        }
        const { records } = await store.query({ limit: 10_000 });
        if (closed) await store.close();
        const left = remains(disk, anchor);
        if (!closed) await store.close();
        const checkpoint = left.disk.bytes(META);
        const key = left.disk.bytes(KEY)!;
        for (const harm of harms) doDamage(left.disk, harm, earlier);
        const seen = checkpoint && left.disk.bytes(META)?.equals(checkpoint) ? seqIn(checkpoint) : 0;
        await judged({ ...over, ...left, key }, records, Math.max(seen, left.anchor.seq));
      },
    ),
    { numRuns: runs, includeErrorInReport: true, endOnFailure: true },
  );
});

const KEY = "/s/bus/key";
const META = "/s/bus/checkpoint/_meta.json";
/** The record that a checkpoint rests on. */
const seqIn = (meta: Buffer) => (JSON.parse(meta.toString()) as { position: { seq: number } }).position.seq;

class MemoryAnchors implements AnchorPort {
  readonly texts: string[] = [];
  async read(limit: number): Promise<string[]> {
    return this.texts.slice(-limit).reverse();
  }
  async add(text: string): Promise<void> {
    this.texts.push(text);
  }
  /** The newest record that was anchored. */
  get seq(): number {
    return Number(/ seq=(\d+) /.exec(this.texts.at(-1) ?? "")?.[1] ?? 0);
  }
}

/** A state of its own, one record later. */
function after(before: Base, record: JournalRecord): Base {
  const next = new Base();
  next.absorb(before);
  replay(next, record);
  return next;
}

async function judged(
  over: { disk: MemoryDisk; anchor: MemoryAnchors; key: Buffer },
  records: JournalRecord[],
  witnessed: number,
): Promise<void> {
  const log = new MemoryLog();
  const files = filesOf(over.disk);
  let store: Store;
  try {
    store = await openStore("/s/bus", { ...over, log });
  } catch (error) {
    assert.ok(
      isCode(error, "JOURNAL_DAMAGED", "KEY_UNUSABLE", "STATE_TOO_NEW"),
      String((error as Error).stack),
    );
    assert.match(error.message, /\/s\/bus\/|record \d+/, "it names a place");
    for (const [path, bytes] of files)
      assert.deepEqual(over.disk.bytes(path), bytes, `${path} is left alone`);
    return;
  }
  const said = log.lines.some(({ level }) => level === "warn");
  const now = await store.query({ newest: true, limit: 10_000 }).then(
    ({ records }) => records,
    (error: unknown) => {
      assert.ok(isCode(error, "JOURNAL_DAMAGED"), String(error)); // in what lies before the checkpoint
      return [];
    },
  );
  const gap = now.some(({ event }) => event?.type === "journal.gap");
  const kept = gap ? records.length : store.seq;
  assert.ok(kept <= records.length);
  if (gap) {
    assert.ok(said, "a gap is said");
    const states = [new Base()];
    for (const record of records) states.push(after(states.at(-1)!, record));
    const found = JSON.stringify(dump(store));
    assert.ok(
      states.some((view) => JSON.stringify(dump({ view })) === found),
      "the state after a beginning of what happened",
    );
  } else {
    const model = records.slice(0, kept).reduce(after, new Base());
    assert.deepEqual(dump(store), dump({ view: model }), "the state after a beginning of what happened");
    // What is missing at the end was cut off at a record, which only a checkpoint or an anchor can see; or it is said.
    if (kept < records.length)
      assert.ok(said || kept >= witnessed, `${records.length - kept} records are missing without a word`);
  }
  // Anchors of another key are another bus's: the key was lost, or damaged, with the whole journal.
  const anew = !over.disk.bytes(KEY)?.equals(over.key);
  // What lies before the checkpoint is not looked at in a start; verify does, and compares with the anchors.
  const { ok, first_bad, anchor_fault } = await store.verify();
  if (ok) assert.ok(!gap && (anew || kept >= over.anchor.seq), "verify sees that the end is missing");
  else assert.ok(gap || anchor_fault || first_bad?.file.startsWith("/s/bus/"), "verify names the place");
  await store.change({ actor: "me" }, (d) => pause(d, "r", "me")).catch(() => {});
  const before = dump(store);
  await store.close();
  const again = await openStore("/s/bus", over);
  assert.deepEqual(dump(again), before, "and it goes on from there");
  await again.close();
}
