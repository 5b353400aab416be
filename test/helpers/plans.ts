// Reading and checking plans in tests, with problems as short lines: `error unknown_key p.yaml:2:55 message`.

import { readdirSync, readFileSync, statSync } from "node:fs";
import type { PlanIo } from "../../bus/ctl/plan-files.ts";
import type { BaseFile } from "../../schemas/plan/base-index.ts";
import { checkPlan, type PlanReport } from "../../schemas/plan/check.ts";
import type { PlanDraft } from "../../schemas/plan/draft.ts";
import type { Problem } from "../../schemas/plan/nodes.ts";
import { type PlanFile, parsePlan } from "../../schemas/plan/parse.ts";

export interface Checked {
  spec: PlanDraft | undefined;
  report: PlanReport | undefined;
  problems: Problem[];
  errors: string[];
  warnings: string[];
}

/** Parses and checks one text, with no common gate unless it says so itself. */
export function check(
  text: string,
  options: { kind?: PlanFile["kind"]; files?: string[]; profiles?: string[]; gate?: "none" | "written" } = {},
): Checked {
  const kind = options.kind ?? (/^\s*[[{]/.test(text) ? "json" : "yaml");
  return checkFiles([{ name: `p.${kind}`, text, kind }], options);
}

export function checkFiles(
  files: PlanFile[],
  options: { files?: string[]; profiles?: string[]; gate?: "none" | "written" } = {},
): Checked {
  const { spec, problems } = parsePlan(files, options.gate === "written" ? {} : { gate: "none" });
  const baseFiles: BaseFile[] | undefined = options.files?.map((path) => ({ path, size: 100 }));
  const profiles = options.profiles ?? ["codex", "claude", "gemini"];
  const report = spec && checkPlan(spec, { profiles, ...(baseFiles ? { baseFiles } : {}) });
  const all = [...problems, ...(report?.problems ?? [])];
  return {
    spec,
    report,
    problems: all,
    errors: lines(all.filter((p) => p.severity === "error")),
    warnings: lines(all.filter((p) => p.severity === "warning")),
  };
}

function lines(problems: Problem[]): string[] {
  return problems.map(
    (p) => `${p.code} ${p.file}:${p.line}:${p.column} ${p.message}${p.hint ? ` (${p.hint})` : ""}`,
  );
}

export function codes(problems: readonly Problem[]): string[] {
  return problems.map((p) => p.code);
}

/** A JSON plan of tasks that run a command; each task needs only what the test is about. */
export function planOf(...tasks: Record<string, unknown>[]): string {
  const filled = tasks.map((task) => ({
    command: "true",
    allowed_files: [`${task.id}.txt`],
    acceptance: ["true"],
    ...task,
  }));
  return JSON.stringify({ gate: "none", tasks: filled });
}

/** The real file system, for plan-files. */
export const diskIo: PlanIo = {
  kind(path) {
    const found = statSync(path, { throwIfNoEntry: false });
    if (!found) return undefined;
    return found.isFile() ? "file" : found.isDirectory() ? "directory" : "other";
  },
  list: (path) =>
    readdirSync(path, { withFileTypes: true }).map((d) => ({
      name: d.name,
      kind: d.isFile() ? "file" : d.isDirectory() ? "directory" : d.isSymbolicLink() ? "link" : "other",
    })),
  read: (path) => readFileSync(path, "utf8"),
};

export function fixture(name: string): string {
  return readFileSync(new URL(`../fixtures/plans/${name}`, import.meta.url), "utf8");
}
