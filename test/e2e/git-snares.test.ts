// Issue 2, S4: what holds git up when it lies where git looks for a file of its own: a named pipe called .gitignore or
// .gitattributes, a repository below whose HEAD never answers, rules of terabytes. Without more, each git call over
// such a tree waits for its time limit of two minutes.

import assert from "node:assert/strict";
import { existsSync, readdirSync } from "node:fs";
import { join } from "node:path";
import { test } from "node:test";
import { archive } from "../../scheduler/archive.ts";
import { type Captured, capture } from "../../scheduler/capture.ts";
import { PlacePool } from "../../scheduler/place-pool.ts";
import type { Workspace } from "../../scheduler/workspace.ts";
import { GIT_TIMEOUT_MS } from "../../schemas/limits.ts";
import { attempt, IDENTITY, sh, type World, worked, world } from "../helpers/repo.ts";
import { makeWorld } from "../helpers/world.ts";

/** Far below the time limit of a single git call, far above what a capture takes on a busy machine. */
const QUICK_MS = GIT_TIMEOUT_MS / 2;
const BASE =
  "mkdir src; echo a > src/a; echo r > README; echo '*.o' > .gitignore; git add -A; git commit -qm base";

function snap(w: World, workspace: Workspace, task: string): Promise<Captured> {
  const { control, base } = w;
  const ref = attempt(task);
  return capture({ control, workspace, ref, base, version: 1, message: "m\n", identity: IDENTITY });
}

async function quickly<T>(what: string, deed: () => Promise<T>): Promise<T> {
  const start = performance.now();
  const result = await deed();
  const took = performance.now() - start;
  assert.ok(took < QUICK_MS, `${what} took ${Math.round(took)} ms`);
  return result;
}

const said = (got: Captured) => got.refused.map(({ rule, path, why }) => `${rule} ${path} ${why}`);
const list = (got: Captured) => got.changed.map((c) => `${c.kind} ${c.path}`);

const CASES: Record<string, { agent: string; said: string[]; changed?: string[] }> = {
  ignore: { agent: "mkdir new; mkfifo new/.gitignore", said: ["special new/.gitignore is a named pipe"] },
  replaced: { agent: "rm .gitignore; mkfifo .gitignore", said: ["special .gitignore is a named pipe"] },
  attributes: { agent: "mkfifo .gitattributes", said: ["special .gitattributes is a named pipe"] },
  deeper: { agent: "mkfifo src/.gitattributes", said: ["special src/.gitattributes is a named pipe"] },
  both: {
    agent: "mkfifo .gitattributes src/.gitignore",
    said: ["special .gitattributes is a named pipe", "special src/.gitignore is a named pipe"],
  },
  huge: {
    agent: "truncate -s 8T src/.gitignore",
    said: [
      `special src/.gitignore is a file of ${8 * 1024 ** 4} bytes, too large for git to take rules from`,
    ],
  },
  head: {
    agent: "git init -q n; rm n/.git/HEAD; mkfifo n/.git/HEAD",
    said: ["special n/.git/HEAD is a named pipe"],
  },
  commondir: {
    agent: "git init -q n; mkfifo n/.git/commondir",
    said: [
      "special n/.git/commondir is a named pipe",
      "nested-repository n is a git repository of its own; its content cannot be part of the change",
    ],
  },
  elsewhere: {
    agent: "git init -q --separate-git-dir=$W/elsewhere n; rm $W/elsewhere/HEAD; mkfifo $W/elsewhere/HEAD",
    said: ["special n/.git is the name of a repository that holds git up"],
  },
  // These hold nothing up, and stay where they are.
  modules: { agent: "mkfifo .gitmodules src/.gitmodules", said: [] },
  directory: { agent: "mkdir src/.gitignore .gitattributes", said: [] },
  link: {
    agent: "mkfifo $W/pipe; ln -s $W/pipe .gitattributes; ln -s /dev/zero src/.gitignore",
    said: [],
    changed: ["added .gitattributes", "added src/.gitignore"],
  },
  "own git": {
    agent:
      "for f in config HEAD index info/exclude info/attributes packed-refs commondir shallow; do rm -f .git/$f; mkfifo .git/$f; done",
    said: [],
  },
};

for (const [name, { agent, said: wanted, changed = [] }] of Object.entries(CASES))
  test(`issue 2, S4: capture does not wait for ${name} of an agent, and tells what it is`, async (t) => {
    const w = await world(t, BASE);
    const task = name.replace(" ", "-");
    const workspace = await worked(w, task, `echo more >> src/a; ${agent}`);
    const got = await quickly("capture", () => snap(w, workspace, task));
    assert.deepEqual(said(got).sort(), [...wanted].sort());
    assert.deepEqual(list(got).sort(), [...changed, "modified src/a"].sort());
    // The same again: what lies aside is still told.
    const again = await quickly("the second capture", () => snap(w, workspace, task));
    assert.deepEqual(said(again).sort(), [...wanted].sort());
    assert.equal(again.commit, got.commit);
  });

test("issue 2, cases 01, 14: in a submodule and while archiving, too; what lies aside is kept", async (t) => {
  const setup = `git init -q -b main ../lib; (cd ../lib; echo 1 > lib.txt; git add -A; git commit -qm lib)
    git -c protocol.file.allow=always submodule --quiet add "$W/lib" lib; git add -A; git commit -qm base`;
  const w = await world(t, setup);
  const workspace = await worked(w, "sub", "echo 2 >> lib/lib.txt; mkfifo lib/.gitattributes lib/.gitignore");
  const got = await quickly("capture", () => snap(w, workspace, "sub"));
  assert.deepEqual(got.submodules, ["lib/lib.txt"]);
  assert.deepEqual(said(got), [
    "special lib/.gitattributes is a named pipe",
    "special lib/.gitignore is a named pipe",
  ]);
  sh(workspace.work, "mkfifo .gitignore; echo new > new.txt");
  const to = join(w.dir, "archive");
  const { control, base } = w;
  const done = await quickly("archiving", () => archive({ control, workspace, base, to, merged: false }));
  assert.ok(done.kept.includes("new.txt"));
  assert.equal(existsSync(workspace.dir), false);
  // One for each walk that found something: at least one a capture, more when a pipe was found before its neighbour.
  assert.ok(readdirSync(join(to, "set-aside")).length >= 2);
});

test("issue 2, case 52: a pipe that a check leaves does not hold up the place of the next one", async (t) => {
  const w = await world(t, BASE);
  const { control, base: commit } = w;
  const log = { info: () => {}, warn: () => {} };
  const pool = new PlacePool({ control, top: w.dir, limit: 2, log });
  const place = await pool.take({ control, dir: join(w.dir, "place"), commit });
  sh(place.work, "mkfifo .gitattributes src/.gitattributes; echo bad > src/a");
  await quickly("renewing", () => pool.renew(place));
  assert.equal(sh(place.work, "cat src/a"), "a");
  pool.give(place, true);
  await pool.close();
  assert.equal(existsSync(place.dir), false);
});

test("issue 2, scope: a task whose agent makes a pipe called .gitignore ends soon, with that reason", async (t) => {
  const w = makeWorld(t);
  const agent = w.agent("pipe", "mkfifo .gitignore; echo ok > a.txt");
  const ran = await quickly("the run", () =>
    w.run([{ id: "a", command: agent, allowed_files: ["a.txt"], retries: 0 }]),
  );
  assert.equal(ran.code, 1, ran.out + ran.err);
  const { tasks } = await w.state("r");
  const last = tasks.get("a")?.attempts.at(-1);
  assert.equal(last?.result, "scope");
  assert.match(`${last?.evidence?.summary} ${last?.evidence?.log}`, /\.gitignore.*is a named pipe/s);
});
