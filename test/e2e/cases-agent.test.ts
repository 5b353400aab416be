// Cases from the field, kind agent: what agents do to git, to the truth and to the disk.

import assert from "node:assert/strict";
import { existsSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { test } from "node:test";
import { assertInvariants, lookAtCheckout } from "../helpers/invariants.ts";
import { isAlive } from "../helpers/processes.ts";
import { until } from "../helpers/wait.ts";
import { makeWorld } from "../helpers/world.ts";

test("case 22 exit0-no-change: an untouched tree is never done, and holds back what depends on it", async (t) => {
  const world = makeWorld(t);
  const ran = await world.run([
    { id: "liar", command: 'echo "All done! Every test passes."', retries: 1 },
    { id: "ec", command: "git commit -q --allow-empty -m done" },
    {
      id: "nz",
      command: "echo x > t.txt; git add t.txt; git commit -qm add; git rm -q t.txt; git commit -qm undo",
    },
    { id: "after", command: "echo ok > after.txt", depends_on: ["liar"] },
  ]);
  assert.equal(ran.code, 1, ran.out + ran.err);
  const { run, tasks } = await world.state("r");
  for (const id of ["liar", "ec", "nz"])
    assert.equal(tasks.get(id)?.attempts.at(-1)?.result, "no_changes", id);
  assert.equal(tasks.get("liar")?.attempts.length, 2);
  assert.equal(run.landed.length, 0);
  const after = tasks.get("after")?.state;
  assert.ok(after?.name === "blocked" && after.needs.kind === "upstream");
  assert.equal(after.needs.root, "liar");
  assert.match(JSON.stringify(after.needs), /no_changes/);
  await assertInvariants(world, "r");
});

test("case 22 exit0-no-change: with no_changes: ok the task is done and its dependents run", async (t) => {
  const world = makeWorld(t);
  const ran = await world.run([
    { id: "review", command: "true", no_changes: "ok" },
    { id: "after", command: "echo ok > after.txt", depends_on: ["review"] },
  ]);
  assert.equal(ran.code, 0, ran.out + ran.err);
  const { run, tasks } = await world.state("r");
  const review = tasks.get("review")?.state;
  assert.ok(review?.name === "passed" && review.merged?.commit === null);
  assert.deepEqual(
    run.landed.map((one) => one.task),
    ["after"],
  );
  await assertInvariants(world, "r");
});

test("case 23 exit0-uncommitted: gate, patch and landing are the files on disk", async (t) => {
  const world = makeWorld(
    t,
    "git init -q -b main repo; cd repo; mkdir src; echo base > src/f.txt; git add -A; git commit -qm base",
  );
  const command = world.agent(
    "a",
    `mkdir -p src/deep/er
echo 1 > src/committed.txt; git add src/committed.txt; git commit -qm one
echo 2 > src/staged.txt; git add src/staged.txt; echo 2b > src/staged.txt
echo 3 > src/deep/er/untracked.txt; echo 4 >> src/f.txt; git rm -q --cached src/committed.txt
chmod +x src/f.txt`,
  );
  const proof =
    "test -f src/committed.txt && test -f src/deep/er/untracked.txt && grep -qx 2b src/staged.txt && test -x src/f.txt";
  const ran = await world.run([{ id: "a", command, allowed_files: ["src/**"], acceptance: [proof] }]);
  assert.equal(ran.code, 0, ran.out + ran.err);
  assert.equal(world.git("show", "busbar/r:src/staged.txt"), "2b");
  assert.match(world.git("ls-tree", "busbar/r", "src/f.txt"), /^100755/);
  const { tasks, run } = await world.state("r");
  const state = tasks.get("a")?.state;
  assert.ok(state?.name === "passed" && state.snapshot);
  assert.equal(run.landed[0]?.tree, state.snapshot.tree, "the tree gated is the tree landed");
  await assertInvariants(world, "r");
});

test("case 24 switched-or-detached: content counts, commits on any branch are kept", async (t) => {
  const world = makeWorld(t);
  const detached =
    "git switch -q --detach; for i in 1 2 3; do echo $i > d$i.txt; git add -A; git commit -qm d$i; done";
  const ran = await world.run([
    {
      id: "sw",
      command:
        "git switch -q -c feature/nice-name; echo ok > sw.txt; git add -A; git commit -qm 'own branch'",
      allowed_files: ["sw.txt"],
      acceptance: ["test -f sw.txt"],
    },
    { id: "det", command: detached, allowed_files: ["d*.txt"], acceptance: ["test -f d3.txt"] },
    {
      id: "back",
      command:
        "git switch -q -c side; echo ok > b.txt; git add -A; git commit -qm side-work; git switch -q -",
      allowed_files: ["b.txt"],
      acceptance: ["test -f b.txt"],
    },
  ]);
  assert.equal(ran.code, 1, ran.out + ran.err);
  const { run, tasks } = await world.state("r");
  assert.deepEqual(run.landed.map((one) => one.task).sort(), ["det", "sw"]);
  assert.equal(tasks.get("back")?.attempts[0]?.result, "no_changes");
  world.git("gc", "-q", "--prune=now");
  const kept = world.git("for-each-ref", "--format=%(contents:subject)", "refs/busbar/attempts");
  for (const subject of ["own branch", "d3", "side-work"]) assert.match(kept, new RegExp(subject));
  assert.equal(
    world.git("branch", "--format=%(refname:short)").split("\n").sort().join(" "),
    "busbar/r main",
  );
  await assertInvariants(world, "r");
});

test("case 25 rewrote-base: amend, soft reset and orphan bring in their content only", async (t) => {
  const world = makeWorld(
    t,
    "git init -q -b main repo; cd repo; echo 1 > f.txt; git add -A; git commit -qm c1; echo 2 > f.txt; git commit -qam c2",
  );
  const soft = world.agent(
    "soft",
    // The branch has moved on meanwhile: the agent squashes its old tree onto the new head.
    `echo ok > soft.txt; H="git --git-dir=$W/repo/.git"; until $H cat-file -e refs/heads/busbar/r:first.txt 2>/dev/null; do sleep 0.1; done
git add -A; git reset -q --soft "$($H rev-parse refs/heads/busbar/r)"; git commit -qm squashed`,
  );
  const orphan =
    "git checkout -q --orphan fresh; echo ok > orphan.txt; git add -A; git commit -qm 'new root'";
  const ran = await world.run(
    [
      { id: "first", command: "echo ok > first.txt", allowed_files: ["first.txt"] },
      {
        id: "amend",
        command: "echo ok > amend.txt; git add -A; git commit -q --amend -m better",
        allowed_files: ["amend.txt"],
      },
      { id: "soft", command: soft, allowed_files: ["soft.txt"], timeout: "60s" },
      { id: "orphan", command: orphan, allowed_files: ["orphan.txt"] },
    ],
    { workers: 4 },
  );
  assert.equal(ran.code, 0, ran.out + ran.err);
  const names = world.git("ls-tree", "--name-only", "busbar/r").split("\n").join(" ");
  assert.equal(names, "amend.txt f.txt first.txt orphan.txt soft.txt");
  assert.equal(world.git("rev-list", "--max-parents=0", "busbar/r").split("\n").length, 1);
  const subjects = world.git("log", "--format=%s", "busbar/r").split("\n");
  assert.equal(subjects.filter((one) => one === "c2").length, 1);
  await assertInvariants(world, "r");
});

test("case 27 writes-outside-worktree: stray edits land nowhere, and nobody's checkout is tidied up", async (t) => {
  const world = makeWorld(
    t,
    `git init -q -b main repo; cd repo; mkdir src; echo base > src/f.txt; echo u > src/user.txt; git add -A; git commit -qm base
     echo 'my unsaved thoughts' >> src/user.txt`,
  );
  const a = world.agent(
    "a",
    `echo edited-by-a > "$W/repo/src/f.txt"; echo new > "$W/repo/src/new-by-a.txt"; echo mine > "$W/repo/my-own-output"`,
  );
  const b = world.agent(
    "b",
    `echo ok > src/b.txt; for d in $(git worktree list --porcelain | sed -n 's/^worktree //p'); do
  [ "$d" = "$PWD" ] || [ "$d" = "$W/repo" ] || echo sabotage >> "$d/src/f.txt"; done`,
  );
  const ran = await world.run([
    { id: "a", command: a, allowed_files: ["src/f.txt", "src/new-by-a.txt"] },
    { id: "b", command: b, allowed_files: ["src/b.txt"] },
    {
      id: "c",
      command: "echo ok > src/c.txt",
      allowed_files: ["src/c.txt"],
      acceptance: ["test -f src/c.txt"],
    },
  ]);
  assert.equal(ran.code, 1, ran.out + ran.err);
  const { tasks, run } = await world.state("r");
  const first = tasks.get("a")?.attempts[0];
  assert.notEqual(first?.result, "passed");
  assert.match(
    JSON.stringify(first?.evidence),
    /src\/f\.txt|new-by-a/,
    "the changed paths of the checkout are reported",
  );
  assert.doesNotMatch(
    JSON.stringify(first?.evidence),
    /my-own-output/,
    "nothing is said of the user's own files",
  );
  assert.equal(world.git("show", "busbar/r:src/f.txt"), "base");
  assert.ok(run.landed.some((one) => one.task === "c"));
  assert.match(readFileSync(join(world.repo, "src/user.txt"), "utf8"), /my unsaved thoughts\n$/);
  assert.equal(readFileSync(join(world.repo, "src/new-by-a.txt"), "utf8"), "new\n", "left in place");
  await assertInvariants(world, "r");
});

test("case 30 dotgit-gone: without or with a foreign .git the content is still captured from the files alone", async (t) => {
  const world = makeWorld(t);
  const before = lookAtCheckout(world);
  const fresh =
    "echo ok > b.txt; rm -rf .git; git init -q -b main .; git add -A; git -c user.name=x -c user.email=x@x commit -qm 'fresh start'";
  const ran = await world.run([
    { id: "rm", command: "echo ok > a.txt; rm -rf .git", allowed_files: ["a.txt"] },
    { id: "init", command: fresh, allowed_files: ["b.txt"] },
    {
      id: "bad",
      command: 'echo ok > c.txt; rm -rf .git; echo "gitdir: /nowhere" > .git',
      allowed_files: ["c.txt"],
    },
    { id: "ok", command: "echo ok > d.txt", allowed_files: ["d.txt"] },
  ]);
  assert.equal(ran.code, 0, ran.out + ran.err);
  const names = world.git("diff", "--name-only", "main", "busbar/r").split("\n").join(" ");
  assert.equal(names, "a.txt b.txt c.txt d.txt");
  await assertInvariants(world, "r", before);
});

test("case 32 junk-swept-in: what nobody asked for is reported, never landed, never in a kept object", async (t) => {
  const world = makeWorld(
    t,
    `git init -q -b main repo; cd repo; mkdir -p src node_modules/dep; echo 1 > node_modules/dep/i.js
     printf 'node_modules/\\n*.log\\n' > .gitignore; echo base > src/f.ts; git add -A; git commit -qm base`,
  );
  const junk = world.agent(
    "a",
    `[ -e node_modules ] || ln -s "$W/repo/node_modules" node_modules
echo 'export const a = 1' > src/a.ts; printf 'API_KEY=sk-test-0123456789abcdef\\n' > .env
head -c 30000000 /dev/zero > core.4711; mkdir -p .cache && echo x > .cache/x; echo swap > src/.a.ts.swp`,
  );
  const ran = await world.run([
    { id: "a", command: junk, allowed_files: ["src/*.ts"], acceptance: ["test -f src/a.ts"] },
    { id: "a2", command: junk, allowed_files: ["**"], acceptance: ["test -f src/a.ts"] },
  ]);
  assert.equal(ran.code, 1, ran.out + ran.err);
  const { tasks, run } = await world.state("r");
  assert.equal(run.landed.length, 0);
  const paths = tasks.get("a")?.attempts[0]?.evidence?.paths ?? [];
  for (const path of [".env", "core.4711", ".cache/x", "src/.a.ts.swp", "node_modules"])
    assert.ok(paths.includes(path), `${path} is reported: ${paths}`);
  const wide = tasks.get("a2")?.attempts[0];
  assert.equal(wide?.result, "scope");
  for (const path of ["core.4711", "node_modules"]) assert.ok(wide?.evidence?.paths.includes(path), path);
  const patch = await world.busctl(["patch", "r/a"]);
  assert.doesNotMatch(patch.out, /sk-test/);
  const kept = world.sh("git -C repo rev-list --objects refs/busbar/attempts/r/a/1/v1 | cut -d' ' -f2-");
  assert.doesNotMatch(kept, /\.env/);
  await assertInvariants(world, "r");
});

test("case 35 ignores-term-and-setsid: at time-out and at cancel nobody of the tree is left", async (t) => {
  const world = makeWorld(t);
  const command = world.agent(
    "a",
    `trap '' TERM INT HUP
( trap '' TERM; sleep 600 ) & echo $! >> "$W/pids.$1"
setsid bash -c 'trap "" TERM HUP; echo $$ >> "$W/pids.'$1'"; while :; do date +%s%N > "$W/heartbeat.'$1'"; sleep 0.2; done' </dev/null >/dev/null 2>&1 &
nohup bash -c 'exec -a innocent sleep 600' >/dev/null 2>&1 & echo $! >> "$W/pids.$1"
echo $$ >> "$W/pids.$1"; while :; do sleep 1; done`,
  );
  const pids = (id: string) =>
    readFileSync(join(world.W, `pids.${id}`), "utf8")
      .trim()
      .split("\n")
      .map(Number);
  const plan = world.plan([
    { id: "slow", command: `${command} slow`, timeout: "3s" },
    { id: "gone", command: `${command} gone` },
  ]);
  const started = world.start(["run", plan]);
  await until("the second agent works", () => existsSync(join(world.W, "heartbeat.gone")));
  const cancel = await world.busctl(["cancel", "r/gone"]);
  assert.equal(cancel.code, 0, cancel.out + cancel.err);
  const ran = await started.ended;
  assert.equal(ran.code, 1, ran.out + ran.err);
  const { tasks } = await world.state("r");
  assert.equal(tasks.get("slow")?.attempts[0]?.result, "timeout");
  assert.equal(tasks.get("gone")?.state.name, "cancelled");
  for (const id of ["slow", "gone"])
    await until(`the tree of ${id} is gone`, () => pids(id).every((pid) => !isAlive(pid)));
  await assertInvariants(world, "r");
});
