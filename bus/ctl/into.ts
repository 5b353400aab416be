// `--into BRANCH`: the scheduler moves that branch forward when every task is merged, never one that is checked
// out and never one with commits of its own. Here it is looked at before the run, and what came of it after.

import { BusbarError } from "../../schemas/errors.ts";
import { showId } from "../../schemas/ids.ts";
import { git } from "../git/run.ts";
import { pause } from "./daemons.ts";

/** The scheduler moves the branch right after the last landing. */
const MOVE_TIMEOUT_MS = 5_000;
const LOOK_AGAIN_MS = 100;

/** A warning when the branch cannot be moved as things stand. Throws USAGE for what is no name of a branch. */
export async function checkInto(commonDir: string, branch: string): Promise<string | undefined> {
  const named = await git(["check-ref-format", `refs/heads/${branch}`], {
    gitDir: commonDir,
    okExits: [0, 1],
  });
  if (named.exit !== 0 || branch.startsWith("-")) {
    throw new BusbarError("USAGE", `--into: ${showId(branch)} is not a name for a branch`);
  }
  const place = await checkedOutAt(commonDir, branch);
  return place === undefined
    ? undefined
    : `${branch} is checked out in ${place} and will not be moved: busbar never touches a checkout; run \`git merge --ff-only\` there at the end`;
}

/** undefined: the branch is at `head`. Else why it is not, and the command that brings it there. */
export async function intoFault(
  commonDir: string,
  branch: string,
  head: string,
): Promise<string | undefined> {
  const end = performance.now() + MOVE_TIMEOUT_MS;
  for (;;) {
    const at = await git(["rev-parse", "-q", "--verify", `refs/heads/${branch}`], {
      gitDir: commonDir,
      okExits: [0, 1],
    });
    const commit = at.stdout.trim();
    if (commit === head) return undefined;
    const place = await checkedOutAt(commonDir, branch);
    if (place !== undefined) return `it is checked out in ${place}; there: git merge --ff-only ${head}`;
    if (commit !== "" && !(await isBehind(commonDir, commit, head))) {
      return `it has commits of its own; on it: git merge ${head}`;
    }
    if (performance.now() > end) return `it was not moved in time; then: git branch -f ${branch} ${head}`;
    await pause(LOOK_AGAIN_MS);
  }
}

async function isBehind(commonDir: string, commit: string, head: string): Promise<boolean> {
  const answer = await git(["merge-base", "--is-ancestor", commit, head], {
    gitDir: commonDir,
    okExits: [0, 1],
  });
  return answer.exit === 0;
}

async function checkedOutAt(commonDir: string, branch: string): Promise<string | undefined> {
  const { stdout } = await git(["worktree", "list", "--porcelain", "-z"], { gitDir: commonDir });
  for (const entry of stdout.split("\0\0")) {
    const fields = entry.split("\0");
    if (fields.includes(`branch refs/heads/${branch}`) && !fields.includes("bare")) {
      return fields.find((field) => field.startsWith("worktree "))?.slice("worktree ".length);
    }
  }
  return undefined;
}
