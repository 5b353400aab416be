// scripts/test.mjs: what must make the test command red.

import assert from "node:assert/strict";
import { spawnSync } from "node:child_process";
import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { type TestContext, test } from "node:test";
import { tempDir } from "../helpers/temp.ts";

const COMMAND = join(import.meta.dirname, "..", "..", "scripts", "test.mjs");

/** Runs the command on one test file with this text. */
function runOn(t: TestContext, text: string): { code: number | null; out: string } {
  const file = join(tempDir(t, "cmd"), "a.test.ts");
  writeFileSync(file, `import { test } from "node:test";\n${text}\n`);
  const { status, stdout } = spawnSync(process.execPath, [COMMAND, file], { encoding: "utf8" });
  return { code: status, out: stdout };
}

test("green: one test that passes; the closing lines of node's runner are there", (t) => {
  const { code, out } = runOn(t, 'test("a", () => {});');
  assert.equal(code, 0, out);
  for (const line of ["# tests 1", "# pass 1", "# fail 0"]) assert.match(out, new RegExp(`^${line}$`, "m"));
});

test("red: a test fails", (t) => {
  const { code, out } = runOn(t, 'test("a", () => { throw new Error("x"); });');
  assert.equal(code, 1);
  assert.match(out, /^# fail 1$/m);
});

test("red: a file without a test, which node counts as one that passed", (t) => {
  const { code, out } = runOn(t, "");
  assert.equal(code, 1, out);
  assert.match(out, /FAULT: no test in .*a\.test\.ts/);
});

test("red: a process is left, and it is ended", (t) => {
  const { code, out } = runOn(
    t,
    `import { spawn } from "node:child_process";
test("a", () => { spawn("sleep", ["300"], { stdio: "ignore", detached: true }).unref(); });`,
  );
  assert.equal(code, 1, out);
  assert.match(out, /FAULT: a process was left: \d+ sleep 300/);
});

test("red: a temporary file is left", (t) => {
  const { code, out } = runOn(
    t,
    `import { mkdtempSync } from "node:fs";
import { tmpdir } from "node:os";
test("a", () => { mkdtempSync(tmpdir() + "/bb-forgotten-"); });`,
  );
  assert.equal(code, 1, out);
  assert.match(out, /FAULT: a temporary file was left: bb-forgotten-/);
});

test("red: skipped without a reason, or for want of what is here", (t) => {
  const silent = runOn(t, 'test("a", { skip: true }, () => {});');
  assert.match(silent.out, /FAULT: tests were skipped without a LEFT OUT line/);
  assert.equal(silent.code, 1);
  const excuse = runOn(t, 'test("a", (t) => { console.log("LEFT OUT: a (needs sh)"); t.skip(); });');
  assert.match(excuse.out, /FAULT: left out although sh is here/);
  assert.equal(excuse.code, 1);
});

test("green: left out for want of what is not here; it is listed", (t) => {
  const { code, out } = runOn(
    t,
    'test("a", (t) => { console.log("LEFT OUT: b (needs no-such-program)"); t.skip(); });',
  );
  assert.equal(code, 0, out);
  assert.match(out, /Left out \(1\):\n {2}b \(needs no-such-program\)/);
});

test("red: a settings variable of the person does not reach the tests", (t) => {
  process.env.BUSBAR_STATE_DIR = "/elsewhere";
  t.after(() => delete process.env.BUSBAR_STATE_DIR);
  const { code, out } = runOn(
    t,
    'test("a", () => { if (process.env.BUSBAR_STATE_DIR) throw new Error("seen"); });',
  );
  assert.equal(code, 0, out);
});

test("an unknown kind or option is refused with the usage", () => {
  for (const args of [["--only", "unti"], ["--fast"], ["--only", ""]]) {
    const { status, stderr } = spawnSync(process.execPath, [COMMAND, ...args], { encoding: "utf8" });
    assert.equal(status, 2);
    assert.match(stderr, /usage:/);
  }
});
