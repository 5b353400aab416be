// The key of a state: what is not taken for it, and what is said where it is another one. `busctl repair` takes nothing out
// of a journal whose key is the trouble.

import assert from "node:assert/strict";
import {
  chmodSync,
  chownSync,
  readdirSync,
  readFileSync,
  renameSync,
  symlinkSync,
  writeFileSync,
} from "node:fs";
import { join } from "node:path";
import { type TestContext, test } from "node:test";
import { systemDisk } from "../../bus/state/disk.ts";
import { lookAtDamage } from "../../bus/state/repair.ts";
import { type BusbarError, isCode } from "../../schemas/errors.ts";
import { quickDisk } from "../helpers/quick-disk.ts";
import { openStore } from "../helpers/state.ts";
import { tempDir } from "../helpers/temp.ts";
import { makeWorld } from "../helpers/world.ts";

const look = (dir: string) => lookAtDamage({ disk: systemDisk, dir, monotonic: () => performance.now() });

/** A state with some records and a checkpoint, closed. */
async function written(t: TestContext, records = 12): Promise<string> {
  const dir = join(tempDir(t), "bus");
  const store = await openStore(dir, { disk: quickDisk });
  for (let n = 0; n < records; n++)
    await store.change({ actor: "p" }, (d) => d.emit({}, { type: "worker.gone", worker: `w${n}` }));
  await store.close();
  return dir;
}

async function refused(deed: Promise<unknown>): Promise<BusbarError> {
  const error = await deed.then(
    () => undefined,
    (e: unknown) => e,
  );
  assert.ok(isCode(error, "KEY_UNUSABLE"), String(error));
  return error;
}

test("issue 3.4: a key that others may read, a link, a directory, a stranger's file: not used, and said what to do", async (t) => {
  const dir = await written(t);
  const path = join(dir, "key");
  for (const mode of [0o644, 0o640, 0o660, 0o700, 0o604]) {
    chmodSync(path, mode);
    const error = await refused(openStore(dir));
    assert.match(error.message, new RegExp(`key ${path} has mode 0${mode.toString(8)} instead of 0600`));
    assert.match(String(error.data.help), /^`chmod 600 '/);
    await refused(look(dir));
  }
  chmodSync(path, 0o400);
  await (await openStore(dir)).close();
  chmodSync(path, 0o600);
  renameSync(path, `${path}-elsewhere`);
  symlinkSync(`${path}-elsewhere`, path);
  assert.match((await refused(openStore(dir))).message, /is a symbolic link/);
  if (process.getuid?.() !== 0) return;
  renameSync(`${path}-elsewhere`, path);
  chownSync(path, 12345, 0);
  assert.match((await refused(openStore(dir))).message, /belongs to user 12345, its directory to user 0/);
});

test("issue 3.4: another key than the one that sealed the journal: start and repair name the key, and change nothing", async (t) => {
  const dir = await written(t);
  const path = join(dir, "key");
  const right = readFileSync(path);
  const before = readFileSync(join(dir, "journal/000000000001.jsonl"));
  writeFileSync(path, Buffer.alloc(32, 7));
  for (const deed of [openStore, look]) {
    const error = await refused(deed(dir));
    assert.match(error.message, /the key .*key does not fit: nothing of the journal .* nothing was changed/);
    assert.match(String(error.data.help), /^Bring that key back from a backup/);
    assert.doesNotMatch(`${error.message} ${error.data.help}`, /repair/);
  }
  assert.deepEqual(readFileSync(join(dir, "journal/000000000001.jsonl")), before);
  writeFileSync(path, right);
  assert.equal(await look(dir), undefined);
  // The right key, and a first record that was changed: that is damage.
  const text = before.toString();
  writeFileSync(join(dir, "journal/000000000001.jsonl"), text.replace('"w0"', '"w9"'));
  assert.equal((await look(dir))?.damage.seq, 1);
  await assert.rejects(openStore(dir), (e) => isCode(e, "JOURNAL_DAMAGED"));
});

test("issue 3.4: too little to tell: a single record that does not follow is damage of the journal", async (t) => {
  const dir = join(tempDir(t), "bus");
  const store = await openStore(dir, { disk: quickDisk });
  await store.change({ actor: "p" }, (d) => d.emit({}, { type: "worker.gone", worker: "w" }));
  await store.close();
  for (const name of readdirSync(join(dir, "checkpoint")))
    renameSync(join(dir, "checkpoint", name), join(dir, name));
  writeFileSync(join(dir, "key"), Buffer.alloc(32, 7));
  await assert.rejects(openStore(dir), (e) => isCode(e, "JOURNAL_DAMAGED"));
});

test("issue 3.4: no state yet: repair has nothing to do and asks for no key", async (t) => {
  assert.equal(await look(join(tempDir(t), "bus")), undefined);
});

test("issue 3.4: busctl up and busctl repair with another key tell to bring the key back, also with --yes", async (t) => {
  const world = makeWorld(t);
  const ran = await world.run([{ id: "a", command: "echo ok > a.txt" }]);
  assert.equal(ran.code, 0, ran.out + ran.err);
  const dir = join(world.endpoint().state_dir, "bus");
  await world.down();
  const right = readFileSync(join(dir, "key"));
  writeFileSync(join(dir, "key"), Buffer.alloc(32, 7));
  const journal = readFileSync(join(dir, "journal/000000000001.jsonl"));
  for (const words of [["up"], ["repair"], ["repair", "--yes"]]) {
    const told = await world.busctl(words);
    assert.notEqual(told.code, 0);
    assert.match(
      told.err,
      /the key .*\/key does not fit: .*\n {2}-> Bring that key back from a backup/,
      words.join(" "),
    );
    assert.equal(told.out, "");
  }
  assert.deepEqual(readFileSync(join(dir, "journal/000000000001.jsonl")), journal);
  writeFileSync(join(dir, "key"), right);
  assert.equal((await world.busctl(["up"])).code, 0);
});

test("issue 3.4: what a bus was writing beside its key when it died is gone after the next start, and nothing else", async (t) => {
  const dir = await written(t);
  const before = readdirSync(dir).sort();
  writeFileSync(join(dir, ".anchored.json.16999-1.tmp"), '{"v":1,"se', { mode: 0o600 });
  await (await openStore(dir, { disk: quickDisk })).close();
  assert.deepEqual(readdirSync(dir).sort(), before);
});
