// Branches of runs that the state does not know, for people: a state that came back older than the repository.

import { branchesOfNoRun } from "../git/run-branches.ts";
import { commonDirOf } from "./connect.ts";
import type { Ctx } from "./context.ts";
import { wrap } from "./render/width.ts";

/** A help only: none where git cannot be asked. */
export async function unknownBranches(ctx: Ctx, runs: readonly { run: string }[]): Promise<string[]> {
  try {
    return await branchesOfNoRun(
      await commonDirOf(ctx.dir),
      runs.map(({ run }) => run),
    );
  } catch {
    return [];
  }
}

export function unknownBranchLines(ctx: Ctx, branches: readonly string[]): string[] {
  return branches.flatMap((branch) => {
    const line = `branch ${branch} belongs to no run that this state knows; the same plan under the same name takes over what landed there`;
    return wrap(line, ctx.io.columns()).map((part) => ctx.p.yellow(part));
  });
}
