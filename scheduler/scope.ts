// Whether what an attempt changed was its to change (design section 3.4). Pure: no file system, no git.
//   1. protect of the plan, then forbidden_files, which beats allowed_files; both name file and rule (case 42).
//   2. contracts: read-only to a task that does not declare to change them.
//   3. Whatever the scope: what no change may hold (capture.ts `refused`), links that leave the repository
//      (case 45), names that differ only in case, .gitmodules unless allowed by that name, submodules.

import { linkFault } from "../bus/git/names.ts";
import type { Captured } from "./capture.ts";

/** A compiled list of globs (schemas/globs.ts). */
export interface Matcher {
  matches(path: string): boolean;
  /** The pattern that covers the path. */
  rule(path: string): string | undefined;
}

export interface ScopeSets {
  allowed: Matcher;
  forbidden: Matcher;
  /** Of the plan: no task may change it, whatever is allowed or granted. */
  protect?: Matcher;
  /** Null when the task declares `changes_contracts`. */
  contracts?: Matcher | null;
}

export type ScopeInput = Pick<Captured, "changed" | "outside" | "refused" | "twins" | "submodules"> &
  ScopeSets;

export interface ScopeFault {
  path: string;
  /** Short name of the rule, with the pattern where there is one. */
  rule: string;
  /** One sentence for the agent and for people. */
  why: string;
}

/** Whether a path may be part of the commit; for capture. */
export function inScope(sets: ScopeSets): (path: string) => boolean {
  return (path) => pathRule(path, sets) === undefined;
}

/** Every fault, in order of path; empty when the change is in scope. */
export function scopeFaults(input: ScopeInput): ScopeFault[] {
  const faults: ScopeFault[] = [];
  for (const { path, kind } of [...input.changed, ...input.outside]) {
    const broken = pathRule(path, input);
    if (broken) faults.push({ path, rule: broken.rule, why: `${path} was ${VERB[kind]}, ${broken.why}` });
  }
  for (const { path, target } of input.changed) {
    const why = target === undefined ? undefined : linkFault(path, target);
    if (why !== undefined) faults.push({ path, rule: "link", why: `${path} is a link ${why}` });
  }
  if (
    input.changed.some(({ path }) => path === ".gitmodules") &&
    input.allowed.rule(".gitmodules") !== ".gitmodules"
  )
    faults.push({
      path: ".gitmodules",
      rule: "gitmodules",
      why: ".gitmodules was changed; that must be allowed by its name",
    });
  for (const { path, rule, why } of input.refused) faults.push({ path, rule, why: `${path}: ${why}` });
  for (const { path, twin } of input.twins)
    faults.push({
      path,
      rule: "case",
      why: `${path} differs from ${twin} only in case: one file on some systems`,
    });
  for (const path of input.submodules)
    faults.push({ path, rule: "submodule", why: `${path} lies in a submodule; changes there are not taken` });
  return faults.sort((a, b) => (a.path < b.path ? -1 : a.path > b.path ? 1 : 0));
}

const VERB = { added: "added", modified: "changed", deleted: "deleted", type: "given another type" } as const;

function pathRule(path: string, sets: ScopeSets): { rule: string; why: string } | undefined {
  if (sets.protect?.matches(path)) {
    const pattern = sets.protect.rule(path) ?? path;
    const why = `protected by the plan (${JSON.stringify(pattern)}): nobody may change it`;
    return { rule: `protect: ${pattern}`, why };
  }
  if (sets.forbidden.matches(path)) {
    const pattern = sets.forbidden.rule(path) ?? path;
    return { rule: `forbidden_files: ${pattern}`, why: `forbidden by ${JSON.stringify(pattern)}` };
  }
  if (!sets.allowed.matches(path)) return { rule: "allowed_files", why: "outside allowed_files" };
  if (sets.contracts?.matches(path)) {
    const pattern = sets.contracts.rule(path) ?? path;
    const why = `a contract (${JSON.stringify(pattern)}) that this task does not declare to change`;
    return { rule: `contracts: ${pattern}`, why };
  }
  return undefined;
}
