// Moves refs of the user's repository by compare-and-swap. Only refs/busbar/*, refs/heads/busbar/* and, when
// asked (--into), one branch that nobody has checked out. No lock is removed here, nothing is pruned.

import { existsSync, readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { refuseClash } from "../bus/git/ref-clash.ts";
import { BusbarError, isCode } from "../schemas/errors.ts";
import { faultPoint } from "../schemas/fault-points.ts";
import { baseRef, integrationRef, isOid } from "../schemas/ids.ts";
import { type Control, controlGit, repoGit } from "./control.ts";

export type Moved = "moved" | "stale";

/** The object a ref names, or null where it is not. */
export async function readRef(control: Control, ref: string): Promise<string | null> {
  const found = await repoGit(control, ["rev-parse", "-q", "--verify", "--end-of-options", ref], {
    okExits: [0, 1, 128],
  });
  const oid = found.stdout.trim();
  return found.exit === 0 && isOid(oid) ? oid : null;
}

/** A ref that must not be there yet. */
export function createRef(control: Control, ref: string, oid: string): Promise<Moved> {
  return moveRef(control, ref, zeros(control), oid);
}

/** "stale": the ref did not name `oldOid`. Other trouble (a lock held for seconds) is GIT_FAILED. */
export async function moveRef(control: Control, ref: string, oldOid: string, newOid: string): Promise<Moved> {
  try {
    faultPoint("scheduler.ref.before-move");
    await repoGit(control, ["update-ref", "--no-deref", ref, newOid, oldOid]);
    return "moved";
  } catch (error) {
    if (!isCode(error, "GIT_FAILED")) throw error;
    const now = (await readRef(control, ref)) ?? zeros(control);
    if (now !== oldOid) return "stale";
    throw error;
  }
}

/** The first lock file that somebody holds on one of `refs`. */
export function heldLock(control: Control, refs: readonly string[]): string | undefined {
  return refs.map((ref) => join(control.repo, `${ref}.lock`)).find((file) => existsSync(file));
}

export function zeros(control: Control): string {
  return "0".repeat(control.objectFormat === "sha256" ? 64 : 40);
}

/**
 * Makes the branch of a run at `base` and the ref that keeps the base alive; gives the branch's head.
 * Error: REF_CLASH where a ref of the user's came in the way since the preflight (case 11).
 */
export async function ensureIntegrationBranch(control: Control, run: string, base: string): Promise<string> {
  try {
    // The base ref first: it marks the branch as ours (preflight).
    await createRef(control, baseRef(run), base);
    await createRef(control, integrationRef(run), base);
  } catch (error) {
    await refuseClash({ gitDir: control.repo }, run);
    throw error;
  }
  const head = await readRef(control, integrationRef(run));
  if (head === null)
    throw new BusbarError("GIT_FAILED", `${integrationRef(run)} is not there after it was made`, { run });
  return head;
}

/** Whether `ancestor` is in the history of `commit`. */
export async function isAncestor(control: Control, ancestor: string, commit: string): Promise<boolean> {
  const { exit } = await controlGit(control, ["merge-base", "--is-ancestor", ancestor, commit], {
    okExits: [0, 1],
  });
  return exit === 0;
}

/**
 * Moves `branch` forward to `commit` (--into). A branch that is not there is made.
 * Errors: BRANCH_CHECKED_OUT (its checkout would look changed, case 50), NOT_FAST_FORWARD, STALE_HEAD.
 */
export async function ffBranch(control: Control, branch: string, commit: string): Promise<void> {
  const ref = `refs/heads/${branch}`;
  const place = await checkedOutAt(control, ref);
  if (place !== null) {
    throw new BusbarError(
      "BRANCH_CHECKED_OUT",
      `${branch} is checked out in ${place}; run there: git merge --ff-only ${commit}`,
      {
        branch,
        path: place,
        commit,
      },
    );
  }
  const old = await readRef(control, ref);
  if (old === commit) return;
  if (old !== null && !(await isAncestor(control, old, commit))) {
    throw new BusbarError("NOT_FAST_FORWARD", `${branch} (${old}) is not an ancestor of ${commit}`, {
      branch,
      old,
      commit,
    });
  }
  if ((await moveRef(control, ref, old ?? zeros(control), commit)) === "stale")
    throw new BusbarError("STALE_HEAD", `${branch} moved while it was brought forward`, { branch });
}

/** The worktree that has a branch checked out (a rebase or bisection on it counts), or null. */
export async function checkedOutAt(control: Control, ref: string): Promise<string | null> {
  const { stdout } = await repoGit(control, ["worktree", "list", "--porcelain", "-z"]);
  for (const entry of stdout.split("\0\0")) {
    const fields = entry.split("\0");
    const path = fields.find((field) => field.startsWith("worktree "))?.slice("worktree ".length);
    if (path !== undefined && fields.includes(`branch ${ref}`) && !fields.includes("bare")) return path;
  }
  return busyAt(control.repo, ref);
}

/** Files in which git notes the branch that it will come back to. */
const NOTES = ["rebase-merge/head-name", "rebase-apply/head-name", "BISECT_START"];

function busyAt(commonDir: string, ref: string): string | null {
  const linked = join(commonDir, "worktrees");
  const dirs = [
    commonDir,
    ...(existsSync(linked) ? readdirSync(linked).map((name) => join(linked, name)) : []),
  ];
  for (const dir of dirs) {
    for (const note of NOTES) {
      const file = join(dir, note);
      const name = existsSync(file) ? readFileSync(file, "utf8").trim() : "";
      if (name === ref || `refs/heads/${name}` === ref) return dir;
    }
  }
  return null;
}
