// busctl in a bad environment: every bad place ends within seconds with one typed error that names it, nothing is left
// behind; a daemon that cannot start is quoted with its own code and words.

import assert from "node:assert/strict";
import { mkdirSync, symlinkSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { test } from "node:test";
import { repoKey } from "../../bus/paths.ts";
import { processesOf } from "../helpers/processes.ts";
import { makeWorld, type World } from "../helpers/world.ts";

/** Generous: the bound is "it ends", and the machine may be busy. */
const SOON_MS = 12_000;

async function refused(w: World, env: Record<string, string>, code: string, text: RegExp): Promise<void> {
  const said = await w.busctl(["up", "--json"], { env, timeoutMs: SOON_MS });
  assert.notEqual(said.code, null, `up with ${JSON.stringify(env)} did not end: ${said.err}`);
  const { error } = JSON.parse(said.err);
  assert.equal(error.code, code, said.err);
  assert.match(error.message, text);
  assert.doesNotMatch(said.err, /\bat .*:\d+:\d+|fault of busbar/);
  assert.ok(error.help.length > 10);
  assert.deepEqual(processesOf(w.W), []);
}

function badPlaces(w: World): [path: string, code: string, why: RegExp][] {
  writeFileSync(join(w.W, "file"), "");
  symlinkSync("ring-b", join(w.W, "ring-a"));
  symlinkSync("ring-a", join(w.W, "ring-b"));
  return [
    ["/proc/nope", "DIRECTORY_UNUSABLE", /\/proc\/nope.*nothing can be made in \/proc/],
    [join(w.W, "file"), "DIRECTORY_UNUSABLE", /file is not a directory/],
    [join(w.W, "file/below"), "DIRECTORY_UNUSABLE", /file is not a directory/],
    [join(w.W, "ring-a"), "DIRECTORY_UNUSABLE", /ring-a leads in a circle/],
    ["here/there", "USAGE", /must be an absolute path, not "here\/there"/],
  ];
}

for (const [name, what] of [
  ["BUSBAR_STATE_DIR", "state"],
  ["BUSBAR_RUNTIME_DIR", "runtime"],
] as const)
  test(`a ${what} directory that is a file, a ring of links, in /proc or relative is named, and nothing is started`, async (t) => {
    const w = makeWorld(t);
    for (const [path, code, why] of badPlaces(w)) await refused(w, { [name]: path }, code, why);
  });

test("a daemon that cannot start is quoted: its code, its words, its log; never a line of a stack", async (t) => {
  const w = makeWorld(t);
  const state = join(w.W, "state", repoKey(join(w.repo, ".git")));
  mkdirSync(state, { recursive: true, mode: 0o700 });
  writeFileSync(join(state, "bus"), "");
  await refused(w, {}, "UNSAFE_DIRECTORY", /^the bus did not start: .*\/bus is not a directory$/);
  w.sh(`rm ${state}/bus; echo 'worker: 3' > config.yaml`);
  await refused(
    w,
    { BUSBAR_CONFIG: join(w.W, "config.yaml") },
    "BAD_CONFIG",
    /config\.yaml:1:1: error: unknown key "worker"/,
  );
  writeFileSync(join(state, "scheduler"), "");
  const said = await w.busctl(["up", "--json"]);
  const { error } = JSON.parse(said.err);
  assert.equal(error.code, "UNSAFE_DIRECTORY", said.err);
  assert.match(error.message, /^the scheduler did not start: .*\/scheduler is not a directory$/);
  assert.match(error.log, /scheduler\.log$/);
});

test("a git directory in which the lock cannot be made is refused by name", async (t) => {
  const w = makeWorld(t);
  writeFileSync(join(w.repo, ".git/busbar"), "");
  await refused(w, {}, "DIRECTORY_UNUSABLE", /\.git\/busbar is not a directory/);
});

test("init in a repository without a commit says what comes first; with one it does not", async (t) => {
  const w = makeWorld(t, "git init -q -b main repo");
  const first = await w.busctl(["init"]);
  assert.equal(first.code, 0, first.err);
  assert.match(first.out, /^First: git add -A && git commit; .*\nNext: busctl plan plan\.yaml/m);
  w.sh(
    "rm -r repo/plan.yaml repo/tasks; echo x > repo/f.txt; git -C repo add -A; git -C repo commit -qm base",
  );
  assert.doesNotMatch((await w.busctl(["init"])).out, /^First:/m);
});

test("words that a verb does not take are explained by its own help", async (t) => {
  const w = makeWorld(t);
  for (const args of [
    ["cat"],
    ["retry", "a", "--nope"],
    ["report", "--format", "pdf"],
    ["tasks", "--limit", "3"],
  ]) {
    const said = await w.busctl(args);
    assert.equal(said.code, 2);
    assert.match(said.err, new RegExp(`-> \`busctl ${args[0]} --help\` says what it takes\\.`));
  }
});
