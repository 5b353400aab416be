// The scheduler's view of runs and tasks. The bus is the truth; this follows it.
//
// 1. At the start (and after a reconnection) it is filled from the answer to `register_worker`.
// 2. Events move it on. An event says what happened, so nothing is decided here. Each event of a task carries the
//    state_version after it; a gap means that something was missed, and the task is marked stale.
// 3. Stale tasks and new runs are read again from the bus (`get_run`) before the next tick.
//
// Ready, underway and landable tasks are kept in sets, so that a tick does not walk ten thousand tasks.

import type { EventNotice, RunEvent, TaskEvent } from "../schemas/events.ts";
import type { Run, Task, TaskState } from "../schemas/task.ts";
import { type Lane, laneOf } from "./lanes.ts";

export interface RunMirror {
  run: Run;
  tasks: Map<string, Task>;
  ready: Set<string>;
  /** running, or passed and not merged. */
  underway: Set<string>;
  /** Place in the plan. */
  order: Map<string, number>;
  /** Another number each time that the run was let go on, or read anew. */
  life: number;
}

export class Mirror {
  readonly runs = new Map<string, RunMirror>();
  /** Runs that have to be read again. */
  readonly stale = new Set<string>();
  #lives = 0;
  readonly #rss = { sum: 0, count: 0 };
  readonly #lanes = new WeakMap<Task["spec"], { granted: readonly string[]; lane: Lane }>();

  /** Takes over what the bus said; runs that it did not name are dropped. */
  load(runs: readonly Run[], tasks: readonly Task[]): void {
    this.runs.clear();
    this.stale.clear();
    const byRun = groupByRun(tasks);
    for (const run of runs) this.put(run, byRun.get(run.run) ?? []);
  }

  /** One run anew. */
  put(run: Run, tasks: readonly Task[]): void {
    const at: RunMirror = {
      run,
      tasks: new Map(),
      ready: new Set(),
      underway: new Set(),
      order: new Map(run.order.map((id, index) => [id, index])),
      life: ++this.#lives,
    };
    this.runs.set(run.run, at);
    this.stale.delete(run.run);
    for (const task of tasks) this.#set(at, task);
  }

  task(run: string, task: string): Task | undefined {
    return this.runs.get(run)?.tasks.get(task);
  }

  /** The task's running state if this attempt is the one that runs. */
  running(run: string, task: string, attempt: number): Extract<TaskState, { name: "running" }> | undefined {
    const state = this.task(run, task)?.state;
    return state?.name === "running" && state.attempt === attempt ? state : undefined;
  }

  isMerged(run: string, task: string): boolean {
    const state = this.task(run, task)?.state;
    return state?.name === "passed" && state.merged !== null;
  }

  /** Mean resident bytes of the processes of an attempt, from what shims say; undefined while none has. */
  meanRss(): number | undefined {
    return this.#rss.count > 0 ? this.#rss.sum / this.#rss.count : undefined;
  }

  laneOf(task: Task): Lane {
    const known = this.#lanes.get(task.spec);
    if (known && known.granted === task.granted) return known.lane;
    const serial = this.runs.get(task.run)?.run.spec.serial ?? [];
    const lane = laneOf(task.spec, task.granted, serial);
    this.#lanes.set(task.spec, { granted: task.granted, lane });
    return lane;
  }

  /** A newer state of one task, from an answer of the bus. Older ones are ignored. */
  update(task: Task): void {
    const at = this.runs.get(task.run);
    const old = at?.tasks.get(task.spec.id);
    if (at && (!old || old.state_version <= task.state_version)) this.#set(at, task);
  }

  /** Follows one record of the journal. */
  follow(record: EventNotice): void {
    const { event, run } = record;
    if (record.kind !== "event" || !event || run === undefined) return;
    const at = this.runs.get(run);
    if (event.type.startsWith("run.")) {
      this.#followRun(at, run, event as RunEvent, record.ts);
      return;
    }
    if (!at || record.task === undefined) {
      this.stale.add(run);
      return;
    }
    const task = at.tasks.get(record.task);
    if (!task) {
      this.stale.add(run);
      return;
    }
    if (record.state_version === undefined || record.state_version <= task.state_version) return;
    if (record.state_version !== task.state_version + 1) {
      this.stale.add(run);
      return;
    }
    if (event.type === "task.lease" && event.usage) {
      this.#rss.sum += event.usage.rss;
      this.#rss.count += 1;
    }
    this.#set(at, { ...moved(task, event as TaskEvent, record.ts), state_version: record.state_version });
    if (event.type === "task.landed" && event.commit !== null) {
      at.run = { ...at.run, head: event.commit };
    }
  }

  #followRun(at: RunMirror | undefined, run: string, event: RunEvent, ts: string): void {
    if (!at) {
      this.stale.add(run);
      return;
    }
    switch (event.type) {
      case "run.paused":
        at.run = { ...at.run, paused: true };
        return;
      case "run.resumed":
        at.run = { ...at.run, paused: false };
        at.life = ++this.#lives;
        return;
      case "run.head_moved":
        at.run = { ...at.run, head: event.head };
        return;
      case "run.into": {
        const { type: _, ...into } = event;
        at.run = { ...at.run, into: { ...into, at: ts } };
        return;
      }
      default:
        this.stale.add(run);
    }
  }

  #set(at: RunMirror, task: Task): void {
    const id = task.spec.id;
    at.tasks.set(id, task);
    const { state } = task;
    mark(at.ready, id, state.name === "ready");
    const waitsToLand = state.name === "passed" && state.merged === null;
    mark(at.underway, id, state.name === "running" || waitsToLand);
  }
}

function mark(set: Set<string>, id: string, isIn: boolean): void {
  if (isIn) set.add(id);
  else set.delete(id);
}

function groupByRun(tasks: readonly Task[]): Map<string, Task[]> {
  const groups = new Map<string, Task[]>();
  for (const task of tasks) {
    const group = groups.get(task.run);
    if (group) group.push(task);
    else groups.set(task.run, [task]);
  }
  return groups;
}

/** The task after the event, as far as the scheduler looks at it. Attempt records are left to the bus. */
function moved(task: Task, event: TaskEvent, ts: string): Task {
  const state = stateAfter(task.state, event, ts);
  if (event.type === "task.files_granted") {
    return { ...task, state, granted: [...new Set([...task.granted, ...event.paths])] };
  }
  if (event.type === "task.approved") return approved(task, ts);
  if (event.type === "task.claimed") {
    const { attempt, worker, base, workspace } = event;
    const record = { attempt, worker, base, workspace, started: ts, snapshots: [], verdicts: [] };
    return { ...task, state, attempts: [...task.attempts, record] };
  }
  return state === task.state ? task : { ...task, state };
}

/** A review ended well: the snapshot that waited for it goes on to the train. */
function approved(task: Task, ts: string): Task {
  const record = task.attempts.at(-1);
  if (task.state.name !== "blocked" || task.state.needs.kind !== "review" || !record) return task;
  const { snapshot } = task.state.needs;
  const { attempt, base } = record;
  return { ...task, state: { name: "passed", attempt, since: ts, snapshot, base, merged: null } };
}

function stateAfter(state: TaskState, event: TaskEvent, ts: string): TaskState {
  switch (event.type) {
    case "task.ready":
      return { name: "ready", since: ts };
    case "task.claimed": {
      const { attempt, worker, lease_until, workspace, base } = event;
      return { name: "running", attempt, worker, phase: "prepare", since: ts, lease_until, workspace, base };
    }
    case "task.phase":
      return state.name === "running" ? { ...state, phase: event.phase } : state;
    case "task.lease":
      return state.name === "running" ? { ...state, lease_until: event.lease_until } : state;
    case "task.doubt": {
      if (state.name !== "running") return state;
      const { doubt: _, ...rest } = state;
      return event.doubt ? { ...rest, doubt: { ...event.doubt, since: ts } } : rest;
    }
    case "task.held": {
      if (state.name !== "running" && state.name !== "passed") return state;
      const { held: _, ...rest } = state;
      return event.held ? { ...rest, held: { ...event.held, since: ts } } : rest;
    }
    case "task.files_requested":
      return state.name === "running"
        ? { ...state, wants: { paths: event.paths, reason: event.reason } }
        : state;
    case "task.passed": {
      const { attempt, snapshot, base } = event;
      return { name: "passed", attempt, since: ts, snapshot, base, merged: null };
    }
    case "task.landed":
      return state.name === "passed" ? { ...state, merged: { commit: event.commit, at: ts } } : state;
    case "task.failed":
      return {
        name: "failed",
        attempt: event.attempt,
        since: ts,
        cause: event.cause,
        evidence: event.evidence,
      };
    case "task.retrying": {
      const { not_before, cause, evidence } = event;
      return { name: "retrying", attempts: 0, not_before, cause, evidence };
    }
    case "task.blocked":
      return { name: "blocked", since: ts, needs: event.needs };
    case "task.unblocked":
    case "task.retry_asked":
      return { name: "pending", waits_for: event.waits_for };
    case "task.cancelled":
      return { name: "cancelled", since: ts, by: event.by };
    case "task.files_granted":
      return state.name === "blocked" && state.needs.kind === "files"
        ? { name: "pending", waits_for: [] }
        : state;
    case "task.rejected": {
      const summary = `rejected by ${event.by}: ${event.reason}`;
      const evidence = { summary, log: "", paths: [], landed_since: [] };
      return { name: "failed", attempt: 0, since: ts, cause: "rejected", evidence };
    }
    case "task.approved":
    case "task.progress":
    case "task.publish_requested":
    case "task.snapshot":
    case "task.verdict":
    case "task.inputs_changed":
    case "proc.registered":
    case "proc.completed":
      return state;
    default:
      return event satisfies never;
  }
}
