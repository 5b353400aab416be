// Issue 4.4, L6: where secrets come from, and what is said when they do not.

import assert from "node:assert/strict";
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { type TestContext, test } from "node:test";
import { SecretSources } from "../../scheduler/secret-sources.ts";
import { isCode } from "../../schemas/errors.ts";
import { EnvSpec } from "../../schemas/task.ts";
import { isAlive } from "../helpers/processes.ts";
import { until } from "../helpers/wait.ts";

function world(t: TestContext, host: Record<string, string> = {}, commandMs?: number) {
  const dir = mkdtempSync(join(tmpdir(), "bb-secrets-"));
  t.after(() => rmSync(dir, { recursive: true, force: true }));
  const time = { now: 0 };
  const sources = new SecretSources({
    host: { PATH: process.env.PATH, ...host },
    cwd: dir,
    clock: { monotonic: () => time.now },
    ...(commandMs === undefined ? {} : { commandMs }),
  });
  const read = async (source: string) => (await sources.read([{ secrets: { KEY: source } }])).get(source);
  return { dir, time, read, sources };
}

test("issue 4.4: from a variable, a file, and what a command prints; a last line end is no part of it", async (t) => {
  const { dir, read } = world(t, { MINE: "of-mine" });
  writeFileSync(join(dir, "key"), "line 1\nline 2\r\n");
  assert.equal(await read("env:MINE"), "of-mine");
  assert.equal(await read(`file:${join(dir, "key")}`), "line 1\nline 2");
  assert.equal(await read("cmd:cat key; pwd >&2"), "line 1\nline 2");
});

test("issue 4.4: a command is asked once a minute, also by many at once; a failure is not kept", async (t) => {
  const { dir, time, read } = world(t);
  const source = "cmd:echo x >> calls; echo value-$(wc -l < calls)";
  assert.deepEqual(await Promise.all([read(source), read(source), read(source)]), [
    "value-1",
    "value-1",
    "value-1",
  ]);
  time.now = 59_000;
  assert.equal(await read(source), "value-1");
  time.now = 61_000;
  assert.equal(await read(source), "value-2");
  await assert.rejects(read("cmd:cat later"), { code: "SECRET_UNAVAILABLE" });
  writeFileSync(join(dir, "later"), "there now");
  assert.equal(await read("cmd:cat later"), "there now");
});

test("issue 4.4: what cannot be read is SECRET_UNAVAILABLE, names the source and holds nothing that was printed", async (t) => {
  const { dir, read } = world(t, { EMPTY: "" });
  writeFileSync(join(dir, "large"), "s".repeat(64 * 1024 + 1));
  const wrong: [string, RegExp][] = [
    ["env:GONE", /no such variable/],
    ["env:EMPTY", /is empty/],
    [`file:${join(dir, "gone")}`, /ENOENT/],
    [`file:${dir}`, /no regular file/],
    ["file:/dev/zero", /no regular file/],
    [`file:${join(dir, "large")}`, /more than 65536 bytes/],
    ["cmd:echo hidden; exit 3", /exit 3/],
    ["cmd:echo hidden; kill -9 $$", /signal/],
    ["cmd:head -c 200000 /dev/zero | tr '\\0' h", /more than 65536 bytes/],
    ["cmd:printf 'hid\\0den'", /NUL/],
    ["cmd:true", /is empty/],
  ];
  for (const [source, why] of wrong)
    await assert.rejects(read(source), (error: unknown) => {
      assert.ok(isCode(error, "SECRET_UNAVAILABLE"), source);
      assert.match(error.message, why);
      assert.match(error.message, /reading the secret KEY/);
      assert.doesNotMatch(error.message.replace(source, ""), /hidden|hhhh/);
      return true;
    });
});

test("issue 4.4: a command that does not end is ended with all of its group; one that leaves something is not waited for", async (t) => {
  const { dir, read } = world(t, {}, 3_000);
  await assert.rejects(read("cmd:sleep 600 & echo $! > pid; wait"), /did not end within 3000 ms/);
  const child = Number(readFileSync(join(dir, "pid"), "utf8"));
  await until("the child of the command is gone", () => !isAlive(child));
  const patient = world(t);
  assert.equal(await patient.read("cmd:sleep 600 & echo $! > pid; echo value"), "value");
  const left = Number(readFileSync(join(patient.dir, "pid"), "utf8"));
  await until("what it left is gone", () => !isAlive(left));
});

test("issue 4.4: other words are no source", () => {
  for (const source of ["NAME", "env:", "env:A B", "file:key", "cmd: ", "vault:x"])
    assert.equal(EnvSpec.safeParse({ secrets: { KEY: source } }).success, false, source);
  for (const source of ["env:A", "file:/k", "file:~/k", "cmd:pass show a\n"])
    assert.equal(EnvSpec.safeParse({ secrets: { KEY: source } }).success, true, source);
});
