// What every journal must keep, whatever holds its records. Another implementation is added to JOURNALS.

import assert from "node:assert/strict";
import { randomBytes } from "node:crypto";
import { type TestContext, test } from "node:test";
import { systemDisk } from "../../bus/state/disk.ts";
import { FileJournal } from "../../bus/state/file-journal.ts";
import type { Journal, Position, Unplaced } from "../../bus/state/journal.ts";
import type { JournalRecord } from "../../schemas/events.ts";
import { MemoryLog } from "../helpers/state.ts";
import { tempDir } from "../helpers/temp.ts";

interface Place {
  /** Opens the journal of this place; `seen` gets what comes after `from`. */
  open(from?: Position): Promise<{ journal: Journal; seen: JournalRecord[] }>;
}

const JOURNALS: Record<string, (t: TestContext) => Place> = {
  files: (t) => filePlace(t),
  "files, small segments": (t) => filePlace(t, 600),
};

function filePlace(t: TestContext, segmentBytes?: number): Place {
  const ports = {
    disk: systemDisk,
    dir: tempDir(t),
    key: randomBytes(32),
    log: new MemoryLog(),
    monotonic: () => performance.now(),
    ...(segmentBytes !== undefined && { segmentBytes }),
  };
  return {
    open: async (from) => {
      const seen: JournalRecord[] = [];
      return { journal: await FileJournal.open(ports, from, (r) => seen.push(r)), seen };
    },
  };
}

const record = (n: number, over: Partial<Unplaced> = {}): Unplaced => ({
  ts: "2030-01-01T00:00:00.000Z",
  kind: "event",
  actor: `actor-${n}`,
  event: { type: "run.paused", by: "naïve 日本 😀" },
  ...over,
});

/** Appends and waits until it is written. */
const append = (journal: Journal, records: Unplaced[], durable = true): Promise<JournalRecord[]> =>
  new Promise((resolve, reject) => journal.append({ records, durable, written: resolve, failed: reject }));

async function all(pages: AsyncIterable<JournalRecord[]>): Promise<JournalRecord[]> {
  const records = [];
  for await (const page of pages) records.push(...page);
  return records;
}
const seqs = (records: JournalRecord[]) => records.map((r) => r.seq);
const upTo = (n: number, from = 1) => Array.from({ length: n - from + 1 }, (_, i) => i + from);

for (const [name, make] of Object.entries(JOURNALS)) {
  test(`journal (${name}): records are numbered from 1 without a gap and come back as they were`, async (t) => {
    const place = make(t);
    const { journal } = await place.open();
    assert.equal(journal.position.seq, 0);
    assert.deepEqual(await all(journal.readFrom(0)), []);
    const first = await append(journal, [record(1), record(2)]);
    const second = await append(journal, [record(3)]);
    assert.deepEqual(seqs([...first, ...second]), [1, 2, 3]);
    assert.deepEqual(await all(journal.readFrom(0)), [...first, ...second]);
    assert.equal((await journal.verify()).records, 3);
    await journal.close();
    const again = await place.open();
    assert.deepEqual(again.seen, [...first, ...second]);
    assert.equal((await append(again.journal, [record(4)]))[0]?.seq, 4);
    await again.journal.close();
  });

  test(`journal (${name}): what is appended in one tick is written in order, batch by batch, before any is answered`, async (t) => {
    const { journal } = await make(t).open();
    const order: string[] = [];
    const ends = [1, 2, 3].map((n) =>
      new Promise<void>((resolve, reject) => {
        journal.append({
          records: [record(n)],
          durable: n !== 2,
          written: ([r]) => {
            assert.equal(journal.position.seq, r!.seq, "the journal ends with the batch that is told");
            order.push(`written ${r!.seq}`);
            resolve();
          },
          failed: reject,
        });
      }).then(() => order.push(`answered ${n}`)),
    );
    await Promise.all(ends);
    assert.deepEqual(order.slice(0, 3), ["written 1", "written 2", "written 3"]);
    assert.ok(journal.counters.syncs === 1 && journal.counters.writes === 1, "one write, one sync");
    await journal.close();
  });

  test(`journal (${name}): reads go on from any record, both ways round, and end with the newest at the call`, async (t) => {
    const { journal } = await make(t).open();
    for (let n = 1; n <= 20; n++)
      await append(journal, [record(n, { run: n % 2 ? "odd" : "even" })], n % 3 > 0);
    assert.deepEqual(seqs(await all(journal.readFrom(7))), upTo(20, 8));
    assert.deepEqual(seqs(await all(journal.readFrom(20))), []);
    assert.deepEqual(seqs(await all(journal.readBack(Number.POSITIVE_INFINITY))), upTo(20).reverse());
    assert.deepEqual(seqs(await all(journal.readBack(4))), [3, 2, 1]);
    const odd = (await all(journal.readFrom(0, { needles: ['"run":"odd"'] }))).filter((r) => r.run === "odd");
    assert.equal(odd.length, 10, "a hint leaves out nothing that is wanted");
    const reading = journal.readFrom(0)[Symbol.asyncIterator]();
    const head = await reading.next();
    await append(journal, [record(21)]);
    const rest = await all({ [Symbol.asyncIterator]: () => reading });
    assert.deepEqual(seqs([...(head.value as JournalRecord[]), ...rest]), upTo(20));
    await journal.close();
  });

  test(`journal (${name}): opened from a place it gives only what came after, and says what is missing before a place it does not have`, async (t) => {
    const place = make(t);
    const { journal } = await place.open();
    for (let n = 1; n <= 5; n++) await append(journal, [record(n)]);
    const at = journal.position;
    for (let n = 6; n <= 9; n++) await append(journal, [record(n)]);
    await journal.close();
    assert.throws(() => journal.append({ records: [], durable: true, written() {}, failed() {} }), /ending/);
    const later = await place.open(at);
    assert.deepEqual(seqs(later.seen), [6, 7, 8, 9]);
    await later.journal.close();
    const cut = await place.open({ ...at, seq: 99, offset: at.offset + 100_000 });
    assert.deepEqual(cut.journal.missing, { from: 10, to: 99 });
    const why = "a test";
    const event = { type: "journal.gap", from: 10, to: 99, why, used: {} } as const;
    assert.deepEqual(seqs(await append(cut.journal, [record(0, { event }), record(1)])), [100, 101]);
    assert.equal((await cut.journal.verify()).damage, undefined);
    await cut.journal.close();
    const again = await place.open();
    assert.deepEqual(seqs(again.seen), [...upTo(9), 100, 101]);
    assert.equal(again.journal.missing, undefined);
    await again.journal.close();
  });

  test(`journal (${name}): thousands of appends at once from many callers stay in order`, async (t) => {
    const { journal } = await make(t).open();
    const callers = Array.from({ length: 40 }, async (_, c) => {
      let last = 0;
      for (let n = 0; n < 25; n++) {
        const [r] = await append(journal, [record(c, { task: `t${n}` })], n % 4 > 0);
        assert.ok(r!.seq > last);
        last = r!.seq;
      }
    });
    await Promise.all(callers);
    assert.deepEqual(seqs(await all(journal.readFrom(0))), upTo(1_000));
    assert.equal((await journal.verify()).damage, undefined);
    assert.ok(journal.counters.writes < 500, "they share writes");
    await journal.close();
  });
}
