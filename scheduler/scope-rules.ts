// Which patterns are allowed and forbidden to a task of a run. Pure; scope.ts judges what was captured by them.

import { compilePathSet } from "../schemas/globs.ts";
import type { Run, Task } from "../schemas/task.ts";
import type { ScopeSets } from "./scope.ts";

/**
 * Allowed: the plan's list and what a person granted since. Forbidden: the task's list. Protected: by the plan, because
 * checks run with the base's version of them and what lands must be what was checked. Contracts: read-only, unless the
 * task declares to change them.
 */
export function scopeOf(task: Task, run: Run): ScopeSets {
  return {
    allowed: compilePathSet([...task.spec.allowed_files, ...task.granted]),
    forbidden: compilePathSet(task.spec.forbidden_files),
    protect: compilePathSet(run.spec.protect),
    contracts: task.spec.changes_contracts ? null : compilePathSet(run.spec.contracts),
  };
}

/** The same in words, for the agent. */
export function forbiddenFor(task: Task, run: Run): string[] {
  const contracts = task.spec.changes_contracts ? [] : run.spec.contracts;
  return [...new Set([...task.spec.forbidden_files, ...run.spec.protect, ...contracts])];
}
