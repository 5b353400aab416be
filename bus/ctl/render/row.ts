// One task as people watch it: a row, made from the task and kept up to date by the events of its run.
// A display model only: the final word (exit code, end table) comes from the bus (`get_run`).

import type { AnyEvent, JournalRecord } from "../../../schemas/events.ts";
import type { Doubt, Held, Need, Task } from "../../../schemas/task.ts";
import type { Shown } from "./palette.ts";
import { clockTime, millis } from "./time.ts";

export interface Row {
  task: string;
  wave: number;
  shown: Shown;
  /** 0 = none yet. */
  attempt: number;
  /** Phase of a running attempt, cause of a failed one, kind of need of a blocked one. */
  detail: string;
  /** Since when it is in this state, ms since 1970. */
  since: number;
  /** When its first attempt began, ms since 1970; 0 = not yet. */
  began: number;
  /** The agent's newest word, or one sentence of evidence. */
  note: string;
}

/** States that end only by a person's deed. */
export function isResting(shown: Shown): boolean {
  return shown === "merged" || shown === "blocked" || shown === "cancelled";
}

export function rowOf(task: Task): Row {
  const { state } = task;
  const last = task.attempts.at(-1);
  const row: Row = {
    task: task.spec.id,
    wave: task.wave,
    shown: shownOf(task),
    attempt: last?.attempt ?? 0,
    detail: "",
    since: "since" in state ? millis(state.since) : millis(last?.ended),
    began: millis(task.attempts[0]?.started),
    note: "",
  };
  switch (state.name) {
    case "pending":
      return {
        ...row,
        note: state.waits_for.length > 0 ? `waits for ${state.waits_for.join(", ")}` : "",
      };
    case "ready":
      return row;
    case "running":
      return {
        ...row,
        attempt: state.attempt,
        detail: state.phase,
        note: state.held
          ? heldNote(state.held)
          : state.doubt
            ? doubtNote(state.doubt, state.lease_until)
            : progressNote(last?.progress),
      };
    case "passed":
      return state.merged
        ? { ...row, since: millis(state.merged.at), note: state.merged.commit?.slice(0, 10) ?? "no change" }
        : { ...row, note: state.held ? heldNote(state.held) : "" };
    case "failed":
    case "retrying":
      return { ...row, detail: state.cause, note: state.evidence.summary };
    case "blocked":
      return { ...row, ...needWords(state.needs) };
    case "cancelled":
      return { ...row, note: `by ${state.by}` };
  }
}

/** How long it took where it is merged, from its first attempt to its landing; else how long it is as it is. */
export function timeOf(row: Row, now: number): number | undefined {
  if (row.shown === "cancelled" || row.since === 0) return undefined;
  if (row.shown !== "merged") return now - row.since;
  return row.began === 0 ? undefined : row.since - row.began;
}

/** At the end of a run: from its first attempt until it rested, merged or not; nothing where it was never begun. */
export function tookOf(row: Row): number | undefined {
  if (!isResting(row.shown) || row.shown === "cancelled" || row.began === 0 || row.since === 0)
    return undefined;
  return row.since - row.began;
}

export function shownOf(task: Task): Shown {
  const { state } = task;
  return state.name === "passed" ? (state.merged ? "merged" : "landing") : state.name;
}

export function needWords(need: Need): { detail: string; note: string } {
  switch (need.kind) {
    case "retries_used":
      return { detail: need.cause, note: need.evidence.summary };
    case "files":
      return { detail: "files", note: `asks for ${need.paths.join(", ")}` };
    case "review":
      return { detail: "review", note: "waits for a person's review" };
    case "upstream":
      return { detail: "upstream", note: `${need.root} is ${need.state} (${need.cause})` };
  }
}

/** The third answer, and its bound. */
export function doubtNote({ pid, why, since }: Doubt, leaseUntil: string): string {
  const [from, until] = [since, leaseUntil].map((iso) => clockTime(millis(iso)));
  return `unknown since ${from}: ${shimWords(pid)} ${why}; without a sign of life lost at ${until}`;
}

/** Where it waits, what to do, and that nothing else has to be done. */
function heldNote({ why, since }: Held): string {
  return `waits since ${clockTime(millis(since))} until its work can be written down: ${why}; then it goes on by itself`;
}

function shimWords(pid: number): string {
  return pid > 0 ? `its shim (pid ${pid}):` : "its shim:";
}

function progressNote(
  progress: { status: string; message: string; percent?: number | undefined } | undefined,
): string {
  if (!progress) return "";
  const percent = progress.percent === undefined ? "" : ` ${Math.round(progress.percent)}%`;
  return [progress.status + percent, progress.message].filter((part) => part !== "").join(": ");
}

/** The row after an event of its task; the same object when nothing that is shown changed. */
export function applyRecord(row: Row, record: JournalRecord): Row {
  const change = record.event ? changeBy(record.event) : undefined;
  if (!change) return row;
  const moved = change.shown !== undefined && change.shown !== row.shown;
  return {
    ...row,
    ...(moved ? { detail: "", note: "", since: millis(record.ts, row.since) } : {}),
    ...change,
  };
}

/** What an event changes in its row; undefined: nothing that is shown. */
export function changeBy(event: AnyEvent): Partial<Row> | undefined {
  switch (event.type) {
    case "task.ready":
      return { shown: "ready" };
    case "task.claimed":
      return { shown: "running", attempt: event.attempt, detail: "prepare" };
    case "task.phase":
      return { shown: "running", attempt: event.attempt, detail: event.phase };
    case "task.progress":
      return { note: progressNote(event) };
    case "task.doubt": {
      const { doubt } = event;
      return { note: doubt ? `unknown whether it works: ${shimWords(doubt.pid)} ${doubt.why}` : "" };
    }
    case "task.held":
      return { note: event.held ? `waits until its work can be written down: ${event.held.why}` : "" };
    case "task.passed":
      return { shown: "landing", attempt: event.attempt };
    case "task.landed":
      return { shown: "merged", attempt: event.attempt, note: event.commit?.slice(0, 10) ?? "no change" };
    case "task.failed":
      return { shown: "failed", attempt: event.attempt, detail: event.cause, note: event.evidence.summary };
    case "task.retrying":
      return { shown: "retrying", detail: event.cause, note: event.evidence.summary };
    case "task.blocked":
      return { shown: "blocked", ...needWords(event.needs) };
    case "task.unblocked":
    case "task.retry_asked":
      return {
        shown: "pending",
        note: event.waits_for.length > 0 ? `waits for ${event.waits_for.join(", ")}` : "",
      };
    case "task.files_granted":
      return { note: `may also change ${event.paths.join(", ")}` };
    case "task.approved":
      return { note: `approved by ${event.by}` };
    case "task.rejected":
      return { note: `rejected by ${event.by}: ${event.reason}` };
    case "task.cancelled":
      return { shown: "cancelled", note: `by ${event.by}` };
    default:
      return undefined;
  }
}

/** Events that move a task to another state or phase: those get a line of their own. */
const LOUD: ReadonlySet<AnyEvent["type"]> = new Set([
  "task.claimed",
  "task.phase",
  "task.doubt",
  "task.held",
  "task.passed",
  "task.landed",
  "task.failed",
  "task.retrying",
  "task.blocked",
  "task.unblocked",
  "task.retry_asked",
  "task.files_granted",
  "task.approved",
  "task.rejected",
  "task.cancelled",
]);

export function isLoud(event: AnyEvent): boolean {
  // The phase "prepare" is told by the claim.
  return LOUD.has(event.type) && !(event.type === "task.phase" && event.phase === "prepare");
}
