// Temporary directories of tests: removed at the end of the test, whatever happened.

import { mkdtempSync, realpathSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { TestContext } from "node:test";

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
      rmSync(dir, { recursive: true, force: true, maxRetries: 5 });
    }
  });
  return dir;
}
