// One task on one screen: all that a person needs to decide about it. Pure.

import { limitsLine } from "../../../schemas/limit-words.ts";
import type { AttemptRecord, Run, Task } from "../../../schemas/task.ts";
import type { Verdict } from "../../../schemas/verdict.ts";
import { adviceFor } from "./advice.ts";
import { type Palette, paintState } from "./palette.ts";
import { limitHits, limitsMissing, sandboxesOf } from "./report.ts";
import { doubtNote, rowOf, timeOf } from "./row.ts";
import { clockTime, duration, millis, plural } from "./time.ts";
import { earlierName } from "./verdicts-used.ts";
import { cut, harmless, oneLine, wrap } from "./width.ts";

/** Lines of a log's end that are shown. */
const LOG_LINES = 12;
/** Lines on the screen of one value, and of one line of a log. */
const VALUE_LINES = 4;
const LOG_LINE_LINES = 3;

export function taskScreen(task: Task, run: Run, now: number, p: Palette, width: number): string[] {
  const row = rowOf(task);
  const state = paintState(row.shown, row.shown, p);
  const time = timeOf(row, now);
  const word = row.shown === "merged" ? "took" : "for";
  const facts = [row.detail, time === undefined ? "" : `${word} ${duration(time)}`].filter(
    (part) => part !== "",
  );
  return [
    `${p.bold(`${task.run}/${task.spec.id}`)}  ${state}  ${p.dim(facts.join(", "))}`,
    ...(row.note === "" ? [] : indent(wrap(oneLine(row.note), width - 2, VALUE_LINES))),
    ...specLines(task, run, p, width),
    ...attemptLines(task, now, p, width),
    ...evidenceLines(task, p, width),
    ...adviceLines(task, p, width),
  ];
}

function section(title: string, p: Palette): string[] {
  return ["", p.bold(title)];
}

function specLines(task: Task, run: Run, p: Palette, width: number): string[] {
  const { spec } = task;
  const limits = limitsLine(spec.limits);
  const list = (values: readonly string[]) => values.map(oneLine).join(", ");
  const rows: [string, string][] = [
    ["goal", oneLine(spec.goal)],
    [
      "agent",
      spec.command === undefined
        ? [spec.agent.use, spec.agent.model].filter(Boolean).join(" ")
        : oneLine(spec.command),
    ],
    ["depends on", list(spec.depends_on)],
    ["may change", list([...spec.allowed_files, ...task.granted.map((path) => `${path} (granted)`)])],
    ["never", list(spec.forbidden_files)],
    ["acceptance", list(spec.acceptance.map((a) => a.run ?? a.text ?? ""))],
    [
      "limits",
      `${duration(spec.timeout_s * 1000)}, ${plural(spec.retries, "retry", "retries")}${limits === "" ? "" : `, ${limits}`}`,
    ],
    ["sandbox", sandboxesOf(task).map(oneLine).join("; ")],
    ["not in force", list(limitsMissing(task))],
    [
      "place",
      `wave ${task.wave + 1}, priority ${spec.priority}, base ${run.spec.base_name} ${run.spec.base.slice(0, 10)}`,
    ],
    ["feedback", task.feedback === undefined ? "" : oneLine(task.feedback)],
  ];
  const shown = rows.filter(([, value]) => value !== "");
  const names = Math.max(...shown.map(([name]) => name.length));
  const lines = shown.flatMap(([name, value]) =>
    wrap(value, width - names - 4, VALUE_LINES).map(
      (line, i) => `  ${p.dim((i === 0 ? name : "").padEnd(names))}  ${line}`,
    ),
  );
  return [...section("Spec", p), ...lines];
}

function attemptLines(task: Task, now: number, p: Palette, width: number): string[] {
  if (task.attempts.length === 0) return [];
  const lines = section("Attempts", p);
  for (const attempt of task.attempts) lines.push(...oneAttempt(attempt, now, p, width));
  const { state } = task;
  if (state.name === "running" && state.doubt)
    lines.push(p.yellow(cut(`      ${oneLine(doubtNote(state.doubt, state.lease_until))}`, width)));
  const last = task.attempts.at(-1);
  if (last) lines.push(p.dim(`  workspace ${last.workspace}`));
  return lines;
}

function oneAttempt(attempt: AttemptRecord, now: number, p: Palette, width: number): string[] {
  const took = duration(millis(attempt.ended, now) - millis(attempt.started));
  const result = attempt.result ?? "runs";
  const snapshot = attempt.snapshots.at(-1);
  const changed =
    snapshot && snapshot.version > 0 ? `, ${plural(snapshot.changed_count, "path")} changed` : "";
  const lines = [
    `  #${attempt.attempt}  ${clockTime(millis(attempt.started))}  ${took}  ${result === "passed" ? p.green(result) : result}${changed}`,
  ];
  for (const hit of limitHits(attempt))
    lines.push(...wrap(oneLine(hit), width - 6, VALUE_LINES).map((line) => p.yellow(`      ${line}`)));
  for (const verdict of attempt.verdicts) lines.push(cut(verdictLine(verdict, snapshot?.tree, p), width));
  if (attempt.evidence) lines.push(`      ${cut(oneLine(attempt.evidence.summary), width - 6)}`);
  if (attempt.inputs_changed && attempt.inputs_changed.length > 0) {
    lines.push(
      p.yellow(cut(`      inputs changed since: ${attempt.inputs_changed.map(oneLine).join(", ")}`, width)),
    );
  }
  const { progress } = attempt;
  if (progress && !attempt.ended) {
    lines.push(p.dim(cut(`      says: ${oneLine(`${progress.status} ${progress.message}`)}`, width)));
  }
  return lines;
}

/** `own`: the tree that the attempt left; a check of its candidate ran on another one where others had landed. */
function verdictLine(verdict: Verdict, own: string | undefined, p: Palette): string {
  const word = { pass: p.green("pass"), fail: p.red("fail"), infra: p.yellow("infra") }[verdict.verdict];
  const exit = verdict.exit === null || verdict.exit === 0 ? "" : ` exit ${verdict.exit}`;
  const merged = verdict.tier === "canary" || own === undefined || verdict.tree === own ? "" : " merged";
  const { cached, again } = verdict;
  const time = cached
    ? `did not run: passed on the same input in ${earlierName(cached)}, ${duration(cached.duration_ms)} saved`
    : duration(verdict.duration_ms);
  const sample = again ? ` (run again: passed on the same input in ${earlierName(again)})` : "";
  return `      ${word} ${verdict.tier} ${oneLine(verdict.check)}${merged}${exit} ${time}${sample}  ${oneLine(verdict.command)}`;
}

function evidenceLines(task: Task, p: Palette, width: number): string[] {
  const evidence = evidenceOf(task);
  if (!evidence || (evidence.log.trim() === "" && evidence.paths.length === 0)) return [];
  const lines = section("Evidence", p);
  if (evidence.paths.length > 0)
    lines.push(...indent(wrap(`paths: ${evidence.paths.map(oneLine).join(", ")}`, width - 2, VALUE_LINES)));
  if (evidence.landed_since.length > 0) {
    const since = evidence.landed_since.map(oneLine).join(", ");
    lines.push(...indent(wrap(`landed since: ${since}`, width - 2, VALUE_LINES)));
  }
  const log = harmless(evidence.log.trimEnd()).split("\n").slice(-LOG_LINES);
  if (evidence.log.trim() !== "")
    lines.push(
      ...log.flatMap((line) => wrap(line, width - 4, LOG_LINE_LINES)).map((line) => p.dim(`  | ${line}`)),
    );
  return lines;
}

function evidenceOf(task: Task) {
  const { state } = task;
  if (state.name === "failed" || state.name === "retrying") return state.evidence;
  if (state.name === "blocked" && state.needs.kind === "retries_used") return state.needs.evidence;
  return undefined;
}

function adviceLines(task: Task, p: Palette, width: number): string[] {
  const name = `${task.run}/${task.spec.id}`;
  const advice = adviceFor(task);
  if (advice) {
    return [
      ...section("What you can do", p),
      ...indent(wrap(oneLine(advice.what), width - 2)),
      ...advice.commands.map((command) => `  ${command}`),
    ];
  }
  const look = task.attempts.length > 0 ? [`  busctl logs ${name}`, `  busctl diff ${name}`] : [];
  return look.length === 0 ? [] : [...section("Look closer", p), ...look];
}

function indent(lines: readonly string[]): string[] {
  return lines.map((line) => `  ${line}`);
}
