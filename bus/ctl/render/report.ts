// The report of a run: one object, and the same as Markdown. Pure. Fields are only ever added.

import type { RunSummary } from "../../../schemas/methods.ts";
import { type AttemptRecord, CAUSES, type Cause, type Run, type Task } from "../../../schemas/task.ts";
import { adviceFor, takeOver } from "./advice.ts";
import { intoOutcome } from "./into-outcome.ts";
import { outcomeWords } from "./outcome.ts";
import type { Shown } from "./palette.ts";
import { rowOf } from "./row.ts";
import { duration, millis } from "./time.ts";
import { usedLines, verdictsUsed } from "./verdicts-used.ts";
import { oneLine } from "./width.ts";

export interface FileChange {
  path: string;
  added: number | null;
  deleted: number | null;
}

export interface ReportInput {
  run: Run;
  summary: RunSummary;
  tasks: readonly Task[];
  /** Files changed by the newest snapshot of a task; absent where there is none. */
  files: ReadonlyMap<string, FileChange[]>;
  now: number;
  version: string;
}

export type Report = ReturnType<typeof buildReport>;

export function buildReport({ run, summary, tasks, files, now, version }: ReportInput) {
  return {
    busbar: version,
    generated: new Date(now).toISOString(),
    run: run.run,
    status: summary.status,
    /** The same in words. */
    outcome: outcomeWords(summary),
    created: run.created,
    submitted_by: run.by,
    repo: run.spec.repo,
    base: run.spec.base,
    base_name: run.spec.base_name,
    branch: summary.branch,
    head: summary.head,
    into: run.spec.into ?? null,
    /** Null: not asked for, or not all tasks are merged. */
    into_result: intoOutcome(run, summary) ?? null,
    take_over: takeOver(summary) ?? null,
    gate: summary.gate,
    checks: run.spec.gate === "none" ? [] : checkNames(run.spec.gate),
    total: summary.total,
    merged: summary.merged,
    counts: countsOf(tasks),
    /** All attempts together; more than the wall clock when they ran side by side. */
    attempt_ms: tasks.reduce((sum, task) => sum + attemptMs(task, now), 0),
    landed: run.landed,
    /** Checks that did not run because their input was green before. */
    reused: verdictsUsed(tasks),
    /** By what agents and checks were shut in, as far as they were. */
    sandbox: [...new Set(tasks.flatMap(sandboxesOf))].sort(),
    /** Asked for, and not in force on this host. */
    limits_missing: [...new Set(tasks.flatMap(limitsMissing))].sort(),
    tasks: tasks.map((task) => taskReport(task, files.get(task.spec.id) ?? [], now)),
  };
}

function checkNames(
  gate: Exclude<Run["spec"]["gate"], "none">,
): { tier: string; name: string; run: string }[] {
  return (["shallow", "middle", "deep"] as const).flatMap((tier) =>
    gate[tier].map((check) => ({ tier, name: check.name, run: check.run })),
  );
}

function countsOf(tasks: readonly Task[]): Partial<Record<Shown, number>> {
  const counts: Partial<Record<Shown, number>> = {};
  for (const task of tasks) {
    const { shown } = rowOf(task);
    counts[shown] = (counts[shown] ?? 0) + 1;
  }
  return counts;
}

function attemptMs(task: Task, now: number): number {
  return task.attempts.reduce((sum, one) => sum + took(one, now), 0);
}

function took(attempt: AttemptRecord, now: number): number {
  return Math.max(0, millis(attempt.ended, now) - millis(attempt.started));
}

/** `agent: bubblewrap, network of the host`: of the agents and checks of all attempts, each once. */
export function sandboxesOf(task: Task): string[] {
  const all = task.attempts.flatMap(({ procs = [] }) =>
    procs.flatMap(({ kind, ended }) => (ended?.sandbox === undefined ? [] : [`${kind}: ${ended.sandbox}`])),
  );
  return [...new Set(all)];
}

/** Of the agents and checks of all attempts, each once. */
export function limitsMissing(task: Task): string[] {
  const all = task.attempts.flatMap(({ procs = [] }) =>
    procs.flatMap(({ ended }) => ended?.limits_missing ?? []),
  );
  return [...new Set(all)];
}

/** What met a limit in an attempt, also where the attempt went on: `agent: memory 1 GiB for all together: ...`. */
export function limitHits({ procs = [] }: Pick<AttemptRecord, "procs">): string[] {
  return procs.flatMap(({ name, ended }) => (ended?.limit_hits ?? []).map((hit) => `${name}: ${hit}`));
}

function failedAttempts(task: Task): Partial<Record<Cause, number>> {
  const counts: Partial<Record<Cause, number>> = {};
  for (const { result } of task.attempts) if (isCause(result)) counts[result] = (counts[result] ?? 0) + 1;
  return counts;
}

function outOfScope(task: Task, files: readonly FileChange[]): string[] {
  const last = task.attempts.at(-1);
  const held = new Set(files.map((file) => file.path));
  return last?.result === "scope" ? (last.evidence?.paths ?? []).filter((path) => !held.has(path)) : [];
}

function isCause(result: AttemptRecord["result"] | null): result is Cause {
  return (CAUSES as readonly (string | null | undefined)[]).includes(result);
}

function taskReport(task: Task, files: FileChange[], now: number) {
  const row = rowOf(task);
  const { state } = task;
  return {
    task: task.spec.id,
    goal: task.spec.goal,
    state: row.shown,
    detail: row.detail === "" ? null : row.detail,
    why: row.shown === "merged" ? null : row.note === "" ? null : row.note,
    wave: task.wave,
    depends_on: task.spec.depends_on,
    attempts: task.attempts.map((one) => ({
      attempt: one.attempt,
      result: one.result ?? null,
      started: one.started,
      duration_ms: took(one, now),
      base: one.base,
      evidence: one.evidence?.summary ?? null,
      inputs_changed: one.inputs_changed ?? [],
      limit_hits: limitHits(one),
      verdicts: one.verdicts.map(({ check, tier, verdict, exit, duration_ms, cached, again }) => ({
        check,
        tier,
        verdict,
        exit,
        duration_ms,
        /** It did not run: this pass on the same input stands for it. */
        cached: cached ?? null,
        /** It ran to see whether this pass on the same input still holds. */
        again: again ?? null,
      })),
    })),
    /** Since the last time a person asked for a retry: what counts against `retries`. */
    failed_tries: task.counts,
    /** Of all attempts, whatever was asked for since. */
    failed_attempts: failedAttempts(task),
    duration_ms: attemptMs(task, now),
    granted: task.granted,
    files,
    /** Of the newest attempt, where its scope stopped it: changed, but not in the commit that `files` is of. */
    out_of_scope: outOfScope(task, files),
    commit: state.name === "passed" ? (state.merged?.commit ?? null) : null,
    advice: adviceFor(task) ?? null,
  };
}

export function reportMarkdown(report: Report): string {
  const lines = [
    `# Run ${report.run}: ${report.merged} of ${report.total} merged`,
    "",
    `- status: **${report.outcome}**`,
    `- base: ${cell(report.base_name)} (\`${report.base}\`)`,
    `- branch: \`${report.branch}\` at \`${report.head}\``,
    ...(report.into ? [intoLine(report.into, report.into_result)] : []),
    gateLine(report),
    ...usedLines(report.reused).map((line) => `- ${cell(line)}`),
    `- sandbox: ${report.sandbox.length === 0 ? "**none**" : report.sandbox.map(cell).join("; ")}`,
    ...report.limits_missing.map((why) => `- **not in force** here: ${cell(why)}`),
    `- submitted: ${report.created} by ${cell(report.submitted_by)}; work of all attempts: ${duration(report.attempt_ms)}`,
    "",
    report.take_over ? `Take it over: \`${report.take_over}\`` : "Nothing has landed.",
    "",
    "## Tasks",
    "",
    "| task | state | tries | causes | time | checks | files | commit |",
    "|---|---|---|---|---|---|---|---|",
    ...report.tasks.map(taskRow),
  ];
  const open = report.tasks.filter((task) => task.state !== "merged");
  if (open.length > 0) lines.push("", "## Not merged", ...open.flatMap(openTask));
  const failed = report.tasks.filter((task) => Object.keys(task.failed_attempts).length > 0);
  if (failed.length > 0) lines.push("", "## Failed attempts", ...failed.flatMap(failedList));
  const met = report.tasks.flatMap(({ task, attempts }) =>
    attempts.flatMap(({ attempt, limit_hits }) =>
      limit_hits.map((hit) => `- \`${task}\` #${attempt}: ${cell(hit)}`),
    ),
  );
  if (met.length > 0) lines.push("", "## Limits met", "", ...met);
  const changed = report.tasks.filter((task) => task.files.length + task.out_of_scope.length > 0);
  if (changed.length > 0) lines.push("", "## Files", ...changed.flatMap(fileList));
  return `${lines.join("\n")}\n`;
}

function intoLine(branch: string, result: Report["into_result"]): string {
  if (!result) return `- goes into: \`${branch}\` when every task is merged`;
  return result.moved
    ? `- brought into: \`${branch}\``
    : `- into: \`${branch}\` **was not moved**: ${cell(result.why)}`;
}

function gateLine(report: Report): string {
  if (report.gate === "none") {
    return "- gate: **NONE - no common checks ran; only each task's own acceptance is proof**";
  }
  return `- gate: ${report.checks.map((check) => `${check.tier}/${cell(check.name)}`).join(", ")}`;
}

function taskRow(task: Report["tasks"][number]): string {
  const causes = Object.entries(task.failed_attempts).map(([cause, n]) => `${cause} ${n}`);
  const last = task.attempts.at(-1)?.verdicts ?? [];
  const passed = last.filter((one) => one.verdict === "pass").length;
  const cells = [
    `\`${task.task}\``,
    task.detail ? `${task.state} (${task.detail})` : task.state,
    String(task.attempts.length),
    causes.join(", "),
    task.attempts.length === 0 ? "" : duration(task.duration_ms),
    last.length === 0 ? "" : `${passed}/${last.length}`,
    String(task.files.length),
    task.commit ? `\`${task.commit.slice(0, 12)}\`` : "",
  ];
  return `| ${cells.map(cell).join(" | ")} |`;
}

function openTask(task: Report["tasks"][number]): string[] {
  return [
    "",
    `### \`${task.task}\`: ${task.state}`,
    "",
    cell(task.why ?? task.detail ?? ""),
    ...(task.advice ? ["", cell(task.advice.what), "", "```", ...task.advice.commands, "```"] : []),
  ];
}

/** Every attempt that failed, also of tasks that were merged since: that is what the next plan learns from. */
function failedList(task: Report["tasks"][number]): string[] {
  const lines = task.attempts
    .filter(({ result }) => isCause(result))
    .map(
      ({ attempt, result, duration_ms, evidence }) =>
        `- #${attempt} **${result}** after ${duration(duration_ms)}${evidence ? `: ${cell(evidence)}` : ""}`,
    );
  return ["", `\`${task.task}\``, "", ...lines];
}

function fileList(task: Report["tasks"][number]): string[] {
  const lines = task.files.map((file) => {
    const count = file.added === null ? "binary" : `+${file.added} -${file.deleted ?? 0}`;
    return `- \`${codeText(file.path)}\` ${count}`;
  });
  const outside = task.out_of_scope.map((path) => `- \`${codeText(path)}\` **out of scope**`);
  return ["", `\`${task.task}\``, "", ...lines, ...outside];
}

function codeText(path: string): string {
  return oneLine(path).replaceAll("`", "'");
}

/** Text from outside within a table: on one line, with nothing that Markdown would take for a new cell. */
function cell(text: string): string {
  return oneLine(text).replaceAll("|", "\\|").replaceAll("<", "&lt;");
}
