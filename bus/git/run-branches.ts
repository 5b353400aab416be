// Integration branches in the repository, whatever any state says of them.

import { integrationBranch } from "../../schemas/ids.ts";
import { git } from "./run.ts";

/** Branches `busbar/*` of none of `runs`: of a run that a lost state knew. Nobody removes them but a person. */
export async function branchesOfNoRun(commonDir: string, runs: Iterable<string>): Promise<string[]> {
  const options = { gitDir: commonDir, trust: [commonDir] };
  const found = await git(["for-each-ref", "--format=%(refname:lstrip=2)", "refs/heads/busbar/"], options);
  const known = new Set([...runs].map(integrationBranch));
  return found.stdout.split("\n").filter((branch) => branch !== "" && !known.has(branch));
}
