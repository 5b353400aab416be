// Cases from the field, kind worktree-lifecycle, and grandchild-holds-stdout.

import assert from "node:assert/strict";
import { existsSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { test } from "node:test";
import { assertInvariants, lookAtCheckout } from "../helpers/invariants.ts";
import { isAlive } from "../helpers/processes.ts";
import { makeWorld } from "../helpers/world.ts";

test("case 11 branch-df-collision: prefix ids run on names of their own; user branches stay", async (t) => {
  const world = makeWorld(
    t,
    "git init -q -b main repo; cd repo; echo base > f.txt; git add -A; git commit -qm base; git branch task; git branch bus; git pack-refs --all",
  );
  const before = lookAtCheckout(world);
  const ran = await world.run([
    { id: "api", command: "echo ok > a.txt", allowed_files: ["a.txt"] },
    { id: "api.users", command: "echo ok > b.txt", allowed_files: ["b.txt"] },
  ]);
  assert.equal(ran.code, 0, ran.out + ran.err);
  await assertInvariants(world, "r", before);
});

test("case 11 branch-df-collision: a user branch called like our prefix refuses the run, naming both refs", async (t) => {
  const world = makeWorld(
    t,
    "git init -q -b main repo; cd repo; echo base > f.txt; git add -A; git commit -qm base; git branch busbar; git pack-refs --all",
  );
  const before = lookAtCheckout(world);
  const ran = await world.run([{ id: "a", command: "echo ok > a.txt" }]);
  assert.equal(ran.code, 2, ran.out + ran.err);
  assert.match(ran.err, /refs\/heads\/busbar\b/);
  assert.match(ran.err, /refs\/heads\/busbar\/r/);
  assert.deepEqual(lookAtCheckout(world), before);
});

test("case 13 parallel-add-and-prune: 16 workspaces at once while the repository is pruned and configured", async (t) => {
  const world = makeWorld(
    t,
    `git init -q -b main up; (cd up; for i in $(seq 400); do echo $i > f$i.txt; done; git add -A; git commit -qm base); git clone -q up repo`,
  );
  const write = world.agent("a", 'echo "$BUSBAR_TASK_ID" > "out.$BUSBAR_TASK_ID.txt"');
  const tasks = Array.from({ length: 16 }, (_, i) => ({
    id: `t${i}`,
    command: write,
    allowed_files: [`out.t${i}.txt`],
  }));
  const started = world.start(["run", world.plan(tasks, { workers: 16 })]);
  let over = false;
  const ended = started.ended.finally(() => {
    over = true;
  });
  // The user goes on working with the repository meanwhile; bounded by the run.
  for (let i = 0; !over && i < 2_000; i++) {
    world.sh(`git -C repo worktree prune; git -C repo config foo.bar ${i}`);
    await new Promise((resolve) => setImmediate(resolve));
  }
  const ran = await ended;
  assert.equal(ran.code, 0, ran.out + ran.err);
  const { run, tasks: states } = await world.state("r");
  assert.equal(run.landed.length, 16);
  for (const task of states.values()) assert.equal(task.attempts.length, 1, "no attempt was spent on a race");
  await assertInvariants(world, "r");
});

test("case 14 cleanup-eats-work: everything a failed attempt made can still be had after restart, gc and a new run", async (t) => {
  const world = makeWorld(
    t,
    "git init -q -b main repo; cd repo; echo base > f.txt; printf '.env\\nout/\\n' > .gitignore; git add -A; git commit -qm base",
  );
  const command = world.agent(
    "a",
    `echo agent says hello; echo committed > c.txt; git add c.txt; git commit -qm work
echo staged > s.txt; git add s.txt; echo untracked > u.txt; echo edit >> f.txt
mkdir -p out; echo report > out/report.txt; echo KEY=1 > .env
exit 1`,
  );
  const ran = await world.run([{ id: "a", command, allowed_files: ["*.txt"] }]);
  assert.equal(ran.code, 1, ran.out + ran.err);
  await world.down();
  const dry = await world.busctl(["gc", "--all", "--dry-run"]);
  assert.match(dry.out, /^r +1$/m, dry.err);
  const gc = await world.busctl(["gc", "--all", "--json"]);
  assert.equal(gc.code, 0, gc.out + gc.err);
  assert.equal(JSON.parse(gc.out).archived.length, 1);
  assert.equal((await world.busctl(["logs", "r/a"])).out, "agent says hello\n");
  assert.match((await world.busctl(["diff", "r/a"])).out, /\+untracked/);
  assert.match((await world.busctl(["patch", "r/a"])).out, /\+committed/);
  await world.run([{ id: "a", command: "echo again > c.txt", allowed_files: ["*.txt"] }], { run: "again" });
  const ref = "refs/busbar/attempts/r/a/1/v1";
  for (const [path, text] of Object.entries({
    "c.txt": "committed",
    "s.txt": "staged",
    "u.txt": "untracked",
    "f.txt": "base\nedit",
  }))
    assert.equal(world.git("cat-file", "blob", `${ref}:${path}`), text);
  const archive = "state/*/archive/r/*";
  assert.equal(world.sh(`cat ${archive}/left/out/report.txt ${archive}/left/.env`), "report\nKEY=1\n");
  assert.match(
    world.git("for-each-ref", "--format=%(contents:subject)", "refs/busbar/attempts/r/a/1/agent"),
    /^work$/m,
    "the agent's own commit is kept",
  );
  await assertInvariants(world, "again");
});

test("case 15 index-lock-stale-or-live: a dead lock does not lose the work, a live git is ended first", async (t) => {
  const world = makeWorld(t);
  const a = world.agent("a", `echo ok > a.txt\n: > "$(git rev-parse --git-path index.lock)"`);
  const b = world.agent(
    "b",
    `echo ok > b.txt; git add b.txt
GIT_EDITOR='sleep 30; true' git commit -q -a -m slow -e & echo $! > "$W/b.git.pid"
until [ -e "$(git rev-parse --git-path index.lock)" ]; do :; done`,
  );
  const ran = await world.run([
    { id: "a", command: a, allowed_files: ["a.txt"], acceptance: ["test -f a.txt"] },
    { id: "b", command: b, allowed_files: ["b.txt"], acceptance: ["test -f b.txt"] },
  ]);
  assert.equal(ran.code, 0, ran.out + ran.err);
  assert.equal(world.git("show", "busbar/r:b.txt"), "ok");
  assert.equal(isAlive(Number(readFileSync(join(world.W, "b.git.pid"), "utf8"))), false);
  await assertInvariants(world, "r");
});

test("case 15 index-lock-stale-or-live: a lock in the user's checkout is never removed", async (t) => {
  const world = makeWorld(t);
  world.sh(": > repo/.git/index.lock");
  const ran = await world.run([{ id: "a", command: "echo ok > a.txt" }]);
  assert.equal(ran.code, 0, ran.out + ran.err);
  assert.equal(existsSync(join(world.repo, ".git/index.lock")), true);
});

test("case 34 grandchild-holds-stdout: the attempt ends with its process, the left-over is ended and named", async (t) => {
  const world = makeWorld(t);
  const command = world.agent(
    "a",
    `echo ok > a.txt\nsleep 300 & echo $! > "$W/child.pid"
until [ "$(cat /proc/$!/comm)" = sleep ]; do read -rt 0.02 < <(:) || :; done\nprintf 'last line without newline'\nexit 0`,
  );
  const ran = await world.run([
    { id: "a", command, allowed_files: ["a.txt"], acceptance: ["test -f a.txt"], timeout: "120s" },
    {
      id: "b",
      command: "echo ok > b.txt",
      depends_on: ["a"],
      allowed_files: ["b.txt"],
      acceptance: ["bash -c 'sleep 300 & exit 0'"],
      timeout: "120s",
    },
  ]);
  assert.equal(ran.code, 0, ran.out + ran.err);
  assert.ok(ran.ms < 60_000, `took ${ran.ms} ms`);
  const logs = await world.busctl(["logs", "r/a"]);
  assert.match(logs.out, /last line without newline\n?$/);
  assert.equal(isAlive(Number(readFileSync(join(world.W, "child.pid"), "utf8"))), false);
  const records = await world.audit({ run: "r", task: "a" });
  const completed = records.find(
    (one) => one.event?.type === "proc.completed" && one.event.outcome.kind === "agent",
  );
  assert.ok(completed?.event?.type === "proc.completed");
  assert.match(JSON.stringify(completed.event.outcome.leftovers), /sleep 300/);
  await assertInvariants(world, "r");
});
