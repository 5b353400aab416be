// A decision in the making: each event is applied to a layer of its own at once, so that the next question sees it.

import { BusbarError } from "../../schemas/errors.ts";
import type { AnyEvent } from "../../schemas/events.ts";
import { showId, taskKey } from "../../schemas/ids.ts";
import type { Run, Task } from "../../schemas/task.ts";
import { applyEvent } from "./apply.ts";
import { Layer } from "./layer.ts";
import type { EventDraft } from "./view.ts";

export class Draft extends Layer {
  readonly events: EventDraft[] = [];
  /** Beside `events`: the task's state_version after each. */
  readonly versions: (number | undefined)[] = [];
  readonly at: string;

  /** `now` in milliseconds since 1970. */
  constructor(
    below: Layer,
    readonly now: number,
  ) {
    super(below);
    this.at = new Date(now).toISOString();
  }

  /** Throws what the state machine throws; then nothing of this event is kept. */
  emit(target: Omit<EventDraft, "event">, event: AnyEvent): void {
    const draft: EventDraft = { ...target, event };
    const version = applyEvent(this, draft, this.at);
    this.events.push(draft);
    this.versions.push(version);
  }

  /** An event of a task; the attempt is taken from the event where it has one. */
  emitTask(task: Task, event: Extract<AnyEvent, { type: `task.${string}` | `proc.${string}` }>): Task {
    const attempt = "attempt" in event ? { attempt: event.attempt } : {};
    this.emit({ run: task.run, task: task.spec.id, ...attempt }, event);
    return this.mustTask(task.run, task.spec.id);
  }

  mustRun(run: string): Run {
    const found = this.run(run);
    if (!found) throw new BusbarError("NO_SUCH_RUN", `there is no run ${showId(run)}`, { run });
    return found;
  }

  mustTask(run: string, task: string): Task {
    const found = this.task(this.mustRun(run).run, task);
    if (!found) {
      throw new BusbarError("NO_SUCH_TASK", `run ${showId(run)} has no task ${showId(task)}`, { run, task });
    }
    return found;
  }
}

/** The task, seen from a report about one of its attempts: FENCED unless that attempt is the newest. */
export function newestAttempt(task: Task, attempt: number): NonNullable<Task["attempts"][number]> {
  const newest = task.attempts.at(-1);
  if (!newest || newest.attempt !== attempt) {
    throw new BusbarError(
      "FENCED",
      `attempt ${attempt} of task ${showId(taskKey(task.run, task.spec.id))} is over; the newest is ${newest?.attempt ?? 0}`,
      { run: task.run, task: task.spec.id, attempt, newest: newest?.attempt ?? 0 },
    );
  }
  return newest;
}
