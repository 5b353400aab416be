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

/** What the state says of the attempt that a commit on the branch names. */
export type Standing =
  /** Passed, and waits for the train. */
  | "on_its_way"
  /** The state does not know that it ended, or ended it as lost, and the task has not landed: the state is older than the branch. */
  | "forgotten"
  /** As above, but a person has to decide about the task first (blocked, cancelled). */
  | "held"
  /** The state knows that it ended otherwise. */
  | "over"
  /** There is no such task, or it has landed already. */
  | "none";

/** A commit of ours that the bus does not have as a landing. */
export interface AheadLanding {
  task: string;
  attempt: number;
  old: string;
  commit: string;
  tree: string;
}

export type Reconciled =
  | { kind: "same" }
  /**
   * The branch was moved, the bus was not told: report these, in order. Then, where there is one, `forgotten` is to be
   * proven anew; what stands on it is looked at after that.
   */
  | { kind: "report"; landings: AheadLanding[]; forgotten?: AheadLanding }
  /** The branch was moved to the train's own candidate, whose task is not on its way any more: it goes back. */
  | { kind: "undo"; why: string }
  /** The run does not go on by itself: somebody moved the branch. */
  | { kind: "foreign"; why: string };

/**
 * Compares branch and bus. `ahead` are the commits from the bus's head (exclusive) to the branch's head, oldest first, or
 * undefined when the bus's head is not an ancestor of it. `candidate` is the train's last one. Trailers alone prove
 * nothing (whoever can write to the branch can write them): they say what to look for in the state, and what is taken
 * over is proven anew.
 */
export function reconcile(
  busHead: string,
  refHead: string | null,
  ahead: readonly AheadCommit[] | undefined,
  standing: (task: string, attempt: number) => Standing,
  candidate: string | null = null,
): Reconciled {
  if (refHead === null)
    return { kind: "foreign", why: `the integration branch is gone; the bus has ${busHead}` };
  if (refHead === busHead) return { kind: "same" };
  if (!ahead)
    return { kind: "foreign", why: `the branch is at ${refHead}, which does not follow from ${busHead}` };
  const landings: AheadLanding[] = [];
  let forgotten: AheadLanding | undefined;
  let at = busHead;
  for (const step of ahead) {
    const { commit, tree, task, attempt } = step;
    if (step.parent !== at || task === undefined || attempt === undefined)
      return { kind: "foreign", why: `commit ${commit} on the branch is not one of this run` };
    const landing = { task, attempt, old: at, commit, tree };
    const stands = standing(task, attempt);
    if (stands === "forgotten") forgotten ??= landing;
    else if (stands !== "on_its_way") {
      const kind = stands === "over" && commit === candidate && ahead.length === 1 ? "undo" : "foreign";
      return { kind, why: `commit ${commit} is of ${task}#${attempt}, ${WORDS[stands](task)}` };
    } else if (!forgotten) landings.push(landing);
    at = commit;
  }
  return { kind: "report", landings, ...(forgotten && { forgotten }) };
}

const WORDS: Record<"held" | "over" | "none", (task: string) => string> = {
  held: (task) =>
    `which this state does not know, and the task is blocked or cancelled: \`busctl retry ${task}\` and \`busctl resume\` let it be proven anew and taken over`,
  over: () => "which is not on its way to land",
  none: () => "and this state has no such task, or has it landed already",
};

/** Whether the state has forgotten that this attempt landed. */
export function standingOf(task: Task | undefined, attempt: number): Standing {
  if (!task) return "none";
  const { state } = task;
  if (state.name === "passed" && state.merged) return "none";
  if (state.name === "passed" && state.attempt === attempt) return "on_its_way";
  const result = task.attempts.find((record) => record.attempt === attempt)?.result;
  if (result !== undefined && result !== "lost" && result !== "infra") return "over";
  return state.name === "blocked" || state.name === "cancelled" ? "held" : "forgotten";
}
