// `--into BRANCH`: the scheduler moves that branch forward when every task is merged, never one that is checked
// out and never one with commits of its own, and says what came of it (`run.into`). Here it is looked at before
// the run, and read after it.

import { BusbarError } from "../../schemas/errors.ts";
import { showId } from "../../schemas/ids.ts";
import { git } from "../git/run.ts";

/**
 * A warning when the branch cannot be moved from `base` on as things stand. Throws USAGE for what is no name of a branch.
 */
export async function checkInto(
  commonDir: string,
  branch: string,
  base: string,
): Promise<string | undefined> {
  const named = await git(["check-ref-format", `refs/heads/${branch}`], {
    gitDir: commonDir,
    okExits: [0, 1],
  });
  if (named.exit !== 0 || branch.startsWith("-")) {
    throw new BusbarError("USAGE", `--into: ${showId(branch)} is not a name for a branch`);
  }
  const place = await checkedOutAt(commonDir, branch);
  if (place !== undefined)
    return `${branch} is checked out in ${place} and will not be moved: busbar never touches a checkout; run \`git merge --ff-only\` there at the end`;
  return (await isBehind(commonDir, branch, base))
    ? undefined
    : `${branch} has commits that the base has not and will not be moved: start from it (--base ${branch}), or name another branch`;
}

/** Also one that is not there yet, and where it cannot be found out: the end says what came of it. */
async function isBehind(commonDir: string, branch: string, base: string): Promise<boolean> {
  const { exit } = await git(["merge-base", "--is-ancestor", `refs/heads/${branch}`, base], {
    gitDir: commonDir,
    okExits: [0, 1, 128],
  });
  return exit !== 1;
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
