// The number of the next attempt at a task: no number is given twice, also not one whose records are lost.

import type { Task } from "./task.ts";

export function nextAttempt({ attempts, lost_attempts }: Pick<Task, "attempts" | "lost_attempts">): number {
  return Math.max(attempts.at(-1)?.attempt ?? 0, lost_attempts ?? 0) + 1;
}
