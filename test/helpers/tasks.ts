// Tasks and runs for tests of deciding code: everything has a value, a test names what it is about.

import type { Run, RunSpec, Task, TaskSpec, TaskState } from "../../schemas/task.ts";
import { RunSpec as RunSpecSchema, TaskSpec as TaskSpecSchema } from "../../schemas/task.ts";

export const OID = (digit: string): string => digit.repeat(40);

export function specOf(id: string, more: Partial<TaskSpec> = {}): TaskSpec {
  const agent = { use: "command", args: [] };
  const least = {
    id,
    goal: `goal of ${id}`,
    command: "true",
    agent,
    allowed_files: ["**"],
    timeout_s: 60,
    retries: 0,
  };
  return TaskSpecSchema.parse({ ...least, ...more });
}

export function runSpecOf(run: string, tasks: TaskSpec[], more: Partial<RunSpec> = {}): RunSpec {
  const base = { base: OID("a"), base_name: "main" };
  // Agents of tests leave their marks beside the workspace.
  const least = { run, repo: "/r/.git", ...base, workers: 8, gate: "none", sandbox: "off", tasks };
  return RunSpecSchema.parse({ ...least, ...more });
}

export function taskOf(spec: TaskSpec, state: TaskState, more: Partial<Task> = {}): Task {
  return { run: "r", spec, wave: 0, state, state_version: 1, attempts: [], counts: {}, granted: [], ...more };
}

export function runOf(spec: RunSpec, more: Partial<Run> = {}): Run {
  const { tasks, ...rest } = spec;
  return {
    run: spec.run,
    spec: rest,
    plan_hash: "h",
    created: AT,
    by: "person",
    paused: false,
    head: spec.base,
    landed: [],
    order: tasks.map((task) => task.id),
    ...more,
  };
}

export const AT = "2026-01-02T03:04:05.000Z";

export const ready = (since = AT): TaskState => ({ name: "ready", since });
export const running = (attempt = 1): TaskState => ({
  name: "running",
  attempt,
  worker: "w",
  phase: "agent",
  since: AT,
  lease_until: AT,
  workspace: "/ws",
  base: OID("a"),
});
export const passed = (since = AT, merged = false): TaskState => ({
  name: "passed",
  attempt: 1,
  since,
  snapshot: { version: 1, commit: OID("b"), tree: OID("c"), changed_count: 1 },
  base: OID("a"),
  merged: merged ? { commit: OID("d"), at: since } : null,
});
