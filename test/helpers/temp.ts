// Temporary directories of tests: removed at the end of the test, whatever happened.

import { mkdtempSync, realpathSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { TestContext } from "node:test";

/** A fresh directory (real path) that is gone after the test. */
export function tempDir(t: TestContext, name = "t"): string {
  const dir = realpathSync(mkdtempSync(join(tmpdir(), `bb-${name}-`)));
  t.after(() => rmSync(dir, { recursive: true, force: true, maxRetries: 5 }));
  return dir;
}
