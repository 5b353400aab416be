// Case 70: who gives room back on a full disk, and who does not.

import assert from "node:assert/strict";
import { existsSync, mkdirSync, rmSync } from "node:fs";
import { join } from "node:path";
import { type TestContext, test } from "node:test";
import { makeRoom } from "../../scheduler/make-room.ts";
import { sh } from "../helpers/repo.ts";
import { dropDisk, smallDisk } from "../helpers/small-disk.ts";
import { tempDir } from "../helpers/temp.ts";

const MIB = 1024 * 1024;

/** A disk of 16 MiB with an attempt that holds `own` bytes; somebody else fills the rest. */
function fullDisk(t: TestContext, own: number): { top: string; dir: string; file: string } | undefined {
  let there = false;
  const top = join(
    tempDir(t, "room", async () => (there ? dropDisk(top) : undefined)),
    "disk",
  );
  there = smallDisk(t, top, "16m");
  if (!there) return undefined;
  const dir = join(top, "attempt");
  mkdirSync(join(dir, "work"), { recursive: true });
  sh(top, `head -c ${own} /dev/zero > attempt/work/own.bin; cat /dev/zero > ballast 2> /dev/null || true`);
  return { top, dir, file: join(dir, "work", "own.bin") };
}

test("case 70: after a take-over an attempt loses nothing for a disk that somebody else filled", async (t) => {
  const disk = fullDisk(t, 2 * MIB);
  if (!disk) return;
  assert.equal(await makeRoom(disk.top, disk.dir, undefined), undefined);
  assert.ok(existsSync(disk.file));
  assert.equal(
    await makeRoom(disk.top, disk.dir, 14 * MIB),
    undefined,
    "nor where it is known what was free",
  );
  assert.ok(existsSync(disk.file));
});

test("case 70: after a take-over, too, an attempt that holds most of a full disk gives room back", async (t) => {
  const disk = fullDisk(t, 12 * MIB);
  if (!disk) return;
  assert.match((await makeRoom(disk.top, disk.dir, undefined)) ?? "", /filled the disk.*own\.bin \(12 MiB\)/);
  assert.equal(existsSync(disk.file), false);
  rmSync(join(disk.top, "ballast"));
  assert.equal(await makeRoom(disk.top, disk.dir, undefined), undefined, "there is room: nothing is touched");
});
