// case 69 journal-cut-anywhere: the journal of a real little history, damaged in every way of the case.

import assert from "node:assert/strict";
import { cpSync, mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, before, test } from "node:test";
import fc from "fast-check";
import { planHash, submit } from "../../bus/state/decide-run.ts";
import type { Store } from "../../bus/state/store.ts";
import { isCode } from "../../schemas/errors.ts";
import { quickDisk } from "../helpers/quick-disk.ts";
import { dump, MemoryLog, openStore, runSpec, taskSpec } from "../helpers/state.ts";

const CTX = { actor: "person", method: "submit_run", requestId: "q" };
const TEXT = 'naïve 日本 😀 \u2028 "quote" \\\\';
let root: string;
let journal: Buffer;
/** After record n: the state. */
const states: unknown[] = [];
/** Byte at which record n ends. */
const ends: number[] = [0];

const send = (store: Store, run: string) => {
  const spec = runSpec(run, [
    taskSpec("a", { goal: TEXT }),
    taskSpec("b", { depends_on: ["a"], goal: TEXT }),
  ]);
  return store.change(CTX, (d) => submit(d, { spec }, "me", planHash(spec)));
};

before(async () => {
  root = mkdtempSync(join(tmpdir(), "bb-cut-"));
  const dir = join(root, "history");
  const store = await openStore(dir, { disk: quickDisk });
  for (const run of ["one", "two", "three"]) await send(store, run);
  await store.close();
  journal = readFileSync(join(dir, "journal/000000000001.jsonl"));
  for (let at = 0; at < journal.length; ) {
    at = journal.indexOf(10, at) + 1;
    ends.push(at);
  }
  for (const end of ends) {
    const copy = place(journal.subarray(0, end));
    const cut = await openStore(copy.dir, { disk: quickDisk });
    states.push(dump(cut));
    await cut.close();
    copy.remove();
  }
});
after(() => rmSync(root, { recursive: true, force: true }));

let copies = 0;
/** A fresh state directory with these bytes as its journal. */
function place(bytes: Uint8Array): { dir: string; file: string; remove(): void } {
  const dir = join(root, `c${copies++}`);
  mkdirSync(join(dir, "journal"), { recursive: true });
  cpSync(join(root, "history/key"), join(dir, "key"));
  const file = join(dir, "journal/000000000001.jsonl");
  writeFileSync(file, bytes);
  return { dir, file, remove: () => rmSync(dir, { recursive: true, force: true }) };
}

/** Opens, appends, closes, opens again: record `kept` must be the last one kept, and nothing fused or lost. */
async function opensWith(bytes: Uint8Array, kept: number, torn: boolean): Promise<void> {
  const copy = place(bytes);
  const log = new MemoryLog();
  const store = await openStore(copy.dir, { log, disk: quickDisk });
  assert.equal(store.seq, kept);
  assert.deepEqual(dump(store), states[kept]);
  assert.equal(log.lines.filter((l) => l.level === "warn").length, torn ? 1 : 0, "said exactly once");
  await send(store, "z");
  assert.equal((await store.verify()).ok, true);
  const now = dump(store);
  const seq = store.seq;
  await store.close();
  if (torn) assert.equal(readdirSync(join(copy.dir, "torn")).length, 1, "the torn bytes are kept beside it");
  const again = await openStore(copy.dir, { disk: quickDisk });
  assert.deepEqual(dump(again), now);
  assert.equal(again.seq, seq);
  await again.close();
  copy.remove();
}

/** Refuses to open, names file and line, and leaves every byte as it was. */
async function refuses(bytes: Uint8Array, line: number): Promise<void> {
  const copy = place(bytes);
  await assert.rejects(openStore(copy.dir, { disk: quickDisk }), (e) => {
    assert.ok(isCode(e, "JOURNAL_DAMAGED"));
    assert.equal(e.data.line, line);
    assert.match(e.message, /Restore the directory from a backup; or, to give up record .*`busctl repair`/);
    return true;
  });
  assert.deepEqual(readFileSync(copy.file), Buffer.from(bytes));
  copy.remove();
}

const lastWhole = (length: number) => ends.findLastIndex((end) => end <= length);

test("case 69 journal-cut-anywhere: every cut near the end, and many before it", async () => {
  const cuts = new Set<number>();
  for (let at = 0; at < journal.length; at += 401) cuts.add(at);
  for (let at = ends.at(-3)!; at <= journal.length; at += 23) cuts.add(at);
  for (const end of ends)
    for (const at of [end - 1, end, end + 1]) if (at >= 0 && at <= journal.length) cuts.add(at);
  for (const cut of cuts) {
    await opensWith(journal.subarray(0, cut), lastWhole(cut), !ends.includes(cut));
  }
});

test("case 69: nul-tail, torn-utf8, last-twice and empty go on", async () => {
  const all = ends.length - 1;
  const nul = Buffer.alloc(4096);
  await opensWith(Buffer.concat([journal, nul]), all, true);
  await opensWith(Buffer.concat([journal.subarray(0, ends.at(-2)! + 40), nul]), all - 1, true);
  await opensWith(
    Buffer.concat([journal, Buffer.from('{"partial":"'), Buffer.from([0xe2, 0x80])]),
    all,
    true,
  );
  await opensWith(Buffer.concat([journal, Buffer.from('{"partial":1}\n')]), all, true);
  await opensWith(Buffer.concat([journal, journal.subarray(ends.at(-2)!)]), all, false);
  await opensWith(Buffer.alloc(0), 0, false);
});

test("case 69: nul-middle, run-together, bad-middle and reversed are refused with the place", async () => {
  const lines = journal.toString("utf8").trimEnd().split("\n");
  const last = journal.subarray(ends.at(-2)!);
  const nul = Buffer.alloc(4096);
  const count = lines.length;
  await refuses(Buffer.concat([journal.subarray(0, ends[2]! - 5), nul, journal.subarray(ends[2]! - 5)]), 2);
  await refuses(Buffer.concat([journal.subarray(0, journal.length - 9), last]), count);
  await refuses(Buffer.from(`${lines.map((l, i) => (i === 1 ? `[${l.slice(1)}` : l)).join("\n")}\n`), 2);
  await refuses(Buffer.from(`${[...lines].reverse().join("\n")}\n`), 1);
  await refuses(Buffer.from(`${lines.filter((_, i) => i !== 2).join("\n")}\n`), 3);
  await refuses(Buffer.from(`${lines.map((l) => l.replace("naïve", "clever")).join("\n")}\n`), 1);
});

test("case 69: cut behind a checkpoint, it starts from the checkpoint; the lost numbers stay free and verify says so for ever", async () => {
  for (const cut of [ends.at(-2)!, ends.at(-2)! + 9, ends[1]!, 0]) {
    const dir = join(root, `checked-${cut}`);
    cpSync(join(root, "history"), dir, { recursive: true });
    const last = ends.length - 1;
    const kept = lastWhole(cut);
    writeFileSync(join(dir, "journal/000000000001.jsonl"), journal.subarray(0, cut));
    const log = new MemoryLog();
    const store = await openStore(dir, { log, disk: quickDisk });
    assert.deepEqual(dump(store), states.at(-1), "nothing that the checkpoint has is lost");
    assert.equal(store.seq, last + 1);
    const said = log.lines.filter((l) => /are missing; it goes on/.test(l.message));
    assert.deepEqual(
      said.map(({ level, facts }) => [level, facts?.from, facts?.to]),
      [["warn", kept + 1, last]],
    );
    await send(store, "z");
    const now = dump(store);
    await store.close();
    for (const remove of ["", "checkpoint"]) {
      if (remove) rmSync(join(dir, remove), { recursive: true });
      const quiet = new MemoryLog();
      const again = await openStore(dir, { log: quiet, disk: quickDisk });
      assert.deepEqual(dump(again), now, "a replay of the journal alone leads there too");
      const proof = await again.verify();
      assert.deepEqual(
        proof.gaps?.map(({ from, to }) => [from, to]),
        [[kept + 1, last]],
      );
      assert.deepEqual([proof.ok, proof.first_bad, proof.replay?.same], [false, undefined, true]);
      assert.ok(!quiet.lines.some((l) => /are missing/.test(l.message)), "said once");
      await again.close();
    }
  }
});

test("case 69: one changed byte anywhere never gives another history: refused, or the torn end cut off", async () => {
  await fc.assert(
    fc.asyncProperty(fc.nat(journal.length - 1), fc.integer({ min: 1, max: 255 }), async (at, flip) => {
      const bytes = Buffer.from(journal);
      bytes[at] = bytes[at]! ^ flip;
      const copy = place(bytes);
      try {
        const store = await openStore(copy.dir, { disk: quickDisk });
        assert.ok(store.seq >= ends.length - 2, "only the last record may be taken for torn");
        assert.deepEqual(dump(store), states[store.seq]);
        await store.close();
      } catch (error) {
        assert.ok(isCode(error, "JOURNAL_DAMAGED"), String(error));
      } finally {
        copy.remove();
      }
    }),
    { numRuns: 60 },
  );
});
