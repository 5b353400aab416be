// What a process wrote, counted in slices: at a bounded cost, by what changed since its start.

import assert from "node:assert/strict";
import { closeSync, mkdirSync, openSync, rmSync, writeFileSync, writeSync } from "node:fs";
import { join } from "node:path";
import test, { type TestContext } from "node:test";
import { DiskQuota } from "../../shim/disk.ts";
import { tempDir } from "../helpers/temp.ts";

const MIB = 1024 * 1024;
const LONG = 60_000;

/** A quota whose first look is due at once, and how many slices it took. */
function look(
  dir: string,
  limit: number,
  since: number,
  pids: number[] = [],
): { found: unknown; slices: number } {
  let now = 0;
  const quota = new DiskQuota(dir, limit, since, () => now);
  now = LONG;
  for (let slices = 1; ; slices += 1) {
    const found = quota.step(() => pids);
    if (found !== "more") return { found, slices };
  }
}

function tree(t: TestContext): string {
  const dir = tempDir(t, "disk");
  mkdirSync(join(dir, "work", "deep", "er"), { recursive: true });
  return dir;
}

test("issue 4.1: what was there before costs nothing; what was written since is named with its size", (t) => {
  const dir = tree(t);
  writeFileSync(join(dir, "work", "base"), Buffer.alloc(8 * MIB));
  assert.equal(look(dir, MIB, Date.now() + LONG).found, undefined);
  writeFileSync(join(dir, "work", "deep", "er", "big"), Buffer.alloc(4 * MIB));
  const { found } = look(dir, MIB, Date.now() - LONG);
  assert.match(
    String(found),
    /^disk 1 MiB: it wrote (4|8|12)\.?\d* MiB or more, most of it in work\/\S+ \(\d+ MiB\)/,
  );
  assert.equal(look(dir, 64 * MIB, Date.now() - LONG).found, undefined);
});

test("issue 4.1: a workspace of many files is gone through in slices; files without content count too", (t) => {
  const dir = tree(t);
  for (let n = 0; n < 9_000; n += 1) closeSync(openSync(join(dir, "work", String(n)), "w"));
  assert.deepEqual(look(dir, 64 * MIB, Date.now() - LONG), { found: undefined, slices: 3 });
  assert.match(String(look(dir, 8 * MIB, Date.now() - LONG).found), /^disk 8 MiB: it wrote 8 MiB or more/);
});

test("issue 4.1: a file that was removed and is held open counts; of another process nothing does", (t) => {
  const dir = tree(t);
  const fd = openSync(join(dir, "gone"), "w");
  writeSync(fd, Buffer.alloc(4 * MIB));
  rmSync(join(dir, "gone"));
  try {
    assert.match(
      String(look(dir, MIB, Date.now() - LONG, [process.pid]).found),
      /a removed file that is open \(4 MiB\)/,
    );
    assert.equal(look(dir, MIB, Date.now() - LONG, [999_999_999]).found, undefined);
  } finally {
    closeSync(fd);
  }
});

test("issue 4.1: looks come at once where the disk lost as much as is left, else rarely; the last one sees the end", (t) => {
  const dir = tree(t);
  let now = 0;
  const quota = new DiskQuota(dir, 1, Date.now() - LONG, () => now);
  writeFileSync(join(dir, "big"), Buffer.alloc(4 * MIB));
  // 1 byte is left: whatever the disk lost in all makes a look due; one comes after a while in any case.
  for (let found: unknown; found === undefined; found = quota.step(() => [])) now += 1_000;
  assert.ok(now <= 6_000, `found after ${now} ms`);
});
