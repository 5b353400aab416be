// Repositories in odd shapes: found by the directory, refused with the right reason, or worked with as they are.

import assert from "node:assert/strict";
import { existsSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { type TestContext, test } from "node:test";
import { preflight, probeRepository, resolveBase } from "../../bus/git/probe.ts";
import { capture } from "../../scheduler/capture.ts";
import { makeCleanPlace } from "../../scheduler/clean-place.ts";
import { openControl } from "../../scheduler/control.ts";
import { ensureIntegrationBranch } from "../../scheduler/refs.ts";
import { makeWorkspace } from "../../scheduler/workspace.ts";
import { type ErrorCode, isCode } from "../../schemas/errors.ts";
import { attempt, IDENTITY, open, sh, type World, worked, world } from "../helpers/repo.ts";
import { tempDir } from "../helpers/temp.ts";

const ONE = "echo base > f.txt; git add -A; git commit -qm base";
const fails = (what: Promise<unknown>, code: ErrorCode, words: RegExp) =>
  assert.rejects(what, (error) => isCode(error, code) && words.test(error.message));

function snap(w: World, task: string, workspace: Awaited<ReturnType<typeof worked>>) {
  const ref = attempt(task);
  return capture({
    control: w.control,
    workspace,
    ref,
    base: w.base,
    version: 1,
    message: "m\n",
    identity: IDENTITY,
  });
}

/** Runs `fn` with variables in our own environment, as a program started with them. */
async function withEnv<T>(env: Record<string, string>, fn: () => Promise<T>): Promise<T> {
  const before = { ...process.env };
  Object.assign(process.env, env);
  try {
    return await fn();
  } finally {
    for (const name of Object.keys(env)) {
      if (before[name] === undefined) delete process.env[name];
      else process.env[name] = before[name];
    }
  }
}

test("case 04 wrong-base: the base is the main checkout's branch, wherever the command runs", async (t) => {
  const dir = tempDir(t, "git");
  sh(
    dir,
    `git init -q -b main up; (cd up; echo 0 > f.txt; git add -A; git commit -qm c0); git clone -q up repo; cd repo
     git switch -qc feature; echo 1 > x; git add -A; git commit -qm c1; git worktree add -q --detach ../side HEAD~1
     mkdir sub; git tag v1; git branch v1 HEAD~1; ln -s repo ../link`,
  );
  const w = await open(dir, join(dir, "repo"));
  const work = (await worked(w, "a", "true")).work;
  const feature = sh(w.repo, "git rev-parse feature");
  for (const place of ["repo", "repo/sub", "repo/.git", "side", "link"]) {
    const facts = await probeRepository(join(dir, place));
    assert.equal(facts.commonDir, join(dir, "repo/.git"), place);
    assert.deepEqual(await resolveBase(facts), { commit: feature, name: "feature" }, place);
  }
  assert.notEqual(
    (await probeRepository(work)).commonDir,
    w.control.repo,
    "a workspace is a repository of its own",
  );
  const facts = await probeRepository(w.repo);
  assert.equal(facts.topLevel, w.repo);
  assert.equal(
    (await resolveBase(facts, "v1")).commit,
    sh(w.repo, "git rev-parse main"),
    "a branch before a tag",
  );
  assert.equal((await resolveBase(facts, feature)).commit, feature);
  for (const name of ["", "--help", "-1", "nope", "0".repeat(40), "a b", ":/c1", "HEAD:f.txt"])
    await fails(resolveBase(facts, name), "NO_SUCH_COMMIT", /no commit is named/);
  sh(w.repo, "git switch -q --detach");
  await fails(resolveBase(await probeRepository(join(dir, "side"))), "DETACHED_HEAD", /detached/);
  assert.equal((await resolveBase(await probeRepository(w.repo), "feature")).commit, feature);
});

test("case 03 unborn-head: probing works, a base is refused in one line", async (t) => {
  const dir = tempDir(t, "git");
  sh(dir, "git init -q -b trunk repo; echo hello > repo/untracked.txt; mkdir none");
  const facts = await probeRepository(join(dir, "repo"));
  assert.deepEqual(facts.head, { kind: "unborn", name: "trunk" });
  await fails(resolveBase(facts), "UNBORN_HEAD", /no commits on 'trunk'/);
  await fails(probeRepository(join(dir, "none")), "NOT_A_REPOSITORY", /none/);
  await fails(probeRepository(join(dir, "absent")), "NOT_A_REPOSITORY", /absent/);
  assert.equal(sh(join(dir, "repo"), "git for-each-ref; ls"), "untracked.txt");
});

test("case 18 git-env-leak: the directory decides, the other repository stays as it was", async (t) => {
  const w = await world(t, ONE);
  sh(w.dir, "git init -q -b main victim; cd victim; echo v > v.txt; git add -A; git commit -qm victim");
  const victim = join(w.dir, "victim/.git");
  const hash = () => sh(victim, "find . -type f -print0 | sort -z | xargs -0 sha256sum");
  const before = hash();
  const leak = {
    GIT_DIR: victim,
    GIT_INDEX_FILE: join(victim, "index"),
    GIT_WORK_TREE: join(w.dir, "victim"),
    GIT_PREFIX: "",
    GIT_OBJECT_DIRECTORY: join(victim, "objects"),
    GIT_CONFIG_PARAMETERS: "'core.bare=true'",
  };
  await withEnv(leak, async () => {
    assert.equal((await probeRepository(w.repo)).commonDir, w.control.repo);
    const workspace = await makeWorkspace({
      control: w.control,
      dir: join(w.dir, "ws"),
      ref: attempt("a"),
      base: w.base,
      checkout: "full",
    });
    sh(workspace.work, "echo ok > a.txt");
    assert.deepEqual(
      (await snap(w, "a", workspace)).changed.map((c) => c.path),
      ["a.txt"],
    );
    assert.equal(await ensureIntegrationBranch(w.control, "r", w.base), w.base);
  });
  assert.equal(hash(), before);
  assert.equal(sh(w.repo, "git rev-parse busbar/r"), w.base);
});

test("case 09 dubious-ownership: the reason names path, owner and safe.directory; trust given by the user counts", async (t) => {
  const w = await world(t, `${ONE}; git worktree add -q -b old ../oldwt`);
  await withEnv(
    { GIT_TEST_ASSUME_DIFFERENT_OWNER: "1", GIT_CONFIG_GLOBAL: join(w.dir, "user.config") },
    async () => {
      for (const place of ["repo", "oldwt"])
        await fails(probeRepository(join(w.dir, place)), "NOT_TRUSTED", /repo: .*user \d+.*safe\.directory/);
      assert.ok(!existsSync(join(w.dir, "user.config")), "nothing is written into the user's configuration");
      const trust = { GIT_CONFIG_COUNT: "1", GIT_CONFIG_KEY_0: "safe.directory", GIT_CONFIG_VALUE_0: w.repo };
      await withEnv(trust, async () =>
        assert.equal((await probeRepository(w.repo)).commonDir, w.control.repo),
      );
      sh(w.dir, `git config --file user.config safe.directory ${w.repo}`);
      const facts = await probeRepository(w.repo);
      const control = openControl(join(w.dir, "state2"), facts);
      const workspace = await makeWorkspace({
        control,
        dir: join(w.dir, "ws"),
        ref: attempt("a"),
        base: w.base,
        checkout: "full",
      });
      assert.equal(readFileSync(join(workspace.work, "f.txt"), "utf8"), "base\n");
      assert.deepEqual(await preflight(facts, w.base, "r"), { warnings: [] });
    },
  );
});

test("case 11 branch-df-collision: a ref in the way is named, loose or packed, before and after", async (t) => {
  for (const [branch, pack] of [
    ["busbar", ""],
    ["busbar/r/x", ""],
    ["busbar", "git pack-refs --all"],
    ["busbar/r", ""],
  ] as const) {
    const w = await world(t, `${ONE}; git branch task; git branch ${branch}; ${pack}`);
    const facts = await probeRepository(w.repo);
    await fails(preflight(facts, w.base, "r"), "REF_CLASH", new RegExp(`refs/heads/${branch}`));
    if (branch !== "busbar/r")
      await fails(ensureIntegrationBranch(w.control, "r", w.base), "REF_CLASH", /refs\/heads\/busbar\/r/);
  }
  const w = await world(t, `${ONE}; git branch task; git branch bus`);
  const facts = await probeRepository(w.repo);
  await preflight(facts, w.base, "api");
  await ensureIntegrationBranch(w.control, "api", w.base);
  await preflight(facts, w.base, "api");
  await preflight(facts, w.base, "api.users");
  await ensureIntegrationBranch(w.control, "api.users", w.base);
});

test("case 02 lfs-filter-missing: files are given as stored, a warning says so, nothing shows as changed", async (t) => {
  const w = await world(
    t,
    `printf '*.bin filter=lfs diff=lfs merge=lfs -text\\n' > .gitattributes; printf 'version https://git-lfs\\noid sha256:0\\n' > model.bin
     echo base > f.txt; git add -A; git commit -qm base; git config filter.lfs.process 'no-such-git-lfs filter-process'
     git config filter.lfs.smudge 'no-such-git-lfs smudge -- %f'; git config filter.lfs.clean 'no-such-git-lfs clean -- %f'; git config filter.lfs.required true`,
  );
  const { warnings } = await preflight(await probeRepository(w.repo), w.base, "r");
  assert.match(warnings.join("\n"), /\*\.bin \(filter lfs\)/);
  const got = await snap(w, "a", await worked(w, "a", "echo ok > a.txt; touch model.bin; git status"));
  assert.deepEqual(
    got.changed.map((c) => c.path),
    ["a.txt"],
  );
  assert.deepEqual(got.outside, []);
});

test("case 01 submodule-empty: submodules are populated offline in workspaces and clean places, or refused by name", async (t) => {
  const dir = tempDir(t, "git");
  sh(
    dir,
    `git init -q -b main inner; echo i > inner/i.txt; git -C inner add -A; git -C inner commit -qm inner
     git init -q -b main lib; cd lib; echo 1 > lib.txt; git -c protocol.file.allow=always submodule add -q "$PWD/../inner" in; git add -A; git commit -qm lib; cd ..
     git init -q -b main repo; cd repo; git -c protocol.file.allow=always submodule add -q "$PWD/../lib" vendor/lib
     git -c protocol.file.allow=always submodule -q update --init --recursive; git add -A; git commit -qm base`,
  );
  const w = await open(dir, join(dir, "repo"));
  const facts = await probeRepository(w.repo);
  assert.deepEqual(await preflight(facts, w.base, "r"), { warnings: [] });
  const workspace = await worked(
    w,
    "a",
    "cat vendor/lib/lib.txt vendor/lib/in/i.txt; git status --porcelain; git submodule status --recursive > ../status; echo ok > a.txt",
  );
  assert.match(
    readFileSync(join(workspace.dir, "status"), "utf8"),
    /^ [0-9a-f]{40} vendor\/lib .*\n [0-9a-f]{40} vendor\/lib\/in/,
  );
  const got = await snap(w, "a", workspace);
  assert.deepEqual([got.changed.map((c) => c.path), got.refused, got.submodules], [["a.txt"], [], []]);
  assert.equal(sh(w.repo, `git diff --raw ${w.base} ${got.commit} | wc -l`), "1");
  const place = await makeCleanPlace({ control: w.control, dir: join(dir, "gate"), commit: got.commit });
  assert.equal(sh(place.work, "cat vendor/lib/in/i.txt; git status --porcelain"), "i");
  const touched = await worked(
    w,
    "b",
    "echo x >> vendor/lib/lib.txt; echo y > vendor/lib/in/y; git -C vendor/lib commit -qam moved",
  );
  const bad = await snap(w, "b", touched);
  assert.deepEqual(bad.submodules, ["vendor/lib/lib.txt", "vendor/lib/in/y"]);
  assert.deepEqual(
    bad.refused.map((r) => `${r.rule} ${r.path}`),
    ["gitlink vendor/lib"],
  );
  assert.deepEqual(bad.changed, []);
  const linked = await worked(w, "d", 'rm -rf vendor/lib; ln -s "$W" vendor/lib');
  assert.deepEqual((await snap(w, "d", linked)).submodules.includes("vendor/lib"), true);
  sh(w.repo, "git submodule -q deinit -f --all; rm -rf .git/modules/vendor/lib/modules");
  await fails(preflight(facts, w.base, "r"), "SUBMODULE_MISSING", /submodule vendor\/lib\/in/);
  sh(w.repo, "rm -rf .git/modules");
  await fails(preflight(facts, w.base, "r"), "SUBMODULE_MISSING", /submodule vendor\/lib:/);
  const failed = makeWorkspace({
    control: w.control,
    dir: join(dir, "c"),
    ref: attempt("c"),
    base: w.base,
    checkout: "full",
  });
  await fails(failed, "WORKSPACE_FAILED", /vendor\/lib/);
  assert.deepEqual(
    ["work", "index", "sub"].filter((name) => existsSync(join(dir, "c", name))),
    [],
  );
});

async function partial(t: TestContext): Promise<string> {
  const dir = tempDir(t, "git");
  sh(
    dir,
    `git init -q -b main up; (cd up; git config uploadpack.allowFilter true; git config uploadpack.allowAnySHA1InWant true
     mkdir d; echo big > old.txt; echo 0 > f.txt; echo d > d/d.txt; git add -A; git commit -qm c0; echo 1 > f.txt; git commit -qam c1)
     git clone -q --filter=blob:none --no-checkout "file://$PWD/up" repo; git clone -q --filter=tree:0 --no-checkout "file://$PWD/up" treeless
     git clone -q --depth 1 "file://$PWD/up" shallow`,
  );
  return dir;
}

test("case 06 partial-clone-offline: missing objects are fetched once, or the run is refused within seconds", async (t) => {
  const dir = await partial(t);
  for (const clone of ["repo", "treeless"]) {
    sh(dir, "mv up gone");
    const facts = await probeRepository(join(dir, clone));
    assert.equal(facts.partial, "origin");
    const { commit } = await resolveBase(facts);
    await fails(preflight(facts, commit, "r"), "OBJECTS_UNREACHABLE", /promisor remote origin/);
    sh(dir, "mv gone up");
    await preflight(facts, commit, "r");
    sh(dir, "mv up gone");
    const w = await open(join(dir), join(dir, clone));
    const workspace = await makeWorkspace({
      control: w.control,
      dir: join(dir, "ws", clone),
      ref: attempt(clone),
      base: commit,
      checkout: "full",
    });
    assert.equal(readFileSync(join(workspace.work, "d/d.txt"), "utf8"), "d\n");
    sh(dir, "mv gone up");
  }
});

test("case 06: a shallow clone works offline, merge included", async (t) => {
  const dir = await partial(t);
  sh(dir, "mv up gone");
  const w = await open(dir, join(dir, "shallow"));
  const workspace = await worked(
    w,
    "a",
    "git log --oneline | wc -l; echo ok > a.txt; git add -A; git commit -qm own",
  );
  const got = await snap(w, "a", workspace);
  assert.deepEqual(got.anomalies, []);
  assert.equal(await ensureIntegrationBranch(w.control, "r", w.base), w.base);
  sh(w.repo, "git fsck --strict 2>&1");
});

test("case 05 sparse-source: workspaces are full; in a sparse one absent files are no deletions", async (t) => {
  const w = await world(
    t,
    `mkdir -p app lib; echo a > app/a.txt; echo l > lib/l.txt; echo m > lib/m.txt; echo r > root.txt
     git add -A; git commit -qm base; git sparse-checkout set --cone --sparse-index app`,
  );
  assert.equal((await probeRepository(w.repo)).sparse, true);
  const full = await worked(
    w,
    "a",
    'test -f lib/l.txt; test -z "$(git status --porcelain)"; echo new >> app/a.txt',
  );
  assert.deepEqual(
    (await snap(w, "a", full)).changed.map((c) => c.path),
    ["app/a.txt"],
  );
  const agent = `test ! -e lib; test -z "$(git status --porcelain)"; echo new >> app/a.txt; rm root.txt
    mkdir -p lib; echo other > lib/m.txt; echo n > lib/n.txt`;
  const sparse = await worked(w, "b", agent, ["app/a.txt", "root.txt", "not/there"]);
  const got = await snap(w, "b", sparse);
  assert.deepEqual(
    got.changed.map((c) => `${c.kind} ${c.path}`),
    ["modified app/a.txt", "modified lib/m.txt", "added lib/n.txt", "deleted root.txt"],
  );
  assert.equal(
    sh(w.repo, `git ls-tree -r --name-only ${got.commit}`),
    "app/a.txt\nlib/l.txt\nlib/m.txt\nlib/n.txt",
  );
  assert.equal(sh(w.repo, "git sparse-checkout list"), "app");
});

test("case 45 get-file-escape: tracked links that leave the repository are told before the run", async (t) => {
  const w = await world(
    t,
    "mkdir src; ln -s /etc/passwd src/pw; ln -s ../../out src/out; ln -s ../f ok; ln -s src/pw alias; ln -s .git/config g; git add -A; git commit -qm base",
  );
  const { warnings } = await preflight(await probeRepository(w.repo), w.base, "r");
  assert.equal(warnings.length, 1);
  assert.match(
    warnings[0]!,
    /g -> \.git\/config, ok -> \.\.\/f, src\/out -> \.\.\/\.\.\/out, src\/pw -> \/etc\/passwd$/,
  );
});

test("sha256 repositories, borrowed objects and odd directory names work alike", async (t) => {
  const dir = tempDir(t, "git");
  sh(
    dir,
    `git init -q -b main --object-format=sha256 up; cd up; ${ONE}; cd ..; git clone -q --shared up 'a "b: c'`,
  );
  const repo = join(dir, 'a "b: c');
  const w = await open(dir, repo);
  assert.equal(w.base.length, 64);
  const got = await snap(
    w,
    "a",
    await worked(w, "a", "echo ok > a.txt; ln -s a.txt l; git add -A; git commit -qm own; git log -1"),
  );
  assert.deepEqual(
    got.changed.map((c) => c.path),
    ["a.txt", "l"],
  );
});
