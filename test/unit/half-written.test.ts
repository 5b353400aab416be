// A file that cannot get its name leaves nothing half-written beside it.

import assert from "node:assert/strict";
import { mkdirSync, readdirSync } from "node:fs";
import { join } from "node:path";
import { test } from "node:test";
import { writePatch } from "../../scheduler/patches.ts";
import { isCode } from "../../schemas/errors.ts";
import { writeDurably } from "../../shim/outbox.ts";
import { sh, world } from "../helpers/repo.ts";
import { tempDir } from "../helpers/temp.ts";

test("the shim's outbox and done file, when an agent put a directory in their place", (t) => {
  const dir = tempDir(t, "half");
  for (const name of ["outbox.json", "status.done"]) {
    mkdirSync(join(dir, name));
    assert.throws(
      () => writeDurably(join(dir, name), { v: 1 }),
      (error) => isCode(error, "IO") && error.message.includes(name),
    );
  }
  assert.deepEqual(readdirSync(dir).sort(), ["outbox.json", "status.done"]);
});

test("a patch for people, when a directory is in its place", async (t) => {
  const w = await world(t, "echo 1 > f; git add -A; git commit -qm one; echo 2 > f; git commit -qam two");
  const dir = tempDir(t, "half");
  mkdirSync(join(dir, "v1.patch"));
  const commit = sh(w.repo, "git rev-parse HEAD");
  const base = sh(w.repo, "git rev-parse HEAD^");
  await assert.rejects(writePatch({ control: w.control, base, commit, file: join(dir, "v1.patch") }), (e) =>
    isCode(e, "IO"),
  );
  assert.deepEqual(readdirSync(dir), ["v1.patch"]);
});
