// One line per change of state, for pipes, logs and the space above the live block (a narrow terminal breaks it between
// words): `12:00:03 session_docs running #1 agent`.

import type { AnyEvent, JournalRecord } from "../../../schemas/events.ts";
import { type Palette, paintState } from "./palette.ts";
import { changeBy, isLoud, type Row } from "./row.ts";
import { clockTime, duration, millis } from "./time.ts";
import { earlierName } from "./verdicts-used.ts";
import { cut, oneLine, wrap } from "./width.ts";

export function changeLine(record: JournalRecord, p: Palette, width: number): string | undefined {
  const { event, task } = record;
  if (!event) return undefined;
  const time = p.dim(clockTime(millis(record.ts)));
  if (task === undefined) {
    const words = runWords(event, record.run);
    if (words === undefined) return undefined;
    // What it takes to go on stands at the end, and is wanted whole.
    if (event.type !== "run.paused") return `${time} ${cut(words, width - CLOCK)}`;
    const [first = "", ...more] = wrap(words, width - CLOCK);
    return [`${time} ${first}`, ...more.map((line) => " ".repeat(CLOCK) + line)].join("\n");
  }
  if (!isLoud(event)) return undefined;
  const change = changeBy(event) ?? {};
  return joined(time, task, { attempt: record.attempt ?? 0, ...change }, p, width);
}

/** The same line for a state that a task is in already. */
export function stateLine(row: Row, p: Palette, width: number): string {
  return joined(p.dim(clockTime(row.since)), row.task, row, p, width);
}

/** More of one change is said by `busctl tasks --task`. */
const CHANGE_LINES = 3;
const CLOCK = "00:00:00 ".length;

function joined(time: string, task: string, row: Partial<Row>, p: Palette, width: number): string {
  const state = row.shown ?? "";
  const parts = [
    task,
    state,
    row.attempt ? `#${row.attempt}` : "",
    row.detail ?? "",
    oneLine(row.note ?? ""),
  ];
  const text = parts.filter((part) => part !== "").join(" ");
  const [first = "", ...more] = wrap(text, width - CLOCK, CHANGE_LINES);
  const at = task.length + 1;
  const painted =
    row.shown && first.startsWith(state, at)
      ? first.slice(0, at) + paintState(row.shown, state, p) + first.slice(at + state.length)
      : first;
  return [`${time} ${painted}`, ...more.map((line) => " ".repeat(CLOCK) + line)].join("\n");
}

function runWords(event: AnyEvent, run = "RUN"): string | undefined {
  switch (event.type) {
    case "run.paused":
      return `run paused by ${event.by}${event.why === undefined ? "" : `: ${oneLine(event.why)}`}; then: busctl resume ${run}`;
    case "run.resumed":
      return `run resumed by ${event.by}`;
    case "run.tasks_added":
      return `${event.tasks.length} tasks added by ${event.by}`;
    case "run.into":
      return event.moved ? `brought into ${event.branch}` : `${event.branch} was not moved: ${event.why}`;
    case "worker.registered":
      return `scheduler ${event.worker} is here (${event.slots} slots)`;
    case "worker.gone":
      return `scheduler ${event.worker} is gone`;
    case "journal.gap":
      return `records ${event.from} to ${event.to} of the journal are lost: ${event.why}`;
    case "attempts.passed_over":
      return `attempts are known by what they left only, their records are lost: ${Object.entries(event.used)
        .map(([task, attempt]) => `${task}#${attempt}`)
        .join(", ")}`;
    case "journal.removed":
      return `records ${event.from} to ${event.to} of the audit log are not kept any more: ${event.rule}`;
    default:
      return undefined;
  }
}

/** The same as a JSON object, one a line: `type: "change"`. */
export function changeJson(record: JournalRecord): Record<string, unknown> | undefined {
  const { event } = record;
  if (!event || (record.task !== undefined && !isLoud(event))) return undefined;
  if (record.task === undefined && runWords(event) === undefined) return undefined;
  const change = record.task === undefined ? {} : (changeBy(event) ?? {});
  const attempt = change.attempt ?? record.attempt;
  return {
    type: "change",
    ts: record.ts,
    seq: record.seq,
    run: record.run ?? null,
    task: record.task ?? null,
    event: event.type,
    state: change.shown ?? null,
    attempt: attempt ?? null,
    detail: change.detail ?? null,
    note: change.note ?? null,
  };
}

/** A record of the audit log as one line: time, sequence number, who, what, about what, how it went. */
export function auditLine(record: JournalRecord, p: Palette, width: number): string {
  const about =
    record.task === undefined
      ? (record.run ?? "-")
      : `${record.run}/${record.task}${record.attempt === undefined ? "" : `#${record.attempt}`}`;
  const what = record.event ? record.event.type : (record.method ?? "?");
  const facts = record.event ? eventFacts(record.event) : accessFacts(record);
  const ts = width < ISO_WIDTH ? shortTime(millis(record.ts)) : record.ts;
  const words = oneLine(`${record.actor} ${what} ${about} ${facts}`.trimEnd());
  const line = cut(`${ts} ${String(record.seq).padStart(6)} ${words}`, width);
  return record.access?.error === undefined ? line : p.red(line);
}

/** The heading over such lines, for a terminal. */
export function auditHeading(p: Palette, width: number): string {
  const time = "time".padEnd(width < ISO_WIDTH ? 14 : 24);
  return p.dim(
    cut(`${time} ${"seq".padStart(6)} who what run/task#attempt details, time taken, request`, width),
  );
}

/** On a narrower terminal the facts need the room. */
const ISO_WIDTH = 120;

/** `01-31 12:00:03`, in the person's zone as everywhere on a terminal. */
function shortTime(ms: number): string {
  const d = new Date(ms);
  return `${String(d.getMonth() + 1).padStart(2, "0")}-${String(d.getDate()).padStart(2, "0")} ${clockTime(ms)}`;
}

function accessFacts(record: JournalRecord): string {
  const { access } = record;
  const parts = [
    access?.path,
    access?.version === undefined ? undefined : `v${access.version}`,
    access?.oid?.slice(0, 10),
    access?.error,
    access?.slow,
    record.response_time_ms === undefined ? undefined : `${record.response_time_ms.toFixed(2)}ms`,
    record.request_id,
  ];
  return parts.filter((part) => part !== undefined && part !== "").join(" ");
}

function eventFacts(event: AnyEvent): string {
  switch (event.type) {
    case "task.verdict": {
      const { check, verdict, cached, duration_ms } = event.verdict;
      return `${check} ${verdict} ${cached ? `by ${earlierName(cached)}` : duration(duration_ms)}`;
    }
    case "task.snapshot":
      return `v${event.snapshot.version} ${event.snapshot.commit.slice(0, 10)} ${event.changed.length} paths`;
    case "task.files_requested":
      return event.paths.join(" ");
    case "proc.registered":
      return `${event.kind} ${event.name} pid ${event.pid}`;
    case "proc.completed": {
      const { outcome } = event;
      return `${outcome.name} ${outcome.reason} exit ${outcome.exit ?? "-"} ${duration(outcome.duration_ms)}`;
    }
    case "run.submitted":
      return `${event.tasks.length} tasks`;
    case "run.into":
      return `${event.branch} ${event.moved ? `at ${event.head.slice(0, 10)}` : `not moved: ${event.why}`}`;
    case "run.head_moved":
      return `${event.head.slice(0, 10)} ${event.why}`;
    default: {
      const change = changeBy(event);
      return [change?.detail, change?.note].filter((part) => part).join(" ");
    }
  }
}
