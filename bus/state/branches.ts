// The branches of runs compared with what the journal says landed on them. What people put on top is theirs; a branch that does
// not hold the last recorded landing was moved by another hand, or the repository was restored from an older copy.

import type { BranchFault } from "../../schemas/answers.ts";
import { integrationBranch } from "../../schemas/ids.ts";
import type { Base } from "./base.ts";
import type { BusbarRefs, Repository } from "./former.ts";

export async function compareBranches(
  base: Base,
  { branches }: BusbarRefs,
  { contains }: Pick<Repository, "contains">,
): Promise<BranchFault[]> {
  const given = new Set(base.gaps.flatMap(({ former }) => former?.runs ?? []));
  const faults: BranchFault[] = [];
  for (const [id, tip] of branches) {
    const branch = integrationBranch(id);
    const run = base.run(id);
    if (!run) {
      if (!given.has(id)) faults.push({ branch, kind: "unknown", why: "belongs to no run of this state" });
      continue;
    }
    const last = run.landed.at(-1);
    if (!last || tip === run.head || (await contains(tip, run.head))) continue;
    const older = await contains(run.head, tip);
    const where = older ? "is older than" : "does not hold";
    const why = `${where} the last landing: it is at ${tip.slice(0, 12)}, task ${last.task} landed ${run.head.slice(0, 12)} on ${last.at}`;
    faults.push({ branch, kind: older ? "older" : "other", why });
  }
  return faults;
}
