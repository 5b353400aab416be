// Temporary directories of tests: removed at the end of the test, whatever happened.

import { mkdtempSync, realpathSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { TestContext } from "node:test";
import { isErrno } from "../../bus/state/errno.ts";
import { until } from "./wait.ts";

/**
 * A fresh directory (real path) that is gone after the test. `end` runs before it is removed: hooks run in the order
 * in which they were registered, so one that comes later and still writes would make the directory again.
 */
export function tempDir(t: TestContext, name = "t", end?: () => Promise<void>): string {
  const dir = realpathSync(mkdtempSync(join(tmpdir(), `bb-${name}-`)));
  t.after(async () => {
    try {
      await end?.();
    } finally {
      // What was just told to end may still write its last file.
      await until(`${dir} is gone`, () => removed(dir), 30_000);
    }
  });
  return dir;
}

function removed(dir: string): boolean {
  try {
    rmSync(dir, { recursive: true, force: true });
    return true;
  } catch (error) {
    if (isErrno(error, "ENOTEMPTY")) return false;
    throw error;
  }
}
