// Short moves for tests of decisions: all on run "r" of a draft.

import { claim } from "../../bus/state/decide-attempt.ts";
import { submit } from "../../bus/state/decide-run.ts";
import { land, settle } from "../../bus/state/decide-settle.ts";
import type { Draft } from "../../bus/state/draft.ts";
import type { AttemptRef } from "../../schemas/ids.ts";
import type { Cause, Evidence, TaskSpec, TaskState } from "../../schemas/task.ts";
import { HALF, oid, runSpec } from "./state.ts";

export const at = (d: Draft, task: string): TaskState => d.mustTask("r", task).state;

/** The state in one line. */
export function said(d: Draft, task: string): string {
  const s = at(d, task);
  if (s.name !== "blocked") return s.name;
  if (s.needs.kind === "upstream")
    return `blocked upstream ${s.needs.root} ${s.needs.state}: ${s.needs.cause}`;
  return `blocked ${s.needs.kind}${s.needs.kind === "retries_used" ? ` ${s.needs.cause}` : ""}`;
}

/** Claims a ready or retrying task (the back-off is over) from the head of the run. */
export function go(d: Draft, task: string): AttemptRef {
  if (at(d, task).name === "retrying") d.emitTask(d.mustTask("r", task), { type: "task.ready" });
  const { state_version } = d.mustTask("r", task);
  const base = d.mustRun("r").head;
  const { attempt } = claim(d, { run: "r", task, state_version, worker: "w", base, workspace: "/w" });
  return { run: "r", task, attempt };
}

/** The attempt at work fails; claims first where none is. */
export function fails(d: Draft, task: string, cause: Cause, more: Partial<Evidence> = {}): void {
  const s = at(d, task);
  const ref = s.name === "running" ? { run: "r", task, attempt: s.attempt } : go(d, task);
  const evidence = { summary: cause, log: "", paths: [], landed_since: [], ...more };
  settle(d, { ...ref, result: { kind: "failed", cause, evidence } }, HALF);
}

/** The attempt settles as passed with a snapshot. */
export function moved(d: Draft, ref: AttemptRef): void {
  const base = d.mustRun("r").head;
  const snapshot = { version: 1, commit: oid(0x500 + ref.attempt), tree: oid(0x600), changed_count: 1 };
  settle(d, { ...ref, result: { kind: "passed", snapshot, base } }, HALF);
}

/** Claims, passes and lands as commit `n`. */
export function passes(d: Draft, task: string, n: number): void {
  const ref = go(d, task);
  moved(d, ref);
  land(d, { ...ref, old_head: d.mustRun("r").head, commit: oid(n), tree: oid(0x700 + n) });
}

export function addTasksLike(d: Draft, tasks: TaskSpec[]): unknown {
  return submit(d, { spec: runSpec("r", tasks), add_to: "r" }, "me", "unused");
}
