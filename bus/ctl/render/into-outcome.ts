// What the state of a run says about `into`. Pure.

import type { RunSummary } from "../../../schemas/methods.ts";
import type { Run } from "../../../schemas/task.ts";

/** What became of `into`, once every task is merged; undefined: nothing was asked for, or it is not time yet. */
export function intoOutcome(run: Run, summary: RunSummary): { moved: boolean; why: string } | undefined {
  const branch = run.spec.into;
  if (branch === undefined || summary.merged < summary.total) return undefined;
  if (run.into?.head === summary.head) return run.into;
  return {
    moved: false,
    why: `nobody has said why; on a clean ${branch}: git merge --ff-only ${summary.head}`,
  };
}

/** Every task is merged, and what became of `into` will be told in a moment. */
export function awaitsInto(run: Run, summary: RunSummary): boolean {
  return run.spec.into !== undefined && summary.merged === summary.total && run.into?.head !== summary.head;
}
