// What lands next (design section 7), and what a look at the branch and the bus's head means. Pure.
//
// The train of a run is the queue of its passed tasks that are not merged. Order: dependencies first (a dependent is
// claimed only after what it needs is merged, so this holds by itself; it is checked all the same), then priority,
// then arrival, then the place in the plan. Today the window is one: one candidate is proven at a time.
// A wider window takes the first k of `trainOrder`.

import type { Task } from "../schemas/task.ts";

type PassedTask = Task & { state: Extract<Task["state"], { name: "passed" }> };

/** The queue, first to land first. `merged` says whether a task id is on the branch. */
export function trainOrder(
  passed: Iterable<Task>,
  orderOf: (task: string) => number,
  merged: (task: string) => boolean,
): PassedTask[] {
  const queue: PassedTask[] = [];
  for (const task of passed) if (isWaiting(task) && task.spec.depends_on.every(merged)) queue.push(task);
  return queue.sort(
    (a, b) =>
      a.spec.priority - b.spec.priority ||
      (a.state.since < b.state.since ? -1 : a.state.since > b.state.since ? 1 : 0) ||
      orderOf(a.spec.id) - orderOf(b.spec.id),
  );
}

function isWaiting(task: Task): task is PassedTask {
  return task.state.name === "passed" && task.state.merged === null && task.state.snapshot !== null;
}

/** A commit between the bus's head and the branch, with what its trailers say. */
export interface AheadCommit {
  commit: string;
  tree: string;
  parent: string | null;
  task?: string;
  attempt?: number;
}

export type Reconciled =
  | { kind: "same" }
  /** The branch was moved, the bus was not told: report these, in order. */
  | {
      kind: "report";
      landings: { task: string; attempt: number; old: string; commit: string; tree: string }[];
    }
  /** The branch was moved to the train's own candidate, whose task is not on its way any more: it goes back. */
  | { kind: "undo"; why: string }
  /** The run does not go on by itself: somebody moved the branch. */
  | { kind: "foreign"; why: string };

/**
 * Compares branch and bus after a restart. `ahead` are the commits from the bus's head (exclusive) to the branch's
 * head, oldest first, or undefined when the bus's head is not an ancestor of it. `candidate` is the train's last one.
 */
export function reconcile(
  busHead: string,
  refHead: string | null,
  ahead: readonly AheadCommit[] | undefined,
  isPassed: (task: string, attempt: number) => boolean,
  candidate: string | null = null,
): Reconciled {
  if (refHead === null)
    return { kind: "foreign", why: `the integration branch is gone; the bus has ${busHead}` };
  if (refHead === busHead) return { kind: "same" };
  if (!ahead)
    return { kind: "foreign", why: `the branch is at ${refHead}, which does not follow from ${busHead}` };
  const landings: { task: string; attempt: number; old: string; commit: string; tree: string }[] = [];
  let at = busHead;
  for (const step of ahead) {
    if (step.parent !== at || step.task === undefined || step.attempt === undefined)
      return { kind: "foreign", why: `commit ${step.commit} on the branch is not one of this run` };
    if (!isPassed(step.task, step.attempt)) {
      const kind = step.commit === candidate && ahead.length === 1 ? "undo" : "foreign";
      const of = `${step.task}#${step.attempt}`;
      return { kind, why: `commit ${step.commit} is of ${of}, which is not on its way to land` };
    }
    landings.push({ task: step.task, attempt: step.attempt, old: at, commit: step.commit, tree: step.tree });
    at = step.commit;
  }
  return { kind: "report", landings };
}
