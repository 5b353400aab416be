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

/** A terminal: how wide it is, and how text is broken between words there. */
export interface Screen {
  width: number;
  wrap(text: string, width: number): string[];
}

/** A file or a pipe: nothing is broken. */
const ENDLESS: Screen = { width: Number.POSITIVE_INFINITY, wrap: (text) => [text] };

/** Text of a line of a file (from 1), for the excerpt under a message. */
export type LineOf = (file: string, line: number) => string | undefined;

/** Widest and narrowest excerpt; longer lines are cut round the place. */
const EXCERPT = 100;
const MIN_EXCERPT = 20;
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
  screen: Screen = ENDLESS,
): string {
  if (problems.length === 0) return "";
  const files = [...new Set(problems.map((p) => p.file))];
  const sorted = problems.toSorted(
    (a, b) => files.indexOf(a.file) - files.indexOf(b.file) || a.line - b.line || a.column - b.column,
  );
  const lines = sorted.flatMap((problem) =>
    renderProblem(problem, palette, lineOf?.(problem.file, problem.line), screen),
  );
  return `${[...lines, summary(problems, palette)].join("\n")}\n`;
}

function renderProblem(problem: Problem, c: Palette, text: string | undefined, screen: Screen): string[] {
  const { line, column, severity, hint } = problem;
  const head = headOf(problem, c, screen);
  const hints = (gap: string, room: number) =>
    hint === undefined ? [] : screen.wrap(hint, room).map((part) => gap + c.cyan(part));
  if (text === undefined || text.trim() === "") return [...head, ...hints("  ", screen.width - 2)];
  const number = String(line);
  const gap = c.dim(`  ${" ".repeat(number.length)} | `);
  const room = screen.width - number.length - 5;
  const cut = excerpt(text, column, Math.max(MIN_EXCERPT, Math.min(EXCERPT, room - 6)));
  const mark = `${gap}${" ".repeat(cut.column - 1)}${severity === "error" ? c.red("^") : c.yellow("^")}`;
  const beside = hint !== undefined && cut.column + 1 + hint.length <= room;
  return [
    ...head,
    c.dim(`  ${number} | `) + cut.text,
    beside ? `${mark} ${c.cyan(hint)}` : mark,
    ...(beside ? [] : hints(gap, room)),
  ];
}

function headOf(
  { file, line, column, severity, message, task }: Problem,
  c: Palette,
  screen: Screen,
): string[] {
  const place = `${file}:${line}:${column}:`;
  const tag = task ? ` [task ${task}]` : "";
  const kind = severity === "error" ? c.red(c.bold("error")) : c.yellow(c.bold("warning"));
  const lines = screen.wrap(`${place} ${severity}: ${message}${tag}`, screen.width - 2);
  return lines.map((text, i) => {
    const tagged = tag !== "" && text.endsWith(tag) ? text.slice(0, -tag.length) + c.dim(tag) : text;
    if (i > 0) return `  ${tagged}`;
    const plain = `${place} ${severity}`;
    return tagged.startsWith(plain) ? `${c.bold(place)} ${kind}${tagged.slice(plain.length)}` : tagged;
  });
}

function excerpt(text: string, column: number, width: number): { text: string; column: number } {
  const clean = text.replace(/\p{Cc}|\p{Cf}/gu, " ");
  if (clean.length <= width) return { text: clean, column: Math.min(column, clean.length + 1) };
  const from = Math.max(0, Math.min(column - 1 - Math.floor(width / 2), clean.length - width));
  const body = clean.slice(from, from + width);
  const before = from > 0 ? "..." : "";
  const after = from + width < clean.length ? "..." : "";
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
export function renderReport(report: PlanReport, palette: Palette = NO_COLOUR, screen = ENDLESS): string {
  if (report.waves.length === 0) return "";
  const c = palette;
  const tasks = report.waves.reduce((n, wave) => n + wave.length, 0);
  const width = String(report.waves.length).length;
  const waves = report.waves
    .slice(0, MAX_WAVES)
    .flatMap((ids, i) => hang(`  wave ${String(i + 1).padStart(width)}  `, listOf(ids, ", "), screen, c.dim));
  if (report.waves.length > MAX_WAVES)
    waves.push(c.dim(`  ... ${report.waves.length - MAX_WAVES} more waves`));
  const path = `${plural(report.criticalPath.length, "task")}: ${chain(report.criticalPath)}`;
  const { yes, why } = report.worthIt;
  const [verdict, paint] = yes ? (["worth it", c.green] as const) : (["not worth it", c.yellow] as const);
  const lines = [
    c.bold(`${plural(tasks, "task")} in ${plural(report.waves.length, "wave")}`),
    ...waves,
    ...hang("critical path  ", path, screen),
    ...hang("parallel       ", `${verdict}; ${why}`, screen).map((line) =>
      line.replace(`${verdict};`, `${paint(verdict)};`),
    ),
  ];
  if (report.overlaps.length > 0)
    lines.push(
      ...hang(
        "same files     ",
        `${plural(report.overlaps.length, "pair")} of tasks ${report.overlaps.length === 1 ? "goes" : "go"} one after the other`,
        screen,
      ),
    );
  if (report.tokens !== null) {
    const tokens = `about ${short(report.tokens)}, roughly, for one try of each task`;
    lines.push(...hang("tokens         ", tokens, screen));
  }
  return `${lines.join("\n")}\n`;
}

/** `head`, and `text` beside it, on as many lines as it needs. */
function hang(head: string, text: string, screen: Screen, paint = same): string[] {
  return screen
    .wrap(text, screen.width - head.length)
    .map((line, i) => (i === 0 ? paint(head) : " ".repeat(head.length)) + line);
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
