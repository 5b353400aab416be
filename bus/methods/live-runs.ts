// Which runs a scheduler is told of when it registers. All where something can still happen by itself, and of those that
// are through the newest, so that the answer stays far below the frame limit however long a repository has been worked
// on. A run that was left out comes back by itself: its first event makes the scheduler read it again.

import type { Run, Task } from "../../schemas/task.ts";
import type { StateView } from "../state/view.ts";

/** Some 2 KB each: what the scheduler looks through for places to archive. */
const MAX_SETTLED_TASKS = 1_500;

/** In the order of their submission. */
export function runsForScheduler(view: StateView): { runs: Run[]; tasks: Task[] } {
  const kept: { run: Run; tasks: Task[] }[] = [];
  let room = MAX_SETTLED_TASKS;
  for (const run of [...view.runs()].reverse()) {
    const tasks = [...view.tasks(run.run)];
    if (isSettled(run, tasks)) {
      if (tasks.length > room)
        room = 0; // nor anything older
      else room -= tasks.length;
      if (room === 0) continue;
    }
    kept.push({ run, tasks });
  }
  kept.reverse();
  return { runs: kept.map(({ run }) => run), tasks: kept.flatMap(({ tasks }) => tasks) };
}

function isSettled(run: Run, tasks: readonly Task[]): boolean {
  if (run.spec.into !== undefined && run.into?.head !== run.head) return false;
  return tasks.every(({ state: s }) => s.name === "cancelled" || (s.name === "passed" && s.merged !== null));
}
