// What is said about a checked plan: its problems with their places, its shape, or both as JSON.

import { BusbarError } from "../../schemas/errors.ts";
import type { PlanReport } from "../../schemas/plan/check.ts";
import type { Problem } from "../../schemas/plan/nodes.ts";
import type { PlanFile } from "../../schemas/plan/parse.ts";
import { renderProblems, renderReport, type Screen } from "../../schemas/plan/render.ts";
import type { Ctx } from "./context.ts";
import type { CheckedPlan } from "./plan-check.ts";
import { plural } from "./render/time.ts";
import { wrap } from "./render/width.ts";

export function hasErrors(problems: readonly Problem[]): boolean {
  return problems.some((problem) => problem.severity === "error");
}

export function problemsText(checked: CheckedPlan, ctx: Ctx): string {
  return renderProblems(checked.problems, ctx.p, lineOf(checked.files), screenOf(ctx));
}

/** The shape of a sound plan. */
export function reportText(report: PlanReport, ctx: Ctx): string {
  return renderReport(report, ctx.p, screenOf(ctx));
}

function screenOf({ io }: Ctx): Screen {
  return { width: io.columns(), wrap };
}

function lineOf(files: readonly PlanFile[]): (file: string, line: number) => string | undefined {
  const lines = new Map<string, string[]>();
  return (name, line) => {
    const file = files.find((one) => one.name === name);
    if (file && !lines.has(name)) lines.set(name, file.text.split("\n"));
    return lines.get(name)?.[line - 1];
  };
}

/** The stable JSON of `busctl plan`. */
export function planJson(checked: CheckedPlan): Record<string, unknown> {
  const { report, draft, repo } = checked;
  return {
    ok: !hasErrors(checked.problems),
    run: draft?.run ?? null,
    repo: repo?.facts.commonDir ?? null,
    base: repo?.base.commit ?? null,
    base_name: repo?.base.name ?? null,
    gate: draft?.gate === undefined ? null : draft.gate === "none" ? "none" : "checks",
    tasks: draft?.tasks.length ?? 0,
    waves: report?.waves ?? [],
    critical_path: report?.criticalPath ?? [],
    speed_up: report?.speedUp ?? null,
    worth_it: report?.worthIt ?? null,
    overlaps: report?.overlaps ?? [],
    tokens: report?.tokens ?? null,
    problems: checked.problems,
  };
}

/** For verbs that need a sound plan. The problems have been printed, or go along in the JSON of the error. */
export function badPlan(checked: CheckedPlan): BusbarError {
  const n = checked.problems.filter((problem) => problem.severity === "error").length;
  const what = n === 0 ? "cannot be run" : `has ${plural(n, "error")}`;
  return new BusbarError("BAD_PLAN", `the plan ${what}; nothing was started`, { problems: checked.problems });
}
