// `copy` of a plan against the checkout that it is copied from: what is not there, or is in the commit anyway, is said
// before anything starts.

import { lstatSync } from "node:fs";
import { join } from "node:path";
import type { BaseFile } from "../../schemas/plan/base-index.ts";
import type { PlanDraft } from "../../schemas/plan/draft.ts";
import { type Problem, Problems } from "../../schemas/plan/nodes.ts";

export function copyProblems(
  draft: PlanDraft,
  topLevel: string | null,
  baseFiles: readonly BaseFile[],
): Problem[] {
  const problems = new Problems();
  for (const [i, path] of (draft.copy ?? []).entries()) {
    const place = draft.where("copy", i);
    if (topLevel === null) {
      problems.error("bad_value", place, "this repository has no checkout to copy from");
    } else if (!lstatSync(join(topLevel, path), { throwIfNoEntry: false })) {
      problems.error("bad_value", place, `${path} is not in your checkout (${topLevel})`);
    } else if (baseFiles.some((file) => file.path === path || file.path.startsWith(`${path}/`))) {
      const hint = "what is committed is in every workspace; take it off the list";
      problems.error("bad_value", place, `${path} is in the commit that agents start from`, { hint });
    }
  }
  return problems.list;
}
