// W8: `copy` of a plan is judged against the checkout before anything starts.

import assert from "node:assert/strict";
import { mkdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { test } from "node:test";
import { copyProblems } from "../../bus/ctl/local-copies.ts";
import type { PlanDraft } from "../../schemas/plan/draft.ts";
import { check } from "../helpers/plans.ts";
import { tempDir } from "../helpers/temp.ts";

test("W8: what is not there or in the commit anyway is an error with its line; the rest may be copied", (t) => {
  const dir = tempDir(t, "copy");
  mkdirSync(join(dir, "src"));
  writeFileSync(join(dir, ".env"), "");
  const plan = "copy: [.env, gone, src]\ntasks:\n  - {id: a, command: x, allowed_files: [a]}\n";
  const { spec, errors } = check(plan);
  assert.deepEqual(errors, []);
  const said = (top: string | null) =>
    copyProblems(spec as PlanDraft, top, [{ path: "src/a", size: 1 }]).map(
      ({ line, column, message }) => `${line}:${column} ${message}`,
    );
  assert.deepEqual(said(dir), [
    `1:14 gone is not in your checkout (${dir})`,
    "1:20 src is in the commit that agents start from",
  ]);
  assert.equal(said(null).length, 3);
  assert.match(check("copy: [../x, /etc/passwd]\ntasks: []\n").errors.join("\n"), /copy|path/);
});
