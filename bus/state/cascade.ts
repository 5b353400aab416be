// What one task's move means for the others of its run. Pure; works on a draft, in the same transaction (B5).
//
// downstream of a task: all that depend on it, directly or through others; with `schedule: waves` also every task
// of a higher wave, since a wave opens only when all lower ones are done.
// 1. merged          -> tasks that have nothing left to wait for become ready.
// 2. blocked or cancelled (the root) -> every pending task downstream becomes blocked{upstream}, naming the root.
// 3. the root is back (retry, grant, approval) -> what it had blocked becomes pending again, or names another
//    root that still stands in the way.

import type { Need, Task } from "../../schemas/task.ts";
import type { Draft } from "./draft.ts";
import type { IndexedView } from "./layer.ts";

type Upstream = Extract<Need, { kind: "upstream" }>;

/** Done: merged, or nothing to merge. */
export function isDone(task: Task): boolean {
  return task.state.name === "passed" && task.state.merged !== null;
}

/** Dependencies that are not merged yet. */
export function openDeps(view: IndexedView, task: Pick<Task, "run" | "spec">): string[] {
  return [...new Set(task.spec.depends_on)].filter((dep) => {
    const found = view.task(task.run, dep);
    return !found || !isDone(found);
  });
}

/** Makes `ids` ready where they are pending and nothing holds them; returns those that became ready. */
export function readyAmong(d: Draft, run: string, ids: Iterable<string>): string[] {
  const ready: string[] = [];
  const waveOpen = waveGate(d, run);
  for (const id of ids) {
    const task = d.task(run, id);
    if (task?.state.name !== "pending" || task.state.waits_for.length > 0 || !waveOpen(task.wave)) continue;
    d.emitTask(task, { type: "task.ready" });
    ready.push(id);
  }
  return ready;
}

/** After `task` is done: its dependents, and with waves the next wave when this one is through. */
export function readyAfter(d: Draft, task: Task): string[] {
  const ready = readyAmong(d, task.run, d.dependents(task.run, task.spec.id));
  if (d.mustRun(task.run).spec.schedule !== "waves" || !waveDone(d, task.run, task.wave)) return ready;
  for (const wave of d.waves(task.run)) {
    if (wave <= task.wave) continue;
    ready.push(...readyAmong(d, task.run, d.waveTasks(task.run, wave)));
    if (!waveDone(d, task.run, wave)) break;
  }
  return ready;
}

function waveDone(view: IndexedView, run: string, wave: number): boolean {
  return view.waveTasks(run, wave).every((id) => {
    const task = view.task(run, id);
    return task !== undefined && isDone(task);
  });
}

/** Whether tasks of a wave may start; each wave is looked at once. */
function waveGate(d: Draft, run: string): (wave: number) => boolean {
  if (d.mustRun(run).spec.schedule !== "waves") return () => true;
  const firstOpen = d.waves(run).find((wave) => !waveDone(d, run, wave));
  return (wave) => firstOpen === undefined || wave <= firstOpen;
}

/** Blocks what is pending downstream of `root`, which has just become blocked or cancelled. */
export function blockDownstream(d: Draft, root: Task): string[] {
  const needs = upstreamNeed(root);
  if (!needs) return [];
  const blocked: string[] = [];
  for (const id of downstream(d, root)) {
    const task = d.task(root.run, id);
    if (task?.state.name !== "pending") continue;
    d.emitTask(task, { type: "task.blocked", needs });
    blocked.push(id);
  }
  return blocked;
}

/** Frees what `root` had blocked, now that it can move again. Call after the root's own event. */
export function unblockDownstream(d: Draft, root: Task): void {
  const held = downstream(d, root)
    .map((id) => d.mustTask(root.run, id))
    .filter((t) => upstreamOf(t)?.root === root.spec.id)
    .sort((a, b) => a.wave - b.wave); // a task's upstream is settled before the task itself
  const wavesHeld = waveHolder(d, root);
  for (const task of held) {
    const other = rootAbove(d, task) ?? wavesHeld(task.wave);
    if (other) d.emitTask(task, { type: "task.blocked", needs: other });
    else d.emitTask(task, { type: "task.unblocked", waits_for: openDeps(d, task) });
  }
  readyAmong(
    d,
    root.run,
    held.map((t) => t.spec.id),
  );
}

/** For a task that is just coming in or coming back: the root that stands in its way, if any. */
export function rootAbove(d: Draft, task: Pick<Task, "run" | "spec">): Upstream | undefined {
  for (const dep of task.spec.depends_on) {
    const found = d.task(task.run, dep);
    const need = found && upstreamNeed(found);
    if (need) return need;
  }
  return undefined;
}

/** With waves: a blocked or cancelled task of a lower wave holds all higher ones. */
export function waveHolder(d: Draft, of: Pick<Task, "run">): (wave: number) => Upstream | undefined {
  if (d.mustRun(of.run).spec.schedule !== "waves") return () => undefined;
  let lowest: Task | undefined;
  for (const task of d.tasks(of.run)) {
    if (upstreamNeed(task) && !upstreamOf(task) && (!lowest || task.wave < lowest.wave)) lowest = task;
  }
  const holder = lowest;
  return (wave) => (holder && holder.wave < wave ? upstreamNeed(holder) : undefined);
}

/** Ids downstream of `root`, nearest first, each once. */
function downstream(d: Draft, root: Task): string[] {
  const seen = new Set<string>([root.spec.id]);
  const order: string[] = [root.spec.id];
  for (let i = 0; i < order.length; i++) {
    for (const next of d.dependents(root.run, order[i]!)) {
      if (seen.has(next)) continue;
      seen.add(next);
      order.push(next);
    }
  }
  if (d.mustRun(root.run).spec.schedule === "waves") {
    for (const wave of d.waves(root.run)) {
      if (wave <= root.wave) continue;
      for (const id of d.waveTasks(root.run, wave)) if (!seen.has(id)) order.push(id);
    }
  }
  return order.slice(1);
}

function upstreamOf(task: Task): Upstream | undefined {
  const s = task.state;
  return s.name === "blocked" && s.needs.kind === "upstream" ? s.needs : undefined;
}

/** What others are told about a task that stands in their way; undefined when it does not. */
function upstreamNeed(task: Task): Upstream | undefined {
  const s = task.state;
  if (s.name === "cancelled") {
    return { kind: "upstream", root: task.spec.id, state: "cancelled", cause: `cancelled by ${s.by}` };
  }
  if (s.name !== "blocked") return undefined;
  if (s.needs.kind === "upstream") return s.needs;
  const cause =
    s.needs.kind === "retries_used"
      ? `${s.needs.cause}: ${s.needs.evidence.summary}`
      : s.needs.kind === "files"
        ? `asks for ${s.needs.paths.join(", ")}`
        : "waits for review";
  return { kind: "upstream", root: task.spec.id, state: "blocked", cause };
}
