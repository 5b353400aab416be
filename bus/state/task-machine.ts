// The state machine of a task. Pure: an old task and an event give a new task; nothing else is changed.
// `attempt` in an event must be the newest attempt of the task (FENCED otherwise), the state must be one from
// which the event is legal (ILLEGAL_MOVE otherwise). Every event raises `state_version` by one.
//
// pending    Waits for tasks not merged yet. task.ready when nothing is left to wait for; task.blocked when
//            something upstream is blocked or cancelled.
// ready      May be claimed (task.claimed, with the next attempt number).
// running    One attempt is at work. It ends by task.passed, task.failed, task.blocked (it asked for files) or
//            task.cancelled. Everything else that happens (phase, lease, progress, snapshots, verdicts) leaves it
//            running.
// passed     Proven on its own; waits for the train. task.landed makes it merged: then only records are added.
//            Not merged it can still fail (conflict, check_after_merge), wait for review, or be cancelled.
// failed     Stands for a moment only: the transaction that brings it goes on with task.retrying or task.blocked.
// retrying   Waits for its time, then task.ready.
// blocked    A person (or, for kind `upstream`, the root) must move it. task.retry_asked, task.files_granted
//            (kind files), task.approved and task.rejected (kind review), task.unblocked (kinds upstream, files).
// cancelled  Only task.retry_asked leads out of it.

import { BusbarError } from "../../schemas/errors.ts";
import type { TaskEvent } from "../../schemas/events.ts";
import { showId, taskKey } from "../../schemas/ids.ts";
import { nextAttempt } from "../../schemas/next-attempt.ts";
import type { AttemptRecord, Cause, Evidence, Need, StateName, Task, TaskState } from "../../schemas/task.ts";
import { addOutcome, addProc } from "./procs.ts";

type EventType = TaskEvent["type"];

/** From which states an event may come at all; `applyTask` narrows further where a state has kinds. */
export const LEGAL_FROM: Record<EventType, readonly StateName[]> = {
  "task.ready": ["pending", "retrying"],
  "task.claimed": ["ready"],
  "task.phase": ["running"],
  "task.lease": ["running"],
  "task.doubt": ["running"],
  "task.held": ["running", "passed"],
  "task.progress": ["running"],
  "task.files_requested": ["running"],
  "task.publish_requested": ["running"],
  "task.snapshot": ["running"],
  "task.verdict": ["running", "passed"],
  "task.inputs_changed": ["running", "passed"],
  "task.passed": ["running"],
  "task.landed": ["passed"],
  "task.failed": ["running", "passed"],
  "task.retrying": ["failed"],
  "task.blocked": ["pending", "running", "passed", "failed", "blocked"],
  "task.unblocked": ["blocked"],
  "task.retry_asked": ["failed", "blocked", "cancelled"],
  "task.files_granted": ["pending", "ready", "running", "failed", "retrying", "blocked"],
  "task.approved": ["blocked"],
  "task.rejected": ["blocked"],
  "task.cancelled": ["pending", "ready", "running", "passed", "failed", "retrying", "blocked"],
  "proc.registered": ["running", "passed"],
  "proc.completed": ["pending", "ready", "running", "passed", "failed", "retrying", "blocked", "cancelled"],
};

/** Which kind of need may be entered from which state. */
const BLOCKED_FROM: Record<Need["kind"], readonly StateName[]> = {
  upstream: ["pending", "blocked"],
  files: ["running"],
  review: ["passed"],
  retries_used: ["failed"],
};

/**
 * The task after `event`. `at` is the event's time (ISO 8601, UTC).
 * Throws FENCED for another attempt than the newest, ILLEGAL_MOVE where the table above has no such move.
 */
export function applyTask(task: Task, event: TaskEvent, at: string): Task {
  guard(task, event);
  return { ...task, ...change(task, event, at), state_version: task.state_version + 1 };
}

function guard(task: Task, event: TaskEvent): void {
  const newest = task.attempts.at(-1)?.attempt ?? 0;
  if ("attempt" in event) {
    const wanted = event.type === "task.claimed" ? nextAttempt(task) : newest;
    if (event.attempt !== wanted || wanted === 0) {
      throw new BusbarError(
        "FENCED",
        `${event.type} of ${name(task)}: attempt ${event.attempt} is not attempt ${wanted}`,
        {
          run: task.run,
          task: task.spec.id,
          attempt: event.attempt,
          newest,
        },
      );
    }
  }
  if (!LEGAL_FROM[event.type].includes(task.state.name)) throw illegal(task, event);
}

type Change = Partial<Pick<Task, "state" | "attempts" | "counts" | "granted" | "feedback">>;

function change(task: Task, event: TaskEvent, at: string): Change {
  const s = task.state;
  switch (event.type) {
    case "task.ready":
      if (s.name === "pending" && s.waits_for.length > 0) throw illegal(task, event);
      return { state: { name: "ready", since: at } };
    case "task.claimed":
      return claimed(task, event, at);
    case "task.phase":
      return inRunning(task, event, { phase: event.phase });
    case "task.lease":
      return {
        ...inRunning(task, event, { lease_until: event.lease_until }),
        ...(event.usage && onAttempt(task, { usage: event.usage })),
      };
    case "task.doubt":
      return doubted(task, event, at);
    case "task.held":
      return held(task, event, at);
    case "task.progress": {
      const { status, message, percent } = event;
      const progress = { status, message, at, ...(percent !== undefined && { percent }) };
      return onAttempt(task, { progress });
    }
    case "task.files_requested":
      return inRunning(task, event, { wants: { paths: event.paths, reason: event.reason } });
    case "task.publish_requested":
      return {};
    case "task.snapshot":
      return onAttempt(task, { snapshots: [...newestAttempt(task).snapshots, event.snapshot] });
    case "task.verdict":
      return onAttempt(task, { verdicts: [...newestAttempt(task).verdicts, event.verdict] });
    case "task.inputs_changed":
      return onAttempt(task, { inputs_changed: event.paths });
    case "task.passed": {
      const { attempt, snapshot, base } = event;
      const state: TaskState = { name: "passed", attempt, since: at, snapshot, base, merged: null };
      return { state, ...onAttempt(task, { ended: at, result: "passed" }) };
    }
    case "task.landed": {
      const { held: _, ...state } = unmerged(task, event);
      return { state: { ...state, merged: { commit: event.commit, at } } };
    }
    case "task.failed":
      if (s.name === "passed") unmerged(task, event);
      return failed(task, event.cause, event.evidence, at);
    case "task.retrying": {
      const { not_before, cause, evidence } = event;
      return { state: { name: "retrying", attempts: task.attempts.length, not_before, cause, evidence } };
    }
    case "task.blocked":
      return blocked(task, event, at);
    case "task.unblocked":
      needs(task, event, "upstream", "files");
      return { state: { name: "pending", waits_for: event.waits_for } };
    case "proc.registered":
      return onAttempt(task, { procs: addProc(newestAttempt(task).procs, event) });
    case "proc.completed":
      return onAttempt(task, { procs: addOutcome(newestAttempt(task).procs, event.outcome) });
    default:
      return decided(task, event, at);
  }
}

type PersonEvent = Extract<
  TaskEvent,
  {
    type: "task.retry_asked" | "task.files_granted" | "task.approved" | "task.rejected" | "task.cancelled";
  }
>;

/** What people decide. */
function decided(task: Task, event: PersonEvent, at: string): Change {
  const s = task.state;
  switch (event.type) {
    case "task.retry_asked":
      if (s.name === "blocked") needs(task, event, "retries_used", "files", "review");
      return {
        state: { name: "pending", waits_for: event.waits_for },
        counts: {},
        ...(event.feedback !== undefined && { feedback: event.feedback }),
      };
    case "task.files_granted":
      return filesGranted(task, event.paths);
    case "task.approved":
      return approved(task, event, at);
    case "task.rejected":
      return rejected(task, event, at);
    case "task.cancelled":
      if (s.name === "passed") unmerged(task, event);
      return {
        state: { name: "cancelled", since: at, by: event.by },
        ...(s.name === "running" && onAttempt(task, { ended: at, result: "cancelled" })),
      };
    default:
      return neverEvent(event);
  }
}

function claimed(task: Task, event: Extract<TaskEvent, { type: "task.claimed" }>, at: string): Change {
  const { attempt, worker, base, workspace, lease_until, nonce } = event;
  const record: AttemptRecord = {
    attempt,
    worker,
    base,
    workspace,
    ...(nonce !== undefined && { nonce }),
    started: at,
    snapshots: [],
    verdicts: [],
  };
  return {
    state: { name: "running", attempt, worker, phase: "prepare", since: at, lease_until, workspace, base },
    attempts: [...task.attempts, record],
  };
}

function doubted(task: Task, event: Extract<TaskEvent, { type: "task.doubt" }>, at: string): Change {
  if (task.state.name !== "running") throw illegal(task, event);
  const { doubt: _, ...state } = task.state;
  return { state: event.doubt ? { ...state, doubt: { ...event.doubt, since: at } } : state };
}

function held(task: Task, event: Extract<TaskEvent, { type: "task.held" }>, at: string): Change {
  const now = task.state.name === "passed" ? unmerged(task, event) : task.state;
  if (now.name !== "running" && now.name !== "passed") throw illegal(task, event);
  const { held: _, ...state } = now;
  return { state: event.held ? { ...state, held: { ...event.held, since: at } } : state };
}

function filesGranted(task: Task, paths: readonly string[]): Change {
  const granted = [...new Set([...task.granted, ...paths])];
  if (task.state.name !== "blocked" || task.state.needs.kind !== "files") return { granted };
  return { granted, state: { name: "pending", waits_for: [] } };
}

function rejected(task: Task, event: Extract<TaskEvent, { type: "task.rejected" }>, at: string): Change {
  needs(task, event, "review");
  const summary = `rejected by ${event.by}: ${event.reason}`;
  return {
    ...failed(task, "rejected", { summary, log: "", paths: [], landed_since: [] }, at),
    feedback: event.reason,
  };
}

function failed(task: Task, cause: Cause, evidence: Evidence, at: string): Change {
  const attempt = newestAttempt(task);
  return {
    state: { name: "failed", attempt: attempt.attempt, since: at, cause, evidence },
    counts: { ...task.counts, [cause]: (task.counts[cause] ?? 0) + 1 },
    ...onAttempt(task, { ended: attempt.ended ?? at, result: cause, evidence }),
  };
}

function blocked(task: Task, event: Extract<TaskEvent, { type: "task.blocked" }>, at: string): Change {
  const s = task.state;
  if (!BLOCKED_FROM[event.needs.kind].includes(s.name)) throw illegal(task, event);
  if (s.name === "blocked") needs(task, event, "upstream");
  if (s.name === "passed") unmerged(task, event);
  return {
    state: { name: "blocked", since: at, needs: event.needs },
    ...(s.name === "running" && onAttempt(task, { ended: at, result: "needs_files" })),
  };
}

function approved(task: Task, event: TaskEvent, at: string): Change {
  const need = needs(task, event, "review");
  const { attempt, base } = newestAttempt(task);
  return {
    state: { name: "passed", attempt, since: at, snapshot: need.snapshot, base, merged: null },
  };
}

/** The newest try; guarded events have one. */
function newestAttempt(task: Task): AttemptRecord {
  const newest = task.attempts.at(-1);
  if (!newest) throw new BusbarError("ILLEGAL_MOVE", `${name(task)} has had no attempt yet`);
  return newest;
}

function onAttempt(task: Task, patch: Partial<AttemptRecord>): { attempts: AttemptRecord[] } {
  return { attempts: [...task.attempts.slice(0, -1), { ...newestAttempt(task), ...patch }] };
}

function inRunning(
  task: Task,
  event: TaskEvent,
  patch: Partial<Extract<TaskState, { name: "running" }>>,
): { state: TaskState } {
  if (task.state.name !== "running") throw illegal(task, event);
  return { state: { ...task.state, ...patch } };
}

function unmerged(task: Task, event: TaskEvent): Extract<TaskState, { name: "passed" }> {
  if (task.state.name !== "passed" || task.state.merged) throw illegal(task, event);
  return task.state;
}

/** The need of a blocked task, if it is of one of `kinds`. */
function needs<K extends Need["kind"]>(
  task: Task,
  event: TaskEvent,
  ...kinds: K[]
): Extract<Need, { kind: K }> {
  const s = task.state;
  if (s.name !== "blocked" || !(kinds as string[]).includes(s.needs.kind)) throw illegal(task, event);
  return s.needs as Extract<Need, { kind: K }>;
}

function name(task: Task): string {
  return `task ${showId(taskKey(task.run, task.spec.id))}`;
}

/** What a task is in, for messages: `blocked (upstream)`, `passed and merged`. */
export function stateWords(state: TaskState): string {
  if (state.name === "blocked") return `blocked (${state.needs.kind})`;
  if (state.name === "passed") return state.merged ? "merged" : "passed, not merged";
  return state.name;
}

/** What a person would call it; the event's own name says it well enough for the rest. */
const DEEDS = new Map<TaskEvent["type"], string>([
  ["task.approved", "approval"],
  ["task.rejected", "rejection"],
  ["task.retry_asked", "retry"],
  ["task.cancelled", "cancelling"],
  ["task.files_granted", "grant"],
  ["task.landed", "landing"],
  ["task.claimed", "claim"],
]);

function deed(type: TaskEvent["type"]): string {
  return DEEDS.get(type) ?? type;
}

function illegal(task: Task, event: TaskEvent): BusbarError {
  return new BusbarError(
    "ILLEGAL_MOVE",
    `${deed(event.type)} of ${name(task)}: it is ${stateWords(task.state)}`,
    {
      run: task.run,
      task: task.spec.id,
      state: task.state.name,
      event: event.type,
    },
  );
}

function neverEvent(event: never): never {
  throw new BusbarError("INTERNAL", `unknown event ${showId((event as { type?: unknown }).type)}`);
}
