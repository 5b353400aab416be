// The five invariants that hold after every run, whatever happened in it:
//
// 1. every value the integration branch had descends from the one before, and the tree that landed is the tree
//    that was proven;
// 2. the user's checkout is as it was: HEAD, branch, index, files, stash, config, hooks, refs not ours;
// 3. nothing an attempt produced is unreachable;
// 4. no lock, no MERGE_HEAD, no surplus worktree is left in the repository (survivors: world.ts);
// 5. `merged` means reachable from the branch, and every other end has a reason.

import assert from "node:assert/strict";
import { createHash } from "node:crypto";
import { lstatSync, readdirSync, readFileSync, readlinkSync } from "node:fs";
import { join } from "node:path";
import { snapshotRef } from "../../schemas/ids.ts";
import type { Task } from "../../schemas/task.ts";
import type { World } from "./world.ts";

/** What the user's checkout looks like; compare before and after. */
export interface Checkout {
  head: string;
  refs: string;
  index: string;
  files: string;
  stash: string;
  config: string;
  hooks: string;
}

export function lookAtCheckout(world: World): Checkout {
  const git = (script: string) => world.sh(`cd repo; ${script}`);
  const gitDir = join(world.repo, ".git");
  return {
    head: git("git symbolic-ref -q HEAD || git rev-parse HEAD; git rev-parse -q --verify HEAD || true"),
    refs: git(
      "git for-each-ref --format='%(refname) %(objectname)' | grep -vE '^refs/(busbar|heads/busbar)/' || true",
    ),
    index: git("git -c core.fsmonitor=false ls-files --stage --sparse -t 2>/dev/null || true"),
    files: digest(world.repo, (path) => path !== gitDir),
    stash: git("git stash list"),
    config: readFileSync(join(gitDir, "config"), "utf8"),
    hooks: digest(join(gitDir, "hooks"), () => true),
  };
}

/** Invariants 1, 3, 4 and 5 for one run, and 2 when `before` is given. */
export async function assertInvariants(world: World, run: string, before?: Checkout): Promise<void> {
  const state = await world.state(run);
  assertHistory(world, run, state.run.spec.base, [...state.tasks.values()], state.run.landed);
  for (const task of state.tasks.values()) assertTask(world, run, task);
  assertTidy(world);
  if (before) assert.deepEqual(lookAtCheckout(world), before, "invariant 2: the user's checkout was changed");
}

function assertHistory(
  world: World,
  run: string,
  base: string,
  tasks: Task[],
  landed: { task: string; commit: string; tree: string; attempt: number }[],
): void {
  let head = base;
  for (const landing of landed) {
    assert.equal(
      world.git("rev-parse", `${landing.commit}^`),
      head,
      "invariant 1: a landing does not follow the one before",
    );
    assert.equal(world.git("rev-parse", `${landing.commit}^{tree}`), landing.tree);
    const attempt = tasks
      .find((task) => task.spec.id === landing.task)
      ?.attempts.find((one) => one.attempt === landing.attempt);
    const verdicts = attempt?.verdicts.filter((one) => one.tree === landing.tree) ?? [];
    assert.ok(verdicts.length > 0, `invariant 1: ${landing.task} landed without a verdict on its tree`);
    // A check whose process was killed says nothing of the tree (infra) and is run again: the last word counts.
    const last = new Map(verdicts.map(({ tier, check, verdict }) => [`${tier} ${check}`, verdict]));
    assert.ok(
      verdicts.every((one) => one.verdict !== "fail") && [...last.values()].every((one) => one === "pass"),
      `invariant 1: ${landing.task} landed on a red tree`,
    );
    head = landing.commit;
  }
  if (landed.length > 0) assert.equal(world.git("rev-parse", `refs/heads/busbar/${run}`), head);
}

function assertTask(world: World, run: string, task: Task): void {
  const { state, spec } = task;
  for (const attempt of task.attempts)
    for (const snapshot of attempt.snapshots.filter((one) => one.version > 0)) {
      const ref = snapshotRef({ run, task: spec.id, attempt: attempt.attempt }, snapshot.version);
      assert.equal(
        world.git("rev-parse", ref),
        snapshot.commit,
        "invariant 3: a snapshot is not kept by its ref",
      );
    }
  if (state.name === "passed" && state.merged?.commit)
    world.git("merge-base", "--is-ancestor", state.merged.commit, `refs/heads/busbar/${run}`);
  if (state.name === "failed") assert.ok(state.evidence.summary, "invariant 5: an end without a reason");
  if (state.name === "blocked" && state.needs.kind === "retries_used")
    assert.ok(state.needs.evidence.summary, "invariant 5: an end without a reason");
}

function assertTidy(world: World): void {
  const left = world.sh(
    "cd repo; find .git -name '*.lock' -not -path '.git/busbar/*'; find .git -name MERGE_HEAD; git fsck --connectivity-only 2>&1 | grep -E '^(error|missing|broken)' || true",
  );
  assert.equal(left, "", "invariant 4: something was left in the repository");
}

function digest(dir: string, take: (path: string) => boolean): string {
  const hash = createHash("sha256");
  const walk = (at: string): void => {
    for (const name of readdirSync(at).sort()) {
      const path = join(at, name);
      if (!take(path)) continue;
      const stat = lstatSync(path);
      hash.update(`${path} ${stat.mode}\n`);
      if (stat.isSymbolicLink()) hash.update(readlinkSync(path));
      else if (stat.isDirectory()) walk(path);
      else if (stat.isFile()) hash.update(readFileSync(path));
    }
  };
  try {
    walk(dir);
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== "ENOENT") throw error;
  }
  return hash.digest("hex");
}
