// Candidates, refs, patches and clean places on real repositories.

import assert from "node:assert/strict";
import { existsSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { test } from "node:test";
import { buildCandidate, commitMessage } from "../../scheduler/candidate.ts";
import { capture } from "../../scheduler/capture.ts";
import { makeCleanPlace } from "../../scheduler/clean-place.ts";
import { writePatch } from "../../scheduler/patches.ts";
import { createRef, ensureIntegrationBranch, ffBranch, moveRef, readRef } from "../../scheduler/refs.ts";
import { isCode } from "../../schemas/errors.ts";
import { integrationRef } from "../../schemas/ids.ts";
import { attempt, IDENTITY, sh, type World, worked, world } from "../helpers/repo.ts";

async function snapshot(w: World, task: string, agent: string): Promise<string> {
  const workspace = await worked(w, task, agent);
  const order = { control: w.control, workspace, ref: attempt(task), base: w.base, version: 1 };
  return (await capture({ ...order, message: `${task}\n`, identity: IDENTITY })).commit;
}

function candidate(w: World, head: string, commit: string, task = "x") {
  const message = commitMessage({ ref: attempt(task), goal: "Do it\nmore", proof: "unit on abc" });
  return buildCandidate({ control: w.control, head, base: w.base, commit, message, identity: IDENTITY });
}

test("design 3.5: a candidate is one commit on the head with trailers; the branch moves by compare-and-swap", async (t) => {
  const w = await world(t, "echo base > f.txt; git add -A; git commit -qm base");
  assert.equal(await ensureIntegrationBranch(w.control, "r", w.base), w.base);
  const one = await candidate(w, w.base, await snapshot(w, "one", "echo 1 > one.txt"));
  assert.equal(one.kind, "candidate");
  if (one.kind !== "candidate") return;
  assert.equal(await moveRef(w.control, integrationRef("r"), w.base, one.commit), "moved");
  assert.equal(await moveRef(w.control, integrationRef("r"), w.base, one.commit), "stale");
  const two = await candidate(w, one.commit, await snapshot(w, "two", "echo 2 > two.txt"), "two");
  assert.equal(two.kind, "candidate");
  if (two.kind !== "candidate") return;
  assert.equal(sh(w.repo, `git rev-parse ${two.commit}^`), one.commit);
  assert.equal(sh(w.repo, `git ls-tree --name-only ${two.commit}`), "f.txt\none.txt\ntwo.txt");
  assert.equal(
    sh(w.repo, `git log -1 --format='%s|%an|%cn|%G?' ${two.commit}`),
    "two: Do it|busbar|busbar|N",
  );
  assert.equal(
    sh(w.repo, `git log -1 --format=%B ${two.commit} | git interpret-trailers --parse`),
    "Busbar-Run: r\nBusbar-Task: two\nBusbar-Attempt: 1\nBusbar-Proof: unit on abc",
  );
  // The same work again brings nothing new.
  assert.deepEqual(await candidate(w, one.commit, await snapshot(w, "again", "echo 1 > one.txt")), {
    kind: "empty",
  });
  assert.equal(await createRef(w.control, integrationRef("r"), w.base), "stale");
  assert.equal(await readRef(w.control, "refs/heads/none"), null);
});

test("case 49 lockfile-two-tasks, case 25: conflicts name their paths; union and renames resolve nothing", async (t) => {
  const w = await world(
    t,
    "seq 20 > lock; echo '* merge=union' > .gitattributes; seq 30 > old.txt; git add -A; git commit -qm base",
  );
  const one = await candidate(
    w,
    w.base,
    await snapshot(w, "one", "sed -i 's/^10$/ten/' lock; git mv old.txt new.txt"),
  );
  assert.equal(one.kind, "candidate");
  if (one.kind !== "candidate") return;
  const lock = await snapshot(w, "two", "sed -i 's/^10$/TEN/' lock");
  assert.deepEqual(await candidate(w, one.commit, lock), { kind: "conflict", paths: ["lock"] });
  const renamed = await candidate(w, one.commit, await snapshot(w, "three", "echo more >> old.txt"));
  assert.equal(renamed.kind, "conflict");
  assert.match(renamed.kind === "conflict" ? renamed.paths.join() : "", /^(new|old)\.txt$/);
});

test("case 25 rewrote-base: a task never brings back or deletes what landed since its base", async (t) => {
  const w = await world(t, "echo 1 > f.txt; git add -A; git commit -qm base");
  const first = await candidate(w, w.base, await snapshot(w, "first", "echo ok > first.txt"));
  assert.equal(first.kind, "candidate");
  if (first.kind !== "candidate") return;
  const soft = await candidate(w, first.commit, await snapshot(w, "soft", "echo ok > soft.txt"));
  assert.equal(
    soft.kind === "candidate" && sh(w.repo, `git ls-tree --name-only ${soft.commit}`),
    "f.txt\nfirst.txt\nsoft.txt",
  );
});

test("design 3.6: after a roll-back the change is merged from its own base, without what was rolled back", async (t) => {
  const w = await world(t, "echo 1 > f.txt; git add -A; git commit -qm base");
  const root = w.base;
  const culprit = await candidate(w, root, await snapshot(w, "culprit", "echo bad > bad.txt"));
  assert.equal(culprit.kind, "candidate");
  if (culprit.kind !== "candidate") return;
  const later: World = { ...w, base: culprit.commit };
  const commit = await snapshot(later, "later", "echo ok > later.txt");
  const rebuilt = await candidate(later, root, commit);
  assert.equal(
    rebuilt.kind === "candidate" && sh(w.repo, `git ls-tree --name-only ${rebuilt.commit}`),
    "f.txt\nlater.txt",
  );
  assert.equal(rebuilt.kind === "candidate" && sh(w.repo, `git rev-parse ${rebuilt.commit}^`), root);
});

test("case 50 main-checked-out-dirty: --into moves only a branch that nobody has checked out, and only forward", async (t) => {
  const w = await world(
    t,
    `echo base > f.txt; git add -A; git commit -qm base; git branch free; git branch side; git branch busy
     git switch -qc own; echo x > x; git add -A; git commit -qm own; git switch -q main; git worktree add -q ../side side`,
  );
  const commit = await snapshot(w, "a", "echo task >> f.txt");
  await ffBranch(w.control, "free", commit);
  assert.equal(sh(w.repo, "git rev-parse free"), commit);
  await ffBranch(w.control, "brand/new", commit);
  assert.equal(sh(w.repo, "git rev-parse brand/new"), commit);
  await assert.rejects(ffBranch(w.control, "main", commit), (e) => isCode(e, "BRANCH_CHECKED_OUT"));
  await assert.rejects(ffBranch(w.control, "side", commit), (e) => isCode(e, "BRANCH_CHECKED_OUT"));
  await assert.rejects(ffBranch(w.control, "own", commit), (e) => isCode(e, "NOT_FAST_FORWARD"));
  sh(w.repo, "mkdir .git/rebase-merge; echo refs/heads/busy > .git/rebase-merge/head-name");
  await assert.rejects(ffBranch(w.control, "busy", commit), (e) => isCode(e, "BRANCH_CHECKED_OUT"));
  assert.equal(sh(w.repo, "git status --porcelain"), "");
});

test("case 10 monorepo-subdir: the patch applies at the top, binary files and modes too", async (t) => {
  const w = await world(
    t,
    "mkdir -p packages/web; echo w > packages/web/x; echo a > a; git add -A; git commit -qm base",
  );
  const agent =
    "head -c 3000 /dev/urandom > packages/web/bin; echo e >> packages/web/x; rm a; ln -s x packages/web/l; chmod +x packages/web/x";
  const commit = await snapshot(w, "a", agent);
  const file = join(w.dir, "output", "a.patch");
  assert.ok((await writePatch({ control: w.control, base: w.base, commit, file })) > 0);
  sh(join(w.repo, "packages/web"), `git -C "$(git rev-parse --show-toplevel)" apply --index ${file}`);
  assert.equal(sh(w.repo, "git write-tree"), sh(w.repo, `git rev-parse ${commit}^{tree}`));
  assert.equal(await writePatch({ control: w.control, base: w.base, commit: w.base, file: `${file}2` }), 0);
});

test("case 44 gate-tampering: a clean place holds the tree and nothing else; protected files stand as in the base", async (t) => {
  const w = await world(
    t,
    "mkdir test src; echo real > test/run.sh; echo gone > test/old.sh; echo 41 > src/a; echo node_modules > .gitignore; git add -A; git commit -qm base",
  );
  const agent =
    "echo true > test/run.sh; rm test/old.sh; echo x > test/new.sh; echo 42 > src/a; mkdir node_modules; touch node_modules/evil";
  const commit = await snapshot(w, "a", agent);
  const plain = await makeCleanPlace({ control: w.control, dir: join(w.dir, "gate1"), commit });
  assert.equal(
    sh(plain.work, "git rev-parse --show-toplevel; git rev-parse HEAD; git status --porcelain"),
    `${plain.work}\n${commit}`,
  );
  assert.equal(plain.tree, sh(w.repo, `git rev-parse ${commit}^{tree}`));
  assert.ok(!existsSync(join(plain.work, "node_modules")));
  const protect = { base: w.base, matches: (path: string) => path.startsWith("test/") };
  const place = await makeCleanPlace({ control: w.control, dir: join(w.dir, "gate2"), commit, protect });
  assert.deepEqual(place.restored, ["test/new.sh", "test/old.sh", "test/run.sh"]);
  assert.equal(readFileSync(join(place.work, "test/run.sh"), "utf8"), "real\n");
  assert.equal(
    sh(place.work, "ls test; cat src/a; git rev-parse --show-toplevel"),
    `old.sh\nrun.sh\n42\n${place.work}`,
  );
  sh(place.work, "mkdir -p deep/er; touch deep/er/x; chmod 000 deep/er");
  await place.remove();
  await plain.remove();
  assert.ok(!existsSync(place.work));
});
