// `npm run demo`: the whole engine on a clone of a real repository. The demo checks itself (scripts/demo/expect.mjs);
// here it must say so, end within its time, and leave nothing.

import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { mkdirSync, readdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { type TestContext, test } from "node:test";
import { makeRepo } from "../../scripts/make-repo.ts";
import { processesOf } from "../helpers/processes.ts";
import { tempDir } from "../helpers/temp.ts";

const DEMO = join(import.meta.dirname, "..", "..", "scripts", "demo", "demo.mjs");
/** It takes a minute on two idle cores. */
const BOUND_MS = 280_000;

async function demo(
  t: TestContext,
  temp: string,
  args: string[],
): Promise<{ code: number | null; text: string }> {
  const { NODE_TEST_CONTEXT: _, ...env } = process.env;
  const child = spawn(process.execPath, [DEMO, ...args], {
    env: { ...env, TMPDIR: temp },
    stdio: ["ignore", "pipe", "pipe"],
  });
  const timer = setTimeout(() => child.kill("SIGTERM"), BOUND_MS);
  t.after(() => clearTimeout(timer));
  let text = "";
  for (const stream of [child.stdout, child.stderr])
    stream.setEncoding("utf8").on("data", (more) => (text += more));
  const code = await new Promise<number | null>((resolve) => child.on("close", resolve));
  return { code, text };
}

test("the demo runs on a repository of a person, comes out as expected, and leaves nothing", async (t) => {
  const top = tempDir(t, "demo");
  const temp = join(top, "tmp");
  mkdirSync(temp);
  const repo = join(top, "theirs");
  const commit = makeRepo({ dir: repo, files: 200, extra: new Map([["README.md", "# Theirs\n"]]) });
  writeFileSync(join(repo, "not-committed.txt"), "mine\n");

  const { code, text } = await demo(t, temp, [repo]);
  assert.equal(code, 0, text);
  assert.match(text, /All as expected/);
  assert.match(text, new RegExp(`${repo}\\n`), "it says which repository it cloned");
  assert.deepEqual(readdirSync(temp), [], "no temporary file is left");
  assert.deepEqual(processesOf(temp), [], "no process is left");
  assert.deepEqual(
    readdirSync(join(repo, ".git", "refs", "heads")),
    ["main"],
    "the repository itself has no new branch",
  );
  assert.equal(readdirSync(repo).sort().join(" "), ".git README.md not-committed.txt src");
  assert.match(commit, /^[0-9a-f]{40}$/);
});

test("a wrong option is refused before anything is made", async (t) => {
  const temp = tempDir(t, "demo");
  const { code, text } = await demo(t, temp, ["--kepe"]);
  assert.equal(code, 2);
  assert.match(text, /--kepe/);
  assert.deepEqual(readdirSync(temp), []);
});
