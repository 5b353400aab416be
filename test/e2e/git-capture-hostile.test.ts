// What an agent does so that its work is not captured as it stands, or so that capture never ends.

import assert from "node:assert/strict";
import { readdirSync } from "node:fs";
import { test } from "node:test";
import { type Captured, type CaptureOrder, capture } from "../../scheduler/capture.ts";
import { makeCleanPlace } from "../../scheduler/clean-place.ts";
import type { Workspace } from "../../scheduler/workspace.ts";
import { MAX_ALLOWED_FILE_BYTES } from "../../schemas/limits.ts";
import { engineWorld, shellTask } from "../helpers/engine.ts";
import { attempt, IDENTITY, sh, type World, worked, world } from "../helpers/repo.ts";

function snap(w: World, workspace: Workspace, extra: Partial<CaptureOrder> = {}): Promise<Captured> {
  const ref = attempt("a");
  const { control, base } = w;
  return capture({
    control,
    workspace,
    ref,
    base,
    version: 1,
    message: "m\n",
    identity: IDENTITY,
    ...extra,
  });
}

const list = (got: Captured) => got.changed.map((c) => `${c.kind} ${c.path}`);
const BASE =
  "mkdir src; for f in a b c; do echo $f > src/$f; done; echo r > README; git add -A; git commit -qm base";

test("S4: marks in our index (skip-worktree, assume-unchanged) and stat data forged there hide no change", async (t) => {
  const w = await world(t, BASE);
  for (const [n, sparse] of [["full"], ["sparse", ["src/a", "src/b"]]] as const) {
    const workspace = await worked(w, n, "echo more >> src/a; rm src/b", sparse && [...sparse]);
    const forge = `git update-index --skip-worktree src/b; git update-index --assume-unchanged src/a`;
    sh(workspace.work, forge, { GIT_INDEX_FILE: workspace.index });
    const got = await snap(w, workspace, { ref: attempt(n) });
    assert.deepEqual(list(got), ["modified src/a", "deleted src/b"], n);
    assert.match(got.anomalies.join(), /our index is not as we left it/);
  }
  // The index that the agent's own git uses is asked for nothing.
  const own = await worked(
    w,
    "own",
    "echo more >> src/a; rm src/b; git update-index --skip-worktree src/a src/b",
  );
  assert.deepEqual(list(await snap(w, own, { ref: attempt("own") })), ["modified src/a", "deleted src/b"]);
});

test("S4: whatever stands where our files were, the work is captured, and no scratch file is left", async (t) => {
  const w = await world(t, BASE);
  const cases: Record<string, string> = {
    gone: "rm ../index",
    directory: "rm ../index; mkdir -p ../index/x",
    pipe: "rm ../index; mkfifo ../index",
    link: "rm ../index; ln -s /etc/passwd ../index",
    huge: "truncate -s 2T ../index",
    early:
      "for v in 1 2; do mkdir -p ../index.v$v ../index.v$v.fresh; : > ../index.v$v.lock; : > ../index.lock; done",
  };
  for (const [name, agent] of Object.entries(cases)) {
    const workspace = await worked(w, name, `echo more >> src/a; ${agent}`);
    const got = await snap(w, workspace, { ref: attempt(name) });
    assert.deepEqual(list(got), ["modified src/a"], name);
  }
  assert.deepEqual(
    readdirSync(w.control.gitDir).filter((name) => name.startsWith("scratch-")),
    [],
  );
});

test("S4: attributes that a file does not fit do not stop the capture: it is taken byte for byte, the others as ever", async (t) => {
  const w = await world(t, BASE);
  const agent = `echo '*.u working-tree-encoding=UTF-16
*.n working-tree-encoding=NO-SUCH
*.txt text eol=crlf' > .gitattributes
    for i in 1 2 3 4 5; do printf 'x\\r\\n' > $i.txt; done; printf 'abc' > bad.u; printf '\\xff\\xfea\\x00' > good.u; echo n > odd.n`;
  const workspace = await worked(w, "a", agent);
  const got = await snap(w, workspace);
  assert.equal(got.changed.length, 9);
  const blob = (path: string) =>
    sh(w.repo, `git cat-file blob ${got.commit}:${path} | od -An -c | tr -d ' \\n'`);
  assert.deepEqual(["bad.u", "good.u", "odd.n", "1.txt"].map(blob), ["abc", "a", "n\\n", "x\\n"]);
  assert.match(got.anomalies.join(), /byte for byte.*bad\.u, odd\.n/);
  const place = await makeCleanPlace({ control: w.control, dir: `${w.dir}/place`, commit: got.commit });
  assert.equal(sh(place.work, "ls | wc -l"), "10", "and the tree can be checked out");
});

test("G1: terabytes are refused by their apparent size, whatever the spec allows, before anything is read", async (t) => {
  const w = await world(t, BASE);
  const one = await worked(w, "one", "truncate -s 2T big; echo more >> src/a");
  const all = { allowLarge: () => true };
  const got = await snap(w, one, { ref: attempt("one"), ...all });
  assert.deepEqual(list(got), ["modified src/a"]);
  assert.deepEqual(got.refused, [
    {
      path: "big",
      rule: "oversize",
      why: `has ${2 * 1024 ** 4} bytes; more than ${MAX_ALLOWED_FILE_BYTES} are never taken`,
    },
  ]);
});

test("G1: a large file of the base that only looks touched is no change; one that is changed is refused", async (t) => {
  const w = await world(
    t,
    `${BASE}; head -c 11000000 /dev/urandom > large; git add -A; git commit -qm large`,
  );
  const touched = await worked(w, "touched", "touch large");
  const same = await snap(w, touched, { ref: attempt("touched") });
  assert.deepEqual([same.changed, same.refused], [[], []]);
  const changed = await worked(w, "changed", "printf x | dd of=large conv=notrunc status=none");
  const other = await snap(w, changed, { ref: attempt("changed") });
  assert.deepEqual(
    other.refused.map((r) => `${r.rule} ${r.path}`),
    ["oversize large"],
  );
});

test("S6: agents that break what is ours in their directory have failed by their own doing, at their first try", async (t) => {
  const world = await engineWorld(t);
  const more = { allowed_files: ["f.txt", "big"], retries: 0 };
  const breaks = `cd "$BUSBAR_DIR"; echo new > work/f.txt; for f in index captured.json checks output; do rm -rf $f; done
    mkdir index captured.json; : > checks; : > output`;
  const run = await world.submit([
    shellTask("wipes", 'rm -rf "$BUSBAR_DIR"', more),
    shellTask("breaks", breaks, more),
    shellTask("terabytes", "truncate -s 2T big", more),
  ]);
  const { task } = await world.ended(run, 90_000);
  const ends = (id: string) => task(id).attempts.map(({ result }) => result);
  assert.deepEqual(ends("breaks"), ["passed"], JSON.stringify(task("breaks").attempts[0]?.evidence));
  assert.deepEqual(ends("terabytes"), ["scope"]);
  assert.deepEqual(task("terabytes").attempts[0]?.evidence?.paths, ["big"]);
  // All is gone, also what it may change: that is a change like any other, and its check finds nothing wrong.
  assert.deepEqual(ends("wipes").length, 1);
  assert.notEqual(ends("wipes")[0], "infra");
});
