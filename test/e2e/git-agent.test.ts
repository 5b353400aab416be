// What agents do with git: the captured content is the working tree against the base, and no commit is lost.

import assert from "node:assert/strict";
import { test } from "node:test";
import { type Captured, capture } from "../../scheduler/capture.ts";
import { harvest } from "../../scheduler/harvest.ts";
import { attempt, IDENTITY, sh, type World, worked, world } from "../helpers/repo.ts";

const ONE = "echo base > f.txt; git add -A; git commit -qm base";

async function run(
  w: World,
  task: string,
  agent: string,
  inScope?: (path: string) => boolean,
): Promise<Captured & { kept: string }> {
  const workspace = await worked(w, task, agent);
  const ref = attempt(task);
  const common = { control: w.control, ref, base: w.base };
  const captured = await capture({
    ...common,
    workspace,
    version: 1,
    message: `${task}\n`,
    identity: IDENTITY,
    ...(inScope ? { inScope } : {}),
  });
  const harvested = await harvest({ ...common, work: workspace.work });
  assert.deepEqual(harvested.problems, []);
  sh(w.repo, "git gc -q --prune=now; git fsck --strict 2>&1");
  return {
    ...captured,
    kept: sh(w.repo, `git for-each-ref --format='%(refname)' refs/busbar/attempts/r/${task}/1/agent`),
  };
}

const names = (captured: Captured) => captured.changed.map((c) => `${c.kind} ${c.path}`);

test("case 23 exit0-uncommitted: what is on the disk is the result, committed or not", async (t) => {
  const w = await world(t, "mkdir src; echo base > src/f.txt; git add -A; git commit -qm base");
  const got = await run(
    w,
    "a",
    `mkdir -p src/deep/er
     echo 1 > src/committed.txt; git add src/committed.txt; git commit -qm one
     echo 2 > src/staged.txt; git add src/staged.txt; echo 2b > src/staged.txt
     echo 3 > src/deep/er/untracked.txt; echo 4 >> src/f.txt; git rm -q --cached src/committed.txt; chmod +x src/f.txt`,
  );
  assert.deepEqual(names(got), [
    "added src/committed.txt",
    "added src/deep/er/untracked.txt",
    "modified src/f.txt",
    "added src/staged.txt",
  ]);
  assert.equal(sh(w.repo, `git show ${got.commit}:src/staged.txt`), "2b");
  assert.match(sh(w.repo, `git ls-tree ${got.commit} src/f.txt`), /^100755 /);
  assert.equal(sh(w.repo, `git rev-parse ${got.commit}^`), w.base);
  assert.equal(sh(w.repo, "git rev-parse refs/busbar/attempts/r/a/1/v1"), got.commit);
});

test("case 24 switched-or-detached: other branches and detached commits are captured and kept", async (t) => {
  const w = await world(t, ONE);
  const sw = await run(
    w,
    "sw",
    "git switch -q -c feature/nice-name; echo ok > sw.txt; git add -A; git commit -qm 'work on my own branch'",
  );
  assert.deepEqual(names(sw), ["added sw.txt"]);
  assert.ok(sw.anomalies.includes("HEAD is on branch feature/nice-name"));
  const det = await run(
    w,
    "det",
    "git switch -q --detach; for i in 1 2 3; do echo $i > d$i.txt; git add -A; git commit -qm d$i; done",
  );
  assert.deepEqual(names(det), ["added d1.txt", "added d2.txt", "added d3.txt"]);
  assert.match(det.anomalies.join("\n"), /HEAD is detached at/);
  assert.equal(sh(w.repo, `git log --format=%s ${w.base}..${det.kept}`), "d3\nd2\nd1");
  const back = await run(
    w,
    "back",
    "git switch -q -c side; echo ok > b.txt; git add -A; git commit -qm side; git switch -q -",
  );
  assert.deepEqual(names(back), []);
  assert.match(back.anomalies.join("\n"), /refs made by the agent: refs\/heads\/side/);
  assert.equal(sh(w.repo, `git log -1 --format=%s ${back.kept}`), "side");
  assert.equal(sh(w.repo, "git branch --format='%(refname)'"), "refs/heads/main");
});

test("case 25 rewrote-base: amend, orphan, reset: base is the only parent, all commits are kept", async (t) => {
  const w = await world(
    t,
    "echo 1 > f.txt; git add -A; git commit -qm c1; echo 2 > f.txt; git commit -qam c2",
  );
  const amend = await run(w, "amend", "echo ok > amend.txt; git add -A; git commit -q --amend -m better");
  assert.deepEqual(names(amend), ["added amend.txt"]);
  assert.match(amend.anomalies.join("\n"), /is not an ancestor of HEAD/);
  const orphan = await run(
    w,
    "orphan",
    "git checkout -q --orphan fresh; echo ok > orphan.txt; git add -A; git commit -qm 'new root'",
  );
  assert.deepEqual(names(orphan), ["added orphan.txt"]);
  assert.equal(sh(w.repo, `git rev-list --max-parents=0 ${orphan.commit} | wc -l`), "1");
  const reset = await run(w, "reset", "git reset -q --hard HEAD~1; echo ok > r.txt");
  assert.deepEqual(names(reset), ["modified f.txt", "added r.txt"]);
  const lost = await run(
    w,
    "lost",
    "echo x > x.txt; git add -A; git commit -qm one; git reset -q --hard HEAD~1; echo y > y.txt; git stash -qu",
  );
  assert.deepEqual(names(lost), []);
  assert.equal(lost.kept.split("\n").length, 2, "the commit that only a log names, and the stash");
});

test("case 30 dotgit-gone: the content is captured without the workspace's git", async (t) => {
  const w = await world(t, ONE);
  const cases = {
    rm: "echo ok > a.txt; rm -rf .git",
    init: "echo ok > a.txt; rm -rf .git; git init -q -b main .; git add -A; git commit -qm 'fresh start'",
    bad: 'echo ok > a.txt; rm -rf .git; echo "gitdir: /nowhere" > .git',
    flags:
      "echo ok > a.txt; echo x > f.txt; git update-index --assume-unchanged f.txt; echo a.txt >> .git/info/exclude",
    lock: 'echo ok > a.txt; : > "$(git rev-parse --git-path index.lock)"',
  };
  for (const [task, agent] of Object.entries(cases)) {
    const got = await run(w, task, agent);
    const expected = task === "flags" ? ["added a.txt", "modified f.txt"] : ["added a.txt"];
    assert.deepEqual(names(got), expected, task);
    if (task !== "flags") assert.notDeepEqual(got.anomalies, [], task);
  }
});

test("case 22 exit0-no-change: commits that change nothing in sum give the base's tree", async (t) => {
  const w = await world(t, ONE);
  const baseTree = sh(w.repo, "git rev-parse main^{tree}");
  for (const [task, agent] of Object.entries({
    liar: "true",
    ec: "echo base > f.txt; git commit -q --allow-empty -m 'implemented everything'",
    nz: "echo x > t.txt; git add t.txt; git commit -qm add; git rm -q t.txt; git commit -qm undo",
  })) {
    const got = await run(w, task, agent);
    assert.deepEqual(got.changed, [], task);
    assert.equal(got.tree, baseTree);
  }
});

test("case 32 junk-swept-in: what is out of scope is listed and in no object of the repository", async (t) => {
  const w = await world(
    t,
    "mkdir -p src; printf 'node_modules/\\n*.log\\n' > .gitignore; echo base > src/f.ts; git add -A; git commit -qm base",
  );
  const agent = `ln -s "$W/repo/src" node_modules; echo 'export const a = 1' > src/a.ts
    printf 'API_KEY=sk-test-0123456789abcdef\\n' > .env; head -c 30000000 /dev/zero > core.4711
    mkdir -p .cache && echo x > .cache/x; echo swap > src/.a.ts.swp; echo l > x.log; echo changed >> .gitignore`;
  const got = await run(w, "a", agent, (path) => /^src\/[^/.]*\.ts$/.test(path));
  assert.deepEqual(names(got), ["added src/a.ts"]);
  assert.deepEqual(
    got.outside.map((o) => `${o.kind} ${o.path}`),
    ["added .cache/x", "added .env", "modified .gitignore", "added node_modules", "added src/.a.ts.swp"],
  );
  assert.deepEqual(
    got.refused.map((r) => `${r.rule} ${r.path}`),
    ["oversize core.4711"],
  );
  assert.deepEqual(got.ignored, ["x.log"]);
  const oids = sh(w.repo, "git cat-file --batch-all-objects --batch-check='%(objectname)'").split("\n");
  const secret = sh(w.repo, "printf 'API_KEY=sk-test-0123456789abcdef\\n' | git hash-object --stdin");
  assert.ok(!oids.includes(secret));
});
