// From an event to the state: the one reducer, used by live changes and by replay alike, so that both agree.
// Tasks move by the state machine; what an event means beyond its own task (a landing frees its dependents' list,
// moves the head of the run; a claim opens version 0 of a workspace) stands here.

import { BusbarError } from "../../schemas/errors.ts";
import type { AnyEvent, NewTask, TaskEvent } from "../../schemas/events.ts";
import { showId, taskKey } from "../../schemas/ids.ts";
import type { Run, Task } from "../../schemas/task.ts";
import type { Layer, RunIndex } from "./layer.ts";
import { applyTask } from "./task-machine.ts";
import type { EventDraft, Snapshot } from "./view.ts";

/** Puts the effect of one event into `layer`; returns the task's new state_version, where there is a task. */
export function applyEvent(layer: Layer, draft: EventDraft, at: string): number | undefined {
  const { event } = draft;
  switch (event.type) {
    case "worker.registered":
    case "worker.gone":
    case "journal.removed":
      return undefined; // a worker lives as long as its connection; nothing to keep
    case "journal.gap":
    case "attempts.passed_over":
      passOver(layer, event.used);
      return undefined;
    case "run.submitted":
      submitted(layer, need(draft.run, event), event, at);
      return undefined;
    case "run.tasks_added":
      putTasks(layer, existingRun(layer, draft), event.tasks);
      return undefined;
    case "run.paused":
      layer.putRun(pausedRun(existingRun(layer, draft), true, event.why));
      return undefined;
    case "run.resumed":
      layer.putRun(pausedRun(existingRun(layer, draft), false, undefined));
      return undefined;
    case "run.head_moved":
      layer.putRun({ ...existingRun(layer, draft), head: event.head });
      return undefined;
    case "run.into": {
      const { type: _, ...into } = event;
      layer.putRun({ ...existingRun(layer, draft), into: { ...into, at } });
      return undefined;
    }
    default:
      return taskEvent(layer, draft, event, at);
  }
}

/** Numbers of attempts that were given in a part of the journal that is lost. */
function passOver(layer: Layer, used: Record<string, number>): void {
  for (const [key, lost_attempts] of Object.entries(used)) {
    const [run = "", task = ""] = key.split("/");
    const there = layer.task(run, task);
    if (there) layer.putTask({ ...there, lost_attempts });
  }
}

function pausedRun(run: Run, paused: boolean, why: string | undefined): Run {
  const { paused_why: _, ...rest } = run;
  return { ...rest, paused, ...(why === undefined ? {} : { paused_why: why }) };
}

function submitted(
  layer: Layer,
  id: string,
  event: Extract<AnyEvent, { type: "run.submitted" }>,
  at: string,
): void {
  const { spec, plan_hash, by, tasks } = event;
  const run: Run = {
    run: id,
    spec,
    plan_hash,
    created: at,
    by,
    paused: false,
    head: spec.base,
    landed: [],
    order: [],
  };
  putTasks(layer, run, tasks);
}

function putTasks(layer: Layer, run: Run, added: NewTask[]): void {
  for (const { spec, wave, waits_for } of added) {
    const task: Task = {
      run: run.run,
      spec,
      wave,
      state: { name: "pending", waits_for },
      state_version: 1,
      attempts: [],
      counts: {},
      granted: [],
    };
    layer.putTask(task);
  }
  layer.putRun({ ...run, order: [...run.order, ...added.map((t) => t.spec.id)] });
  layer.putIndex(
    run.run,
    extendIndex(
      layer.index(run.run),
      added.map((t) => ({ id: t.spec.id, wave: t.wave, deps: t.spec.depends_on })),
    ),
  );
}

/** The index with some tasks more; the old one is left as it is. */
export function extendIndex(
  old: RunIndex | undefined,
  added: { id: string; wave: number; deps: readonly string[] }[],
): RunIndex {
  const dependents = new Map<string, string[]>([...(old?.dependents ?? [])].map(([k, v]) => [k, [...v]]));
  const waves = new Map<number, string[]>([...(old?.waves ?? [])].map(([k, v]) => [k, [...v]]));
  for (const { id, wave, deps } of added) {
    push(waves, wave, id);
    for (const dep of new Set(deps)) push(dependents, dep, id);
  }
  return { dependents, waves };
}

function push<K>(map: Map<K, string[]>, key: K, value: string): void {
  const list = map.get(key);
  if (list) list.push(value);
  else map.set(key, [value]);
}

function taskEvent(layer: Layer, draft: EventDraft, event: TaskEvent, at: string): number {
  const run = need(draft.run, event);
  const id = need(draft.task, event);
  const before = layer.task(run, id);
  if (!before) {
    throw new BusbarError("NO_SUCH_TASK", `${event.type}: there is no task ${showId(taskKey(run, id))}`, {
      run,
      task: id,
    });
  }
  const after = applyTask(before, event, at);
  layer.putTask(after);
  if (event.type === "task.claimed") openShots(layer, run, id, event);
  if (event.type === "task.snapshot") addShot(layer, run, id, event);
  if (event.type === "task.landed") landed(layer, run, id, event, at);
  return after.state_version;
}

/** Version 0: the base. Its tree is named where a landing told it; else by the commit, which git takes as a tree too. */
function openShots(
  layer: Layer,
  run: string,
  task: string,
  event: Extract<TaskEvent, { type: "task.claimed" }>,
): void {
  const { attempt, base } = event;
  const tree = layer.run(run)?.landed.findLast((l) => l.commit === base)?.tree ?? base;
  const zero: Snapshot = {
    version: 0,
    commit: base,
    tree,
    changed_count: 0,
    attempt,
    base,
    changed: new Map(),
  };
  layer.putShots(run, task, new Map([...layer.shots(run, task), [attempt, [zero]]]));
}

function addShot(
  layer: Layer,
  run: string,
  task: string,
  event: Extract<TaskEvent, { type: "task.snapshot" }>,
): void {
  const { attempt, snapshot, base, changed } = event;
  const shot: Snapshot = { ...snapshot, attempt, base, changed: new Map(changed.map((c) => [c.path, c])) };
  const shots = layer.shots(run, task);
  layer.putShots(run, task, new Map([...shots, [attempt, [...(shots.get(attempt) ?? []), shot]]]));
}

function landed(
  layer: Layer,
  run: string,
  task: string,
  event: Extract<TaskEvent, { type: "task.landed" }>,
  at: string,
): void {
  const { attempt, commit, tree, recovered } = event;
  const now = layer.run(run);
  if (now && commit !== null && tree !== null) {
    const landing = { task, attempt, commit, tree, at, ...(recovered !== undefined && { recovered }) };
    layer.putRun({ ...now, head: commit, landed: [...now.landed, landing] });
  }
  for (const id of layer.dependents(run, task)) {
    const waiting = layer.task(run, id);
    if (waiting?.state.name !== "pending" || !waiting.state.waits_for.includes(task)) continue;
    const waits_for = waiting.state.waits_for.filter((w) => w !== task);
    layer.putTask({ ...waiting, state: { name: "pending", waits_for } });
  }
}

function existingRun(layer: Layer, draft: EventDraft): Run {
  const id = need(draft.run, draft.event);
  const run = layer.run(id);
  if (!run)
    throw new BusbarError("NO_SUCH_RUN", `${draft.event.type}: there is no run ${showId(id)}`, { run: id });
  return run;
}

function need(value: string | undefined, event: AnyEvent): string {
  if (value === undefined) throw new BusbarError("INTERNAL", `${event.type} without run or task`);
  return value;
}
