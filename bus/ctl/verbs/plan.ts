// `plan`: checks and shows; starts nothing, changes nothing.

import type { BusbarError } from "../../../schemas/errors.ts";
import { type Args, type Ctx, say, sayJson, tell } from "../context.ts";
import { EXIT } from "../exit-codes.ts";
import { readPlan } from "../plan-check.ts";
import { hasErrors, planJson, problemsText, reportText } from "../plan-said.ts";
import { uncommittedFiles, uncommittedNote } from "../uncommitted.ts";
import { unmergedBranches, unmergedNote } from "../unmerged.ts";

export async function run(ctx: Ctx, args: Args): Promise<number> {
  const path = args.word(0) ?? "";
  const checked = await readPlan(ctx, { path, repoGiven: args.has("repo"), needRepo: false });
  const bad = hasErrors(checked.problems);
  const { draft, repo } = checked;
  const unmerged =
    draft && repo ? await unmergedBranches(repo.facts.commonDir, repo.base.commit, draft.run) : [];
  const uncommitted = repo ? await uncommittedFiles(repo.facts, checked.files) : [];
  if (ctx.json) await sayJson(ctx, { ...planJson(checked), unmerged, uncommitted });
  else {
    await ctx.io.out(problemsText(checked, ctx));
    if (checked.problems.length > 0 && checked.report && !bad) await say(ctx, "");
    if (checked.report && !bad) await ctx.io.out(reportText(checked.report, ctx));
    const base = repo?.base.name ?? "";
    const notes = bad ? [] : [unmergedNote(unmerged, base), uncommittedNote(uncommitted, base)];
    for (const note of notes) if (note !== undefined) await tell(ctx, note, ctx.p.yellow);
    if (checked.noRepo && !bad) await tell(ctx, noRepoNote(checked.noRepo), ctx.p.yellow);
    if (checked.draft?.gate === "none" && !bad)
      await tell(ctx, "gate: none - only each task's own acceptance is proof", ctx.p.yellow);
  }
  return bad ? EXIT.refused : EXIT.ok;
}

/** A plan may be checked anywhere; that it could not be run here is said. */
function noRepoNote(fault: BusbarError): string {
  return `no commit to check against: file patterns were not compared with files. \`busctl run\` refuses it here: ${fault.message}`;
}
