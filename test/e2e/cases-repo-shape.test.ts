// Cases from the field, kind repo-shape: repositories in odd states, started as a user would start it.

import assert from "node:assert/strict";
import { existsSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { test } from "node:test";
import { assertInvariants, lookAtCheckout } from "../helpers/invariants.ts";
import { makeWorld } from "../helpers/world.ts";

const BRANCH = "refs/heads/busbar/r";

test("case 01 submodule-empty: the workspace and the gate have the submodule, offline; the gitlink stays", async (t) => {
  const world = makeWorld(
    t,
    `git init -q -b main lib; echo 1 > lib/lib.txt; git -C lib add -A; git -C lib commit -qm lib
     git init -q -b main repo; cd repo; git -c protocol.file.allow=always submodule add -q "$W/lib" vendor/lib
     echo 'test -f vendor/lib/lib.txt' > check.sh; git add -A; git commit -qm base; mv "$W/lib" "$W/lib.gone"`,
  );
  const before = lookAtCheckout(world);
  const ran = await world.run([
    {
      id: "a",
      command: "cat vendor/lib/lib.txt && echo ok > a.txt",
      allowed_files: ["a.txt"],
      acceptance: ["bash check.sh"],
    },
  ]);
  assert.equal(ran.code, 0, ran.out + ran.err);
  assert.equal(world.git("diff", "--name-only", "main", BRANCH), "a.txt");
  assert.equal(world.git("worktree", "list", "--porcelain").match(/^worktree /gm)?.length, 1);
  assert.equal(world.sh("cd repo; git config protocol.file.allow || true"), "");
  await assertInvariants(world, "r", before);
});

test("case 01 submodule-empty: a submodule that was never fetched refuses the run before anything starts", async (t) => {
  const world = makeWorld(
    t,
    `git init -q -b main lib; echo 1 > lib/lib.txt; git -C lib add -A; git -C lib commit -qm lib
     git init -q -b main up; cd up; git -c protocol.file.allow=always submodule add -q "$W/lib" vendor/lib; git add -A; git commit -qm base
     cd ..; git clone -q up repo`,
  );
  const ran = await world.run([{ id: "a", command: "echo ok > a.txt" }]);
  assert.equal(ran.code, 2, ran.out + ran.err);
  assert.match(ran.err, /vendor\/lib/);
  assert.match(ran.err, /submodule update --init/);
  assert.equal(world.sh("git -C repo for-each-ref refs/busbar refs/heads/busbar"), "");
});

test("case 02 lfs-filter-missing: files are given as stored, the blob is never touched, twice the same", async (t) => {
  const world = makeWorld(
    t,
    `git init -q -b main repo; cd repo; printf '*.bin filter=lfs diff=lfs merge=lfs -text\\n' > .gitattributes
     printf 'version https://git-lfs.github.com/spec/v1\\noid sha256:%064d\\nsize 12\\n' 0 > model.bin
     echo base > f.txt; git add -A; git commit -qm base
     git config filter.lfs.process 'no-such-git-lfs filter-process'; git config filter.lfs.smudge 'no-such-git-lfs smudge -- %f'
     git config filter.lfs.clean 'no-such-git-lfs clean -- %f'; git config filter.lfs.required true`,
  );
  for (const run of ["r", "r2"]) {
    const ran = await world.run(
      [{ id: "a", command: "touch model.bin; echo ok > a.txt", allowed_files: ["a.txt"] }],
      { run },
    );
    assert.equal(ran.code, 0, ran.out + ran.err);
    assert.match(ran.out + ran.err, /lfs/i, "says that files are given as stored");
    assert.equal(world.git("diff", "--name-only", "main", `busbar/${run}`), "a.txt");
    await assertInvariants(world, run);
  }
});

test("case 03 unborn-head: refused in one line, nothing is made", async (t) => {
  const world = makeWorld(t, "git init -q -b trunk repo; echo hello > repo/untracked.txt");
  const tasks = await world.busctl(["tasks"]);
  assert.doesNotMatch(tasks.out + tasks.err, /at .*\.js:\d+/, "no stack trace");
  const ran = await world.run([{ id: "a", command: "echo ok > a.txt" }]);
  assert.equal(ran.code, 2, ran.out + ran.err);
  assert.match(ran.err, /trunk/);
  assert.match(ran.err, /commit/);
  assert.doesNotMatch(ran.err, /invalid reference|at .*\.js:\d+/);
  assert.equal(readFileSync(join(world.repo, "untracked.txt"), "utf8"), "hello\n");
  assert.equal(existsSync(join(world.repo, "a.txt")), false);
  assert.equal(world.sh("git -C repo for-each-ref"), "");
});

const WRONG_BASE = `git init -q -b main up; (cd up; echo 0 > f.txt; git add -A; git commit -qm c0)
  git clone -q up repo; cd repo; git switch -qc feature; echo 1 > only-on-feature.txt; git add -A; git commit -qm c1
  git worktree add -q --detach ../side HEAD~1`;

test("case 04 wrong-base: from any directory the base is the branch of the main checkout", async (t) => {
  const world = makeWorld(t, WRONG_BASE);
  const feature = world.git("rev-parse", "feature");
  const task = { id: "a", command: "test -f only-on-feature.txt && echo $RANDOM > a.txt" };
  for (const [run, cwd] of [
    ["r1", world.repo],
    ["r2", join(world.W, "side")],
  ] as const) {
    const ran = await world.busctl(["run", world.plan([task], { run })], { cwd });
    assert.equal(ran.code, 0, ran.out + ran.err);
    const state = await world.state(run);
    assert.equal(state.run.spec.base, feature);
    assert.equal(state.run.spec.base_name, "feature");
    assert.equal(state.tasks.get("a")?.attempts[0]?.base, feature);
  }
});

test("case 04 wrong-base: a detached main checkout asks for an explicit base and guesses none", async (t) => {
  const world = makeWorld(t, `${WRONG_BASE}; git switch -q --detach`);
  const refused = await world.run([{ id: "a", command: "echo ok > a.txt" }]);
  assert.equal(refused.code, 2, refused.out + refused.err);
  assert.match(refused.err, /--base/);
  const ran = await world.busctl([
    "run",
    world.plan([{ id: "a", command: "echo ok > a.txt" }]),
    "--base",
    "feature",
  ]);
  assert.equal(ran.code, 0, ran.out + ran.err);
  assert.equal((await world.state("r")).run.spec.base, world.git("rev-parse", "feature"));
});

test("case 05 sparse-source: files outside the cone are read, kept and checked; the user's setting stays", async (t) => {
  const world = makeWorld(
    t,
    `git init -q -b main repo; cd repo; mkdir -p app lib; echo a > app/a.txt; echo l > lib/l.txt; echo r > root.txt
     git add -A; git commit -qm base; git sparse-checkout set --cone --sparse-index app`,
  );
  const before = lookAtCheckout(world);
  const ran = await world.run([
    {
      id: "a",
      command: "echo new >> app/a.txt",
      allowed_files: ["app/**"],
      acceptance: ["test -f lib/l.txt"],
    },
  ]);
  assert.equal(ran.code, 0, ran.out + ran.err);
  const cat = await world.busctl(["cat", "a:lib/l.txt"]);
  assert.equal(cat.out, "l\n", cat.err);
  assert.equal(world.git("diff", "--name-only", "main", BRANCH), "app/a.txt");
  assert.equal(world.git("ls-tree", "-r", "--name-only", BRANCH).split("\n").length, 3);
  assert.equal(world.git("sparse-checkout", "list"), "app");
  await assertInvariants(world, "r", before);
});

const PARTIAL = `git init -q -b main up; (cd up; git config uploadpack.allowFilter true; git config uploadpack.allowAnySHA1InWant true
  echo big > old.txt; echo 0 > f.txt; git add -A; git commit -qm c0; echo 1 > f.txt; git commit -qam c1)`;

test("case 06 partial-clone-offline: refused within seconds, nothing left", async (t) => {
  const world = makeWorld(
    t,
    `${PARTIAL}; git clone -q --filter=blob:none --no-checkout "file://$W/up" repo; mv up up.gone`,
  );
  const ran = await world.run([{ id: "a", command: "echo ok > a.txt" }]);
  assert.equal(ran.code, 2, ran.out + ran.err);
  assert.match(ran.err, /could not be fetched from the promisor remote origin/);
  assert.ok(ran.ms < 60_000, `took ${ran.ms} ms`);
  const json = await world.busctl(["run", join(world.W, "plan.json"), "--json"]);
  assert.equal(JSON.parse(json.err.trimEnd().split("\n").at(-1) ?? "").error.code, "OBJECTS_UNREACHABLE");
  assert.equal(world.sh("git -C repo for-each-ref refs/busbar refs/heads/busbar"), "");
});

test("case 06 partial-clone-offline: with the remote there, missing objects are fetched and the run is green", async (t) => {
  const world = makeWorld(t, `${PARTIAL}; git clone -q --filter=blob:none --no-checkout "file://$W/up" repo`);
  const ran = await world.run([{ id: "a", command: "grep -qx 1 f.txt && echo ok > a.txt" }]);
  assert.equal(ran.code, 0, ran.out + ran.err);
});

test("case 06 partial-clone-offline: a shallow clone works offline, landing included", async (t) => {
  const world = makeWorld(t, `${PARTIAL}; git clone -q --depth 1 "file://$W/up" repo; mv up up.gone`);
  const ran = await world.run([{ id: "a", command: "echo ok > a.txt" }]);
  assert.equal(ran.code, 0, ran.out + ran.err);
  assert.equal(world.git("diff", "--name-only", "main", BRANCH), "a.txt");
});

test("case 09 dubious-ownership: one sentence with the path and safe.directory; the user's config is not written", async (t) => {
  const world = makeWorld(t);
  const env = { GIT_TEST_ASSUME_DIFFERENT_OWNER: "1" };
  for (const args of [["run", world.plan([{ id: "a", command: "echo ok > a.txt" }])], ["tasks"]]) {
    const ran = await world.busctl(args, { env });
    assert.notEqual(ran.code, 0);
    assert.match(ran.err, /safe\.directory/);
    assert.match(ran.err, /repo/);
  }
  assert.equal(existsSync(join(world.env.HOME ?? "", ".gitconfig")), false);
  // Trust that the user configured reaches our own git calls.
  world.sh('git config --file "$HOME/.gitconfig" --add safe.directory "$W/repo"');
  const ran = await world.busctl(["run", join(world.W, "plan.json")], { env });
  assert.equal(ran.code, 0, ran.out + ran.err);
});

test("case 10 monorepo-subdir: patterns are rooted at the top, whatever the directory; the patch applies whole", async (t) => {
  const world = makeWorld(
    t,
    `git init -q -b main repo; cd repo; mkdir -p packages/web/src packages/api/src
     echo w > packages/web/src/x.ts; echo a > packages/api/src/x.ts; git add -A; git commit -qm base`,
  );
  const edit = world.agent("a", "echo edit >> packages/web/src/x.ts");
  const cwd = join(world.repo, "packages/web");
  const file = world.plan([
    {
      id: "a",
      command: edit,
      allowed_files: ["packages/web/**"],
      acceptance: ["grep -q edit packages/web/src/x.ts"],
    },
    { id: "b", command: edit, allowed_files: ["src/**"] },
  ]);
  const ran = await world.busctl(["run", file], { cwd });
  assert.equal(ran.code, 1, ran.out + ran.err);
  const { tasks } = await world.state("r");
  assert.equal(tasks.get("a")?.state.name, "passed");
  const b = tasks.get("b");
  assert.equal(b?.attempts[0]?.result, "scope");
  assert.match(b?.attempts[0]?.evidence?.summary ?? "", /packages\/web\/src\/x\.ts/);
  const patch = await world.busctl(["patch", "r/a"], { cwd });
  assert.equal(patch.code, 0, patch.err);
  writeFileSync(join(world.W, "a.patch"), patch.out);
  world.sh('cd repo; git apply "$W/a.patch"; test "$(git diff --name-only)" = packages/web/src/x.ts');
  await assertInvariants(world, "r");
});
