// The end of the journal is missing although it is known to have been written: what the bus goes on from, and what it never does.

import assert from "node:assert/strict";
import { mkdirSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { test } from "node:test";
import { type AnchorPort, sealAnchor } from "../../bus/state/anchor.ts";
import { claim } from "../../bus/state/decide-attempt.ts";
import { planHash, submit } from "../../bus/state/decide-run.ts";
import type { Store } from "../../bus/state/store.ts";
import { attemptName } from "../../scheduler/dirs.ts";
import { isCode } from "../../schemas/errors.ts";
import { readAttemptName } from "../../schemas/ids.ts";
import { quickDisk } from "../helpers/quick-disk.ts";
import { BASE, dump, MemoryLog, openStore, runSpec, specsOf } from "../helpers/state.ts";
import { tempDir } from "../helpers/temp.ts";

const spec = runSpec("r", specsOf({ a: [], "b-2": [] }));
const send = (store: Store) =>
  store.change({ actor: "person" }, (d) => submit(d, { spec }, "me", planHash(spec)));
const take = (store: Store, task: string) =>
  store.change({ actor: "scheduler:w" }, (d) =>
    claim(d, {
      run: "r",
      task,
      state_version: d.mustTask("r", task).state_version,
      worker: "w",
      base: BASE,
      workspace: "/w",
    }),
  );

test("attempts begun in the lost part are not numbered again: their shims hold tokens made from the number", async (t) => {
  const top = tempDir(t);
  const dir = join(top, "bus");
  const before = await openStore(dir, { disk: quickDisk });
  await send(before);
  await before.close();
  const end = before.seq;
  // Three tries of a and one of b-2 were begun after the last record that is left.
  for (const [task, attempt] of [
    ["a", 2],
    ["a", 3],
    ["b-2", 1],
  ] as const)
    mkdirSync(join(top, "runs/r", attemptName({ run: "r", task, attempt }, Date.UTC(2030, 0, 1), "0123ab")), {
      recursive: true,
    });
  const texts = [
    sealAnchor(before.key, { seq: end + 9, mac: "1".repeat(32), at: "2030-01-01T00:00:00.000Z" }),
  ];
  const anchor: AnchorPort = { read: async () => texts, add: async (text) => void texts.unshift(text) };
  const log = new MemoryLog();
  const store = await openStore(dir, { disk: quickDisk, anchor, log });
  assert.equal(store.seq, end + 10);
  const [said] = log.lines.filter((l) => /are missing; it goes on/.test(l.message));
  assert.deepEqual(said?.facts?.used, { "r/a": 3, "r/b-2": 1 });
  assert.match(String(said?.facts?.why), /the anchor of 2030-01-01T00:00:00.000Z saw record/);
  assert.equal((await take(store, "a")).attempt, 4);
  assert.equal((await take(store, "b-2")).attempt, 2);
  const proof = await store.verify();
  assert.deepEqual([proof.ok, proof.first_bad, proof.gaps?.length], [false, undefined, 1]);
  await store.close();
  const again = await openStore(dir, { disk: quickDisk, anchor });
  assert.deepEqual(dump(again), dump(store));
  assert.equal((await again.verify()).gaps?.length, 1);
  await again.close();
});

test("names of attempts are read as they are given", () => {
  for (const task of ["a", "b-2", "x.1-7-abc"])
    assert.deepEqual(readAttemptName(attemptName({ run: "r", task, attempt: 12 }, 0, "0123ab")), {
      task,
      attempt: 12,
    });
  assert.equal(readAttemptName("archive"), undefined);
});

test("whole files gone at the end: the journal goes on in a new file behind the lost numbers", async (t) => {
  const dir = join(tempDir(t), "bus");
  const open = () => openStore(dir, { disk: quickDisk, segmentBytes: 1_000 });
  const store = await open();
  await send(store);
  for (let n = 0; n < 30; n++)
    await store.change({ actor: "p" }, (d) => d.emit({}, { type: "worker.gone", worker: `w${n}` }));
  const now = dump(store);
  await store.close();
  const files = readdirSync(join(dir, "journal")).sort();
  assert.ok(files.length > 3);
  for (const file of files.slice(2)) rmSync(join(dir, "journal", file));
  const again = await open();
  assert.deepEqual(dump(again), now);
  assert.equal(again.seq, store.seq + 1);
  assert.equal((await again.verify()).first_bad, undefined);
  await again.close();
  rmSync(join(dir, "checkpoint"), { recursive: true });
  const whole = await open();
  assert.deepEqual(dump(whole), now);
  await whole.close();
});

test("a journal that another history continues is refused, not taken for one with a gap", async (t) => {
  const top = tempDir(t);
  const store = await openStore(join(top, "one"), { disk: quickDisk });
  await send(store);
  await store.close();
  const file = (dir: string) => join(top, dir, "journal/000000000001.jsonl");
  // The same key, an older copy, and other records on top of it.
  mkdirSync(join(top, "two"), { recursive: true });
  writeFileSync(join(top, "two/key"), store.key, { mode: 0o600 });
  const other = await openStore(join(top, "two"), { disk: quickDisk });
  for (let n = 0; n < 9; n++)
    await other.change({ actor: "p" }, (d) => d.emit({}, { type: "worker.gone", worker: "w" }));
  await other.close();
  writeFileSync(file("one"), readFileSync(file("two")));
  await assert.rejects(
    openStore(join(top, "one"), { disk: quickDisk }),
    (e) => isCode(e, "JOURNAL_DAMAGED") && e.data.kind === "replaced",
  );
});

test("attempts that neither checkpoint nor anchor saw: their directories and refs alone say which numbers were used", async (t) => {
  const top = tempDir(t);
  const dir = join(top, "bus");
  const before = await openStore(dir, { disk: quickDisk });
  await send(before);
  await before.close();
  mkdirSync(join(top, "runs/r", attemptName({ run: "r", task: "a", attempt: 2 }, 0, "0123ab")), {
    recursive: true,
  });
  const refs = ["refs/busbar/attempts/r/b-2/4/v1", "refs/busbar/attempts/gone/x/9/v1", "refs/heads/main"];
  const attemptRefs = async () => refs;
  const store = await openStore(dir, { disk: quickDisk, attemptRefs });
  assert.equal((await take(store, "a")).attempt, 3);
  assert.equal((await take(store, "b-2")).attempt, 5);
  const proof = await store.verify();
  assert.deepEqual([proof.ok, proof.replay?.same], [true, true]);
  await store.close();
  const again = await openStore(dir, { disk: quickDisk, attemptRefs });
  assert.deepEqual(dump(again), dump(store));
  assert.equal(again.seq, store.seq, "said once");
  await again.close();
  const log = new MemoryLog();
  const failing = async () => Promise.reject(new Error("no git"));
  const blind = await openStore(dir, { disk: quickDisk, attemptRefs: failing, log });
  assert.ok(log.lines.some((line) => /refs of attempts cannot be read/.test(line.message)));
  await blind.close();
});
