// `--into BRANCH`: the scheduler moves that branch forward when every task is merged, never one that is checked
// out and never one with commits of its own, and says what came of it (`run.into`). Here it is looked at before
// the run, and read after it.

import { BusbarError } from "../../schemas/errors.ts";
import { showId } from "../../schemas/ids.ts";
import { git } from "../git/run.ts";

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
