// Whether a grant reaches a path: one rule for the bus, which refuses, and for busctl, which advises. Pure.

import { compilePathSet, literalPath } from "./globs.ts";
import { showId } from "./ids.ts";
import { insideGit } from "./plan/pattern-slip.ts";

/** What no grant reaches over. */
interface Kept {
  /** `protect` of the plan. */
  protect: readonly string[];
  /** `forbidden_files` of the task. */
  forbidden: readonly string[];
}

/** Why a grant of `path` changes nothing, and what holds it; undefined: it helps. A pattern may hold other files and passes. */
export function whyNoGrant(path: string, kept: Kept): { why: string; help: string } | undefined {
  if (insideGit(path))
    return {
      why: "it lies in a git directory, nothing there is ever captured",
      help: "Name files of the repository's work tree.",
    };
  const name = literalPath(path);
  if (name === undefined) return undefined;
  const reach = (pattern: string | undefined, place: string) =>
    `${showId(pattern ?? name)} stands in ${place}; a grant does not reach over it.`;
  const protect = compilePathSet(kept.protect);
  if (protect.matches(name))
    return {
      why: "the plan protects it, nobody may change it",
      help: reach(protect.rule(name), "`protect` of the plan"),
    };
  const forbidden = compilePathSet(kept.forbidden);
  if (forbidden.matches(name))
    return { why: "the task forbids it", help: reach(forbidden.rule(name), "forbidden_files of the task") };
  return undefined;
}
