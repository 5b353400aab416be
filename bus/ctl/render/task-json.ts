// The stable JSON shape of a task in the answers of `tasks`, `run` and `report`. Fields are only ever added.

import type { Task } from "../../../schemas/task.ts";
import { adviceFor } from "./advice.ts";
import { rowOf } from "./row.ts";

export function taskJson(task: Task) {
  const { state, spec } = task;
  const row = rowOf(task);
  return {
    run: task.run,
    task: spec.id,
    /** As people see it: a passed task is `landing`, then `merged`. */
    state: row.shown,
    wave: task.wave,
    priority: spec.priority,
    depends_on: spec.depends_on,
    attempt: row.attempt === 0 ? null : row.attempt,
    attempts: task.attempts.length,
    phase: state.name === "running" ? state.phase : null,
    doubt: state.name === "running" ? (state.doubt ?? null) : null,
    held: state.name === "running" || state.name === "passed" ? (state.held ?? null) : null,
    cause:
      state.name === "failed" || state.name === "retrying"
        ? state.cause
        : state.name === "blocked" && state.needs.kind === "retries_used"
          ? state.needs.cause
          : null,
    since: row.since === 0 ? null : new Date(row.since).toISOString(),
    note: row.note,
    waits_for: state.name === "pending" ? state.waits_for : [],
    needs: state.name === "blocked" ? state.needs : null,
    commit: state.name === "passed" ? (state.merged?.commit ?? null) : null,
    snapshot: state.name === "passed" ? (state.snapshot?.commit ?? null) : null,
    advice: adviceFor(task) ?? null,
    state_version: task.state_version,
  };
}
