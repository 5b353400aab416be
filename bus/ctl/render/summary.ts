// The end of a run, as people see it: a table, what landed where, and what is left to decide. Pure.

import type { RunSummary } from "../../../schemas/methods.ts";
import type { Run, Task } from "../../../schemas/task.ts";
import { adviceFor, takeOver } from "./advice.ts";
import { intoOutcome } from "./into-outcome.ts";
import { outcomeWords } from "./outcome.ts";
import { type Palette, paintState, sign } from "./palette.ts";
import { type Row, rowOf, shownOf, tookOf } from "./row.ts";
import { renderTable } from "./table.ts";
import { duration, millis, plural } from "./time.ts";
import { oneLine, wrap } from "./width.ts";

/** Beyond this the table shows only what is not merged. */
const FULL_TABLE_TASKS = 40;
/** Beyond this the advice is cut; `busctl report` has it all. */
const ADVISED_TASKS = 10;

export interface RunEnd {
  run: Run;
  summary: RunSummary;
  tasks: readonly Task[];
}

export function endLines(end: RunEnd, now: number, p: Palette, width: number): string[] {
  const { run, summary, tasks } = end;
  const all = tasks.length <= FULL_TABLE_TASKS;
  const listed = all ? tasks : tasks.filter((task) => shownOf(task) !== "merged");
  const lines = [""];
  if (listed.length > 0) lines.push(...taskTable(listed, tookOf, p, width));
  if (!all) lines.push(p.dim(`(${plural(tasks.length - listed.length, "merged task")} not listed)`));
  const took = duration(lastMoment(tasks, now) - millis(run.created));
  const tally = `${summary.merged} of ${summary.total} merged in ${took}`;
  const whole = summary.merged === summary.total;
  lines.push(
    "",
    `${p.bold(run.run)}: ${whole ? p.green(tally) : `${p.yellow(tally)}; ${outcomeWords(summary)}`}`,
  );
  lines.push(...gateLines(summary, p), ...landedLines(run, summary, p));
  lines.push(...adviceLines(tasks, p, width));
  return lines;
}

/** The table of `busctl tasks` and of a run's end; `time` says which time of a task is shown. */
export function taskTable(
  tasks: readonly Task[],
  time: (row: Row) => number | undefined,
  p: Palette,
  width: number,
): string[] {
  const rows = tasks.map((task) => {
    const row = rowOf(task);
    const { shown } = row;
    const paint = (text: string) => paintState(shown, text, p);
    return [
      { text: sign(shown, { ...p, ...PLAIN }), paint },
      { text: shown, paint },
      row.task,
      String(row.wave + 1),
      row.attempt === 0 ? "" : `#${row.attempt}`,
      row.detail,
      timeText(time(row)),
      oneLine(row.note),
    ];
  });
  return renderTable(
    [
      { title: "" },
      { title: "state" },
      { title: "task", shrinkTo: 12 },
      { title: "wave", align: "right" },
      { title: "try", align: "right" },
      { title: "phase", shrinkTo: 7 },
      { title: "time", align: "right" },
      { title: "note", shrinkTo: 10 },
    ],
    rows,
    width,
    p.dim,
  );
}

function timeText(ms: number | undefined): string {
  return ms === undefined ? "" : duration(ms);
}

/** The sign comes without colour: the table paints after it has the width. */
const same = (text: string) => text;
const PLAIN = {
  red: same,
  green: same,
  yellow: same,
  blue: same,
  cyan: same,
  dim: same,
  bold: same,
} as const;

function gateLines(summary: RunSummary, p: Palette): string[] {
  return summary.gate === "none"
    ? [p.yellow("gate: none - no common checks ran; only each task's own acceptance is proof")]
    : [];
}

function landedLines(run: Run, summary: RunSummary, p: Palette): string[] {
  const command = takeOver(summary);
  if (!command) return ["Nothing has landed; no branch was moved."];
  const lines = [`Branch ${summary.branch} is at ${summary.head.slice(0, 12)} (base ${summary.base_name}).`];
  const { into } = run.spec;
  const brought = intoOutcome(run, summary);
  if (brought?.moved) return [...lines, `Branch ${into} is there too.`];
  if (into !== undefined && !brought) lines.push(`It goes into ${into} when every task is merged.`);
  if (brought) lines.push(p.yellow(`${into} was not moved: ${oneLine(brought.why)}`));
  else lines.push(`Take it over with:  ${p.bold(command)}`);
  return lines;
}

function adviceLines(tasks: readonly Task[], p: Palette, width: number): string[] {
  const open = tasks.filter((task) => task.state.name === "blocked");
  // What is upstream decides; those behind it are only counted.
  const roots = open.filter((task) => task.state.name === "blocked" && task.state.needs.kind !== "upstream");
  const lines: string[] = [];
  for (const task of roots.slice(0, ADVISED_TASKS)) {
    const advice = adviceFor(task);
    if (!advice) continue;
    const [first = "", ...more] = wrap(`${task.spec.id}: ${oneLine(advice.what)}`, width - 2);
    lines.push(
      "",
      p.red(task.spec.id) + first.slice(task.spec.id.length),
      ...more.map((line) => `  ${line}`),
    );
    if (task.state.name === "blocked" && task.state.needs.kind === "retries_used") {
      const { summary } = task.state.needs.evidence;
      lines.push(...wrap(oneLine(summary), width - 2).map((line) => p.dim(`  ${line}`)));
    }
    lines.push(...advice.commands.map((command) => `  ${command}`));
  }
  if (roots.length > ADVISED_TASKS)
    lines.push("", `... and ${roots.length - ADVISED_TASKS} more: busctl report`);
  const held = heldLines(tasks, width);
  if (held.length > 0) lines.push("", ...held.map((line) => p.dim(line)));
  return lines;
}

/** Ids in one line about those that wait. */
const HELD_SHOWN = 6;

/** Who waits for whose decision: by a dependency, or since a wave opens only after the lower ones. One line for each. */
function heldLines(tasks: readonly Task[], width: number): string[] {
  const byId = new Map(tasks.map((task) => [task.spec.id, task]));
  const held = new Map<string, string[]>();
  for (const { spec, state } of tasks) {
    if (state.name !== "blocked" || state.needs.kind !== "upstream") continue;
    const { root, state: word } = state.needs;
    const how = dependsOn(byId, spec.id, root) ? "by dependency" : "its wave opens after it";
    const key = `${root} (${word}; ${how})`;
    held.set(key, [...(held.get(key) ?? []), spec.id]);
  }
  const lines = [...held].map(([root, ids]) => {
    const more = ids.length > HELD_SHOWN ? ` and ${ids.length - HELD_SHOWN} more` : "";
    const who = ids.slice(0, HELD_SHOWN).join(", ");
    return `${plural(ids.length, "task waits", "tasks wait")} for ${root}: ${who}${more}`;
  });
  return lines.slice(0, ADVISED_TASKS).flatMap((line) => wrap(line, width));
}

/** Directly or through others. */
function dependsOn(byId: ReadonlyMap<string, Task>, id: string, root: string): boolean {
  const seen = new Set([id]);
  for (const at of seen)
    for (const dep of byId.get(at)?.spec.depends_on ?? []) {
      if (dep === root) return true;
      seen.add(dep);
    }
  return false;
}

function lastMoment(tasks: readonly Task[], now: number): number {
  let last = 0;
  for (const task of tasks) {
    const { state } = task;
    const at =
      state.name === "passed" && state.merged ? state.merged.at : "since" in state ? state.since : undefined;
    last = Math.max(last, millis(at, now));
  }
  return last === 0 ? now : last;
}
