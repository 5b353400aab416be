// Closed segments of the journal, packed: everything that reads the journal reads them too, and no step of packing loses a record.

import assert from "node:assert/strict";
import {
  copyFileSync,
  existsSync,
  readdirSync,
  readFileSync,
  renameSync,
  rmSync,
  writeFileSync,
} from "node:fs";
import { basename, join } from "node:path";
import { type TestContext, test } from "node:test";
import { gunzipSync } from "node:zlib";
import type { Disk } from "../../bus/state/disk.ts";
import { packMember } from "../../bus/state/packed.ts";
import type { AuditFilter } from "../../bus/state/query.ts";
import type { Store } from "../../bus/state/store.ts";
import { isCode } from "../../schemas/errors.ts";
import type { JournalRecord } from "../../schemas/events.ts";
import { quickDisk } from "../helpers/quick-disk.ts";
import { dump, FakeClock, MemoryLog, openStore } from "../helpers/state.ts";
import { tempDir } from "../helpers/temp.ts";
import { until } from "../helpers/wait.ts";

const SEGMENT = 4_000;

interface Place {
  dir: string;
  clock: FakeClock;
  log: MemoryLog;
  open(disk?: Disk): Promise<Store>;
  names(): string[];
  file(name: string): string;
}

function place(t: TestContext): Place {
  const dir = join(tempDir(t), "bus");
  const [clock, log] = [new FakeClock(), new MemoryLog()];
  return {
    dir,
    clock,
    log,
    open: (disk = quickDisk) => openStore(dir, { disk, segmentBytes: SEGMENT, clock, log }),
    names: () => readdirSync(join(dir, "journal")).sort(),
    file: (name) => join(dir, "journal", name),
  };
}

/** Reads of some agents, with a little event now and then. */
async function fill(store: Store, clock: FakeClock, from: number, to: number): Promise<void> {
  for (let n = from; n < to; n++) {
    clock.ms += 1_000;
    const task = `t${n % 5}`;
    await store.access({
      actor: `agent:r/${task}#1`,
      method: n % 7 === 0 ? "list_files" : "get_file",
      request_id: `q-${n}`,
      response_time_ms: 1,
      run: n < 100 ? "early" : "late",
      task,
      access: { path: `naïve/${n}` },
    });
    if (n % 10 === 0)
      await store.change({ actor: "person" }, (d) => d.emit({}, { type: "worker.gone", worker: `w${n}` }));
  }
  await store.query({ limit: 1 });
}

/** A store whose closed segments are packed. */
async function packed(t: TestContext): Promise<Place & { store: Store }> {
  const here = place(t);
  const store = await here.open();
  await fill(store, here.clock, 0, 200);
  await store.checkpoint();
  await until(
    "all closed files are packed",
    () => here.names().filter((n) => n.endsWith(".jsonl")).length === 1,
  );
  return { ...here, store };
}

const seqs = (records: JournalRecord[]) => records.map(({ seq }) => seq);

test("closed segments are packed: questions, replay, verify and a restart see every record", async (t) => {
  const { store, open, names, file, dir } = await packed(t);
  assert.ok(names().filter((name) => name.endsWith(".jsonl.gz")).length > 5);
  assert.equal(names().filter((name) => name.endsWith(".idx")).length, names().length / 2 - 0.5);
  const all = await store.query({ limit: 10_000 });
  assert.deepEqual(
    seqs(all.records),
    Array.from({ length: store.seq }, (_, i) => i + 1),
  );
  assert.deepEqual((await store.query({ limit: 10_000, newest: true })).records, all.records.toReversed());
  const proof = await store.verify();
  assert.deepEqual(proof, { ok: true, records: store.seq, replay: { same: true } });
  const first = names().find((name) => name.endsWith(".gz"))!;
  assert.match(gunzipSync(readFileSync(file(first))).toString("utf8"), /^\{"v":1,"seq":1,.*\}\n$/s);
  const before = dump(store);
  await store.close();
  const again = await open();
  assert.deepEqual(dump(again), before);
  await again.close();
  rmSync(join(dir, "checkpoint"), { recursive: true });
  const whole = await open();
  assert.deepEqual(dump(whole), before);
  assert.equal((await whole.verify()).ok, true);
  await whole.close();
});

test("every filter gives the same records from packed files, with and without index, as a look at every record does", async (t) => {
  const { store, names, file, clock } = await packed(t);
  const everything = (await store.query({ limit: 10_000 })).records;
  const time = (ms: number) => new Date(ms).toISOString();
  const filters: AuditFilter[] = [
    { task: "t3" },
    { run: "early" },
    { actor: "agent:r/t4#1" },
    { method: "list_files" },
    { kind: "event" },
    { request_id: "q-77" },
    { request_id: "no-such" },
    { since: time(clock.ms - 30_000) },
    { until: time(clock.ms - 170_000) },
    { since: time(clock.ms - 100_500), until: time(clock.ms - 90_000), task: "t1" },
    { run: "late", method: "list_files", newest: true },
    { task: "t2", newest: true, after_seq: 50 },
    { task: "t2", after_seq: 150, limit: 3 },
  ];
  const plain = (f: AuditFilter) => {
    const list = everything.filter(
      (r) =>
        (["run", "task", "actor", "method", "request_id", "kind"] as const).every(
          (name) => f[name] === undefined || f[name] === r[name],
        ) &&
        (f.since === undefined || r.ts >= f.since) &&
        (f.until === undefined || r.ts <= f.until),
    );
    const after = f.after_seq;
    const rest = list.filter(({ seq }) => after === undefined || (f.newest ? seq < after : seq > after));
    return (f.newest ? rest.toReversed() : rest).slice(0, f.limit ?? 1_000);
  };
  const check = async (what: string) => {
    for (const filter of filters)
      assert.deepEqual(
        seqs((await store.query(filter)).records),
        seqs(plain(filter)),
        `${what}: ${JSON.stringify(filter)}`,
      );
  };
  await check("with index");
  const indexes = names().filter((name) => name.endsWith(".idx"));
  writeFileSync(file(indexes[0]!), "spoilt");
  rmSync(file(indexes[1]!));
  copyFileSync(file(indexes[2]!), file(indexes[3]!));
  await check("with spoilt indexes");
  await store.close();
});

test("an index that is missing, spoilt or forged is made anew; verify never looks at it", async (t) => {
  const { store, open, names, file, clock } = await packed(t);
  await store.close();
  const indexes = names().filter((name) => name.endsWith(".idx"));
  const good = indexes.map((name) => readFileSync(file(name)));
  rmSync(file(indexes[0]!));
  writeFileSync(file(indexes[1]!), Buffer.from(good[1]!).fill(0, 100, 104));
  const again = await open();
  assert.equal((await again.verify()).ok, true);
  await fill(again, clock, 200, 201);
  await again.checkpoint();
  await until("made anew", () =>
    indexes.every((name, i) => existsSync(file(name)) && readFileSync(file(name)).equals(good[i]!)),
  );
  await again.close();
});

test("a crash between the steps of packing: the plain file counts, and packing is done again", async (t) => {
  const { store, open, names, file, clock } = await packed(t);
  const records = (await store.query({ limit: 10_000 })).records;
  await store.close();
  const [one, two] = names().filter((name) => name.endsWith(".gz")) as [string, string];
  const plainOf = (name: string) => file(name.replace(/\.gz$/, ""));
  // before the plain file went: both are there, and the packed one may even be bad
  writeFileSync(plainOf(one), gunzipSync(readFileSync(file(one))));
  writeFileSync(file(one), readFileSync(file(one)).subarray(0, 100));
  // before the packed file had its name
  writeFileSync(plainOf(two), gunzipSync(readFileSync(file(two))));
  renameSync(file(two), `${file(two)}.tmp`);
  const again = await open();
  assert.deepEqual(seqs((await again.query({ limit: 10_000 })).records), seqs(records));
  assert.equal((await again.verify()).ok, true);
  await fill(again, clock, 200, 201);
  await again.checkpoint();
  await until("packed again", () => !existsSync(plainOf(one)) && !existsSync(plainOf(two)));
  assert.deepEqual(seqs((await again.query({ limit: records.length })).records), seqs(records));
  assert.equal((await again.verify()).ok, true);
  assert.ok(!names().some((name) => name.endsWith(".tmp")));
  await again.close();
});

test("a disk that refuses, or gives back other bytes than were written, leaves the plain files and is said once", async (t) => {
  for (const fault of ["rename", "lies"] as const) {
    const here = place(t);
    const disk: Disk = {
      ...quickDisk,
      rename: (from, to) =>
        fault === "rename" && to.endsWith(".gz")
          ? Promise.reject(Object.assign(new Error("EIO"), { code: "EIO" }))
          : quickDisk.rename(from, to),
      open: async (path, flags, mode) => {
        const file = await quickDisk.open(path, flags, mode);
        if (fault !== "lies" || !path.endsWith(".gz.tmp")) return file;
        return {
          ...file,
          write: (b, o, l, at) => file.write(at === 0 ? Buffer.from(b).fill(7, 60, 61) : b, o, l, at),
        };
      },
    };
    const store = await here.open(disk);
    await fill(store, here.clock, 0, 60);
    const plain = here.names();
    await store.checkpoint();
    await until("said", () => here.log.lines.some((l) => /left as it is/.test(l.message)));
    await store.checkpoint();
    await store.close();
    assert.deepEqual(
      here.names().filter((name) => name.endsWith(".jsonl")),
      plain,
      fault,
    );
    assert.ok(!here.names().some((name) => /tmp|\.gz$/.test(name)));
  }
});

test("a file that a full disk kept from being packed is tried again, at growing distances", async (t) => {
  const here = place(t);
  let now = 0;
  here.clock.monotonic = () => now;
  let isFull = true;
  const tries = new Map<string, number>();
  const disk: Disk = {
    ...quickDisk,
    rename: async (from, to) => {
      if (!to.endsWith(".gz")) return quickDisk.rename(from, to);
      const name = basename(to, ".gz");
      tries.set(name, (tries.get(name) ?? 0) + 1);
      if (isFull) throw Object.assign(new Error("ENOSPC"), { code: "ENOSPC" });
      await quickDisk.rename(from, to);
    },
  };
  const store = await here.open(disk);
  let filled = 0;
  /** Closes files, and lets the packer come as far as the newest of them: all before it had their turn. */
  const turn = async () => {
    await fill(store, here.clock, filled, filled + 60);
    filled += 60;
    const newest = here.names().findLast((name, i, all) => name.endsWith(".jsonl") && i < all.length - 1)!;
    await until(`${newest} was tried`, async () => {
      await fill(store, here.clock, filled, filled + 1);
      filled += 1;
      await store.checkpoint();
      return tries.has(newest);
    });
  };
  await turn();
  const first = here.names().find((name) => name.endsWith(".jsonl"))!;
  for (const [at, count] of [
    [59_999, 1],
    [60_000, 2],
    [179_999, 2],
    [180_000, 3],
  ] as const) {
    now = at;
    await turn();
    assert.equal(tries.get(first), count, `after ${at} ms`);
  }
  assert.equal(here.log.lines.filter(({ facts }) => facts?.file === here.file(first)).length, 1, "said once");
  isFull = false;
  now = 180_000 + 3_600_000;
  await turn();
  assert.ok(existsSync(here.file(`${first}.gz`)) && !existsSync(here.file(first)));
  assert.equal((await store.verify()).ok, true);
  await store.close();
});

test("a damaged segment is not packed", async (t) => {
  const here = place(t);
  const store = await here.open();
  await fill(store, here.clock, 0, 60);
  const first = here.file(here.names()[0]!);
  writeFileSync(first, readFileSync(first, "utf8").replace("naïve/3", "naïve/4"));
  await store.checkpoint();
  await until("said", () =>
    here.log.lines.some((l) => /does not follow the one before/.test(String(l.facts?.why))),
  );
  assert.ok(existsSync(first));
  assert.equal((await store.verify()).first_bad?.kind, "changed");
  await store.close();
});

test("verify names damage in packed files; a start that needs nothing of them goes on, one that does refuses", async (t) => {
  const { store, names, file, open, dir } = await packed(t);
  const gz = names().filter((name) => name.endsWith(".gz"))[2]!;
  const whole = readFileSync(file(gz));
  const lines = gunzipSync(whole).toString("utf8").trimEnd().split("\n");
  const first = Number(gz.slice(0, 12));
  const put = async (changed: string[]) =>
    writeFileSync(file(gz), await packMember(Buffer.from(`${changed.join("\n")}\n`)));
  for (const [kind, changed] of [
    ["changed", lines.with(2, lines[2]!.replace("naïve", "naive"))],
    ["removed", lines.toSpliced(2, 1)],
    ["inserted", lines.toSpliced(2, 0, lines[0]!)],
    ["reordered", lines.with(2, lines[3]!).with(3, lines[2]!)],
  ] as const) {
    await put([...changed]);
    const { first_bad } = await store.verify();
    assert.deepEqual([first_bad?.kind, first_bad?.seq], [kind, first + 2]);
  }
  for (const spoil of [whole.subarray(0, -3), Buffer.from(whole).fill(1, 100, 110), Buffer.from("no gzip")]) {
    writeFileSync(file(gz), spoil);
    const { first_bad } = await store.verify();
    assert.deepEqual([first_bad?.kind, first_bad?.seq, first_bad?.file], ["changed", first, file(gz)]);
    assert.match(first_bad?.why ?? "", /packed file was changed/);
  }
  await store.close();
  await (await open()).close();
  rmSync(join(dir, "checkpoint"), { recursive: true });
  await assert.rejects(open(), (e) => isCode(e, "JOURNAL_DAMAGED") && e.data.seq === first);
});
