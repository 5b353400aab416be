// `verify` says which kind of damage was done, and to which record: every kind, in the first file, in the middle and at
// the end, and where two files meet.

import assert from "node:assert/strict";
import { randomBytes } from "node:crypto";
import { cpSync, readdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { type TestContext, test } from "node:test";
import { type AnchorPort, openAnchor, sealAnchor } from "../../bus/state/anchor.ts";
import { seal } from "../../bus/state/chain.ts";
import type { DamageKind } from "../../bus/state/journal.ts";
import type { Store } from "../../bus/state/store.ts";
import { quickDisk } from "../helpers/quick-disk.ts";
import { MemoryLog, openStore } from "../helpers/state.ts";
import { tempDir } from "../helpers/temp.ts";

const RECORDS = 30;
const READ = { actor: "person", method: "get_file", response_time_ms: 1, access: { path: "naïve 日本" } };

/** A journal of 30 records in some files, closed. */
async function history(t: TestContext): Promise<string> {
  const dir = join(tempDir(t), "bus");
  const store = await openStore(dir, { disk: quickDisk, segmentBytes: 1_500 });
  await fill(store, RECORDS);
  await store.close();
  return dir;
}

async function fill(store: Store, count: number): Promise<void> {
  for (let n = 0; n < count; n++) {
    await store.access({ ...READ, request_id: `q-${n}` });
    await store.query({ limit: 1 });
  }
}

/** All lines, each with its file. */
interface Placed {
  file: string;
  line: string;
}

function linesOf(dir: string): Placed[] {
  const files = readdirSync(join(dir, "journal")).sort();
  return files.flatMap((file) =>
    readFileSync(join(dir, "journal", file), "utf8")
      .trimEnd()
      .split("\n")
      .map((line) => ({ file, line })),
  );
}

function write(dir: string, lines: Placed[]): void {
  for (const file of readdirSync(join(dir, "journal"))) {
    const own = lines.filter((each) => each.file === file).map((each) => `${each.line}\n`);
    writeFileSync(join(dir, "journal", file), own.join(""));
  }
}

const forged = (seq: number) =>
  seal(
    randomBytes(32),
    "0".repeat(32),
    `{"v":1,"seq":${seq},"ts":"2030-01-01T00:00:00.000Z","kind":"access","actor":"person"}`,
  ).line;

type Change = (lines: Placed[], at: number) => Placed[];
const put = (lines: Placed[], at: number, line: string) => lines.toSpliced(at, 0, { ...lines[at]!, line });
const edit = (lines: Placed[], at: number, change: (line: string) => string) =>
  lines.with(at, { ...lines[at]!, line: change(lines[at]!.line) });

/** What is done to the record at index `at`; it should be said of that one. */
const DEEDS: {
  name: string;
  kind: DamageKind;
  change: Change;
  /** What is said beside that. */
  why?: RegExp;
  not?: ("first" | "last")[];
}[] = [
  {
    name: "a changed word",
    kind: "changed",
    change: (l, at) => edit(l, at, (x) => x.replace("naïve", "naive")),
  },
  {
    name: "a changed mac",
    kind: "changed",
    change: (l, at) => edit(l, at, (x) => x.replace(/"mac":"..../, '"mac":"0000')),
  },
  { name: "another text", kind: "changed", change: (l, at) => edit(l, at, () => "nothing") },
  { name: "a removed record", kind: "removed", change: (l, at) => l.toSpliced(at, 1), not: ["last"] },
  { name: "two removed records", kind: "removed", change: (l, at) => l.toSpliced(at, 2), not: ["last"] },
  { name: "a forged record", kind: "inserted", change: (l, at) => put(l, at, forged(at + 1)) },
  {
    name: "a copy of a later one",
    kind: "inserted",
    change: (l, at) => put(l, at, l.at(-1)!.line),
    not: ["last"],
  },
  {
    name: "text between",
    kind: "inserted",
    change: (l, at) => put(l, at, "nothing"),
    why: /^this line was put in before record \d+$/,
  },
  {
    name: "text between, three lines of it",
    kind: "inserted",
    change: (l, at) => ["a", "b", "c"].reduce((all, text) => put(all, at, text), l),
    why: /^3 lines were put in before record \d+$/,
  },
  {
    name: "two records doubled as one",
    kind: "inserted",
    change: (l, at) => put(put(l, at, l[at - 1]!.line), at, l[at - 2]!.line),
    why: /^2 lines were put in before record \d+$/,
    not: ["first"],
  },
  {
    name: "another text with the number and the mac of the record before",
    kind: "inserted",
    change: (l, at) => put(l, at, l[at - 1]!.line.replace("naïve", "naive")),
    why: /^this line was put in before record \d+$/,
    not: ["first"],
  },
  {
    name: "two exchanged records",
    kind: "reordered",
    change: (l, at) =>
      edit(
        edit(l, at, () => l[at + 1]!.line),
        at + 1,
        () => l[at]!.line,
      ),
    not: ["last"],
  },
  {
    name: "a record moved to the front",
    kind: "reordered",
    change: (l, at) => put(l.toSpliced(RECORDS - 1, 1), at, l[RECORDS - 1]!.line),
    not: ["last"],
  },
];

test("verify names changed, removed, inserted and reordered records, wherever they stand", async (t) => {
  const dir = await history(t);
  const lines = linesOf(dir);
  const border = lines.findIndex(({ file }) => file !== lines[0]!.file);
  assert.ok(border > 2 && new Set(lines.map(({ file }) => file)).size > 3);
  const places = { first: 0, middle: border + 2, "end of a file": border - 1, "start of a file": border };
  for (const deed of DEEDS) {
    for (const [place, at] of Object.entries({ ...places, last: RECORDS - 1 })) {
      if (deed.not?.includes(place as "first" | "last")) continue;
      const found = await verifyChanged(t, dir, (l) => deed.change(l, at));
      const bad = found.first_bad;
      assert.deepEqual(
        { kind: bad?.kind, seq: bad?.seq },
        { kind: deed.kind, seq: at + 1 },
        `${deed.name}, ${place}: ${JSON.stringify(found)}`,
      );
      if (deed.why) assert.match(bad?.why ?? "", deed.why, `${deed.name}, ${place}`);
      assert.equal(found.ok, false);
    }
  }
});

test("verify: a record doubled in place counts once, wherever it stands: a start went on behind it", async (t) => {
  const dir = await history(t);
  const border = linesOf(dir).findIndex(({ file }, _, all) => file !== all[0]!.file);
  for (const at of [1, border - 1, border, border + 2, RECORDS - 1]) {
    const found = await verifyChanged(t, dir, (l) => put(l, at, l[at - 1]!.line));
    assert.deepEqual([found.ok, found.records], [true, RECORDS], `${at}: ${JSON.stringify(found)}`);
  }
});

/** Changes the files under a store that is open, as somebody who wants to be unseen would, and verifies. */
async function verifyChanged(t: TestContext, from: string, change: (lines: Placed[]) => Placed[]) {
  const dir = join(tempDir(t), "bus");
  cpSync(from, dir, { recursive: true });
  const store = await openStore(dir, { disk: quickDisk, segmentBytes: 1_500 });
  try {
    write(dir, change(linesOf(dir)));
    return await store.verify();
  } finally {
    await store.close();
  }
}

test("verify: records cut off at the end of a journal that is open are said to be cut off", async (t) => {
  const dir = await history(t);
  for (const gone of [1, 7]) {
    const found = await verifyChanged(t, dir, (lines) => lines.slice(0, RECORDS - gone));
    assert.equal(found.first_bad?.kind, "cut");
    assert.equal(found.first_bad?.seq, RECORDS - gone + 1);
  }
});

class MemoryAnchor implements AnchorPort {
  texts: string[] = [];
  fails = false;
  async read(limit: number) {
    if (this.fails) throw new Error("no git");
    return this.texts.toReversed().slice(0, limit);
  }
  async add(text: string) {
    if (this.fails) throw new Error("no git");
    this.texts.push(text);
  }
}

test("the anchor: taken at rest, and the journal is compared with it at the start and by verify", async (t) => {
  const dir = join(tempDir(t), "bus");
  const anchor = new MemoryAnchor();
  const open = (log = new MemoryLog()) => openStore(dir, { disk: quickDisk, anchor, log });
  const store = await open();
  await store.change({ actor: "person" }, (d) =>
    d.emit({}, { type: "worker.registered", worker: "w", host: "h", slots: 1, pid: 2 }),
  );
  await fill(store, 5);
  await store.close();
  const point = openAnchor(store.key, anchor.texts.at(-1)!);
  assert.equal(point?.seq, 6);

  const again = await open();
  const whole = await again.verify();
  assert.deepEqual(
    { ok: whole.ok, held: whole.anchors?.held, newest: whole.anchors?.newest?.seq },
    { ok: true, held: 1, newest: 6 },
  );
  anchor.texts.push(
    sealAnchor(randomBytes(32), { seq: 99, mac: "0".repeat(32), at: "2030-01-01T00:00:00.000Z" }),
  );
  assert.equal((await again.verify()).ok, true, "what another key sealed says nothing");
  anchor.texts.push(sealAnchor(store.key, { ...point!, mac: "1".repeat(32) }));
  const replaced = (await again.verify()).first_bad;
  assert.equal(replaced?.kind, "replaced");
  assert.match(replaced?.why ?? "", /saw record 6 with mac 1{32}, the journal has/);
  anchor.texts.push(sealAnchor(store.key, { ...point!, seq: 9 }));
  anchor.texts.splice(-2, 1);
  const cut = (await again.verify()).first_bad;
  assert.equal(cut?.kind, "cut");
  assert.match(cut?.why ?? "", /saw record 9, but the journal ends with record 6/);
  await again.close();
});

test("the anchor: where it cannot be written, that is said once and nothing waits for it", async (t) => {
  const dir = join(tempDir(t), "bus");
  const anchor = new MemoryAnchor();
  anchor.fails = true;
  const log = new MemoryLog();
  const store = await openStore(dir, { disk: quickDisk, anchor, log });
  const change = () =>
    store.change({ actor: "person" }, (d) => d.emit({}, { type: "worker.gone", worker: "w" }));
  await change();
  await store.checkpoint();
  await change();
  await store.close();
  assert.equal(log.lines.filter((l) => /could not be anchored/.test(l.message)).length, 1);
  assert.equal((await openStore(dir, { disk: quickDisk })).seq, 2);
});
