// Problems and reports as text for people. Pure: colours come in as a palette, lines of files through a function.

import type { PlanReport } from "./check.ts";
import type { Problem } from "./nodes.ts";

/** Each wraps a text in a colour; on something that is no terminal they return it as it is. */
export interface Palette {
  bold(text: string): string;
  dim(text: string): string;
  red(text: string): string;
  yellow(text: string): string;
  green(text: string): string;
  cyan(text: string): string;
}

const same = (text: string): string => text;
export const NO_COLOUR: Palette = { bold: same, dim: same, red: same, yellow: same, green: same, cyan: same };

/** Text of a line of a file (from 1), for the excerpt under a message. */
export type LineOf = (file: string, line: number) => string | undefined;

/** Widest excerpt; longer lines are cut round the place. */
const EXCERPT = 100;
const MAX_WAVES = 12;
const MAX_IDS = 10;

/**
 * `plan.yaml:3:45: error: unknown key "allowed_file" [task a]`, the line with a mark under the place, and the hint.
 * Ordered by file and place; a count at the end. Empty for no problems.
 */
export function renderProblems(
  problems: readonly Problem[],
  palette: Palette = NO_COLOUR,
  lineOf?: LineOf,
): string {
  if (problems.length === 0) return "";
  const files = [...new Set(problems.map((p) => p.file))];
  const sorted = problems.toSorted(
    (a, b) => files.indexOf(a.file) - files.indexOf(b.file) || a.line - b.line || a.column - b.column,
  );
  const lines = sorted.flatMap((problem) =>
    renderProblem(problem, palette, lineOf?.(problem.file, problem.line)),
  );
  return `${[...lines, summary(problems, palette)].join("\n")}\n`;
}

function renderProblem(problem: Problem, c: Palette, text: string | undefined): string[] {
  const { file, line, column, severity, message, hint, task } = problem;
  const kind = severity === "error" ? c.red(c.bold("error")) : c.yellow(c.bold("warning"));
  const head = `${c.bold(`${file}:${line}:${column}:`)} ${kind}: ${message}${task ? c.dim(` [task ${task}]`) : ""}`;
  if (text === undefined || text.trim() === "") return hint ? [head, `  ${c.cyan(hint)}`] : [head];
  const number = String(line);
  const blank = " ".repeat(number.length);
  const cut = excerpt(text, column);
  const mark = `${" ".repeat(cut.column - 1)}${severity === "error" ? c.red("^") : c.yellow("^")}`;
  return [
    head,
    c.dim(`  ${number} | `) + cut.text,
    c.dim(`  ${blank} | `) + mark + (hint ? ` ${c.cyan(hint)}` : ""),
  ];
}

function excerpt(text: string, column: number): { text: string; column: number } {
  const clean = text.replace(/\p{Cc}|\p{Cf}/gu, " ");
  if (clean.length <= EXCERPT) return { text: clean, column: Math.min(column, clean.length + 1) };
  const from = Math.max(0, Math.min(column - 1 - EXCERPT / 2, clean.length - EXCERPT));
  const body = clean.slice(from, from + EXCERPT);
  const before = from > 0 ? "..." : "";
  const after = from + EXCERPT < clean.length ? "..." : "";
  return { text: before + body + after, column: column - from + before.length };
}

function summary(problems: readonly Problem[], c: Palette): string {
  const errors = problems.filter((p) => p.severity === "error").length;
  const warnings = problems.length - errors;
  const parts = [
    ...(errors > 0 ? [c.red(plural(errors, "error"))] : []),
    ...(warnings > 0 ? [c.yellow(plural(warnings, "warning"))] : []),
  ];
  return parts.join(", ");
}

/** Waves, critical path, best speed-up, the verdict on going parallel, and the estimate of tokens; empty when no task can run. */
export function renderReport(report: PlanReport, palette: Palette = NO_COLOUR): string {
  if (report.waves.length === 0) return "";
  const c = palette;
  const tasks = report.waves.reduce((n, wave) => n + wave.length, 0);
  const width = String(report.waves.length).length;
  const waves = report.waves
    .slice(0, MAX_WAVES)
    .map((ids, i) => `  ${c.dim(`wave ${String(i + 1).padStart(width)}`)}  ${listOf(ids, ", ")}`);
  if (report.waves.length > MAX_WAVES)
    waves.push(c.dim(`  ... ${report.waves.length - MAX_WAVES} more waves`));
  const verdict = report.worthIt.yes ? c.green("worth it") : c.yellow("not worth it");
  const lines = [
    c.bold(`${plural(tasks, "task")} in ${plural(report.waves.length, "wave")}`),
    ...waves,
    `critical path  ${plural(report.criticalPath.length, "task")}: ${chain(report.criticalPath)}`,
    `parallel       ${verdict}: ${report.worthIt.why}`,
  ];
  if (report.overlaps.length > 0)
    lines.push(
      `same files     ${plural(report.overlaps.length, "pair")} of tasks ${report.overlaps.length === 1 ? "goes" : "go"} one after the other`,
    );
  if (report.tokens !== null)
    lines.push(`tokens         about ${short(report.tokens)}, roughly, for one try of each task`);
  return `${lines.join("\n")}\n`;
}

function listOf(ids: readonly string[], between: string): string {
  if (ids.length <= MAX_IDS) return ids.join(between);
  return `${ids.slice(0, MAX_IDS).join(between)} and ${ids.length - MAX_IDS} more`;
}

function chain(ids: readonly string[]): string {
  if (ids.length <= MAX_IDS) return ids.join(" -> ");
  return `${ids.slice(0, 5).join(" -> ")} -> ... -> ${ids.slice(-4).join(" -> ")}`;
}

function plural(n: number, word: string): string {
  return `${n} ${word}${n === 1 ? "" : "s"}`;
}

function short(n: number): string {
  if (n >= 1_000_000) return `${(n / 1_000_000).toFixed(1)}M`;
  return n >= 1_000 ? `${Math.round(n / 1_000)}k` : String(n);
}
