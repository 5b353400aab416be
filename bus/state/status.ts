// What is derived from a run and its tasks, never stored.

import { integrationBranch } from "../../schemas/ids.ts";
import type { RunSummary } from "../../schemas/methods.ts";
import type { Run, RunStatus, Task } from "../../schemas/task.ts";

/** True while the task can still move without a person. A blocked or pending one cannot by itself. */
function moves(task: Task): boolean {
  switch (task.state.name) {
    case "ready":
    case "running":
    case "failed":
    case "retrying":
      return true;
    case "passed":
      return task.state.merged === null;
    case "pending":
    case "blocked":
    case "cancelled":
      return false;
  }
}

/** A run is live while any task can still move by itself; pending ones wait for such a task or for nothing. */
export function isLive(_run: Run, tasks: Iterable<Task>): boolean {
  for (const task of tasks) if (moves(task)) return true;
  return false;
}

/**
 * merged: every task is done. cancelled: every task was cancelled, and nothing has landed.
 * incomplete: nothing moves, and something is blocked or was cancelled while other work landed. paused: live, but nothing new is started.
 */
export function runStatus(run: Run, tasks: Iterable<Task>): RunStatus {
  let live = false;
  let done = 0;
  let total = 0;
  let cancelled = 0;
  for (const task of tasks) {
    total += 1;
    if (moves(task)) live = true;
    if (task.state.name === "passed" && task.state.merged) done += 1;
    if (task.state.name === "cancelled") cancelled += 1;
  }
  if (live) return run.paused ? "paused" : "active";
  if (done === total) return "merged";
  return cancelled === total ? "cancelled" : "incomplete";
}

export function runSummary(run: Run, tasks: Iterable<Task>): RunSummary {
  const all = [...tasks];
  const counts = new Map<string, number>();
  let merged = 0;
  for (const { state } of all) {
    counts.set(state.name, (counts.get(state.name) ?? 0) + 1);
    if (state.name === "passed" && state.merged) merged += 1;
  }
  const status = runStatus(run, all);
  // Of what is over, nobody has to know what it waited for.
  const over = status === "cancelled" || status === "merged";
  return {
    run: run.run,
    status,
    ...(!over && run.paused && run.paused_why !== undefined ? { paused_why: run.paused_why } : {}),
    repo: run.spec.repo,
    base: run.spec.base,
    base_name: run.spec.base_name,
    branch: integrationBranch(run.run),
    head: run.head,
    created: run.created,
    counts: Object.fromEntries(counts),
    total: all.length,
    merged,
    gate: run.spec.gate === "none" ? "none" : "checks",
  };
}
