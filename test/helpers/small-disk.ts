// A small file system of its own, for tests of full and read-only disks. It needs root and the right to mount; where
// that is missing the test is left out with a line that says so.

import { spawnSync } from "node:child_process";
import { mkdirSync } from "node:fs";
import type { TestContext } from "node:test";

/** Mounts a tmpfs of `size` at `dir`; false, with the reason said, where this machine may not. */
export function smallDisk(t: TestContext, dir: string, size: string): boolean {
  const isRoot = process.getuid?.() === 0;
  mkdirSync(dir, { recursive: true, mode: 0o700 });
  const made = spawnSync("mount", ["-t", "tmpfs", "-o", `size=${size},mode=0700`, "busbar-test", dir], {
    encoding: "utf8",
  });
  if (made.status === 0) return true;
  const need = isRoot ? "mount-of-tmpfs: a container may forbid it" : "root";
  console.log(`LEFT OUT: ${t.name.split(":")[0]} on a small file system (needs ${need})`);
  t.skip("no small file system here");
  return false;
}

/** Makes `dir` read-only until `dropDisk`, for root, too; false, with the reason said, where this machine may not. */
export function readOnly(t: TestContext, dir: string): boolean {
  const bound = spawnSync("mount", ["--bind", dir, dir]);
  const made = bound.status === 0 && spawnSync("mount", ["-o", "remount,bind,ro", dir]).status === 0;
  if (made) return true;
  if (bound.status === 0) dropDisk(dir);
  console.log(`LEFT OUT: ${t.name.split(":")[0]} on a read-only place (needs root and bind mounts)`);
  t.skip("no read-only place here");
  return false;
}

/** Takes it away again, whoever still looks at it. */
export function dropDisk(dir: string): void {
  spawnSync("umount", ["-l", dir]);
}
