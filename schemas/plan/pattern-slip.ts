// Patterns that are sound and yet cannot mean what their writer had in mind: they name a place outside the repository, or one
// that is never captured. Said where the pattern matches nothing; a file may be called `~` or `$HOME` all the same.

import { showId } from "../ids.ts";

export interface Slip {
  what: string;
  hint: string;
}

/** What is likely wrong with a sound pattern; undefined: nothing. `matches`: it covers a file of the base. */
export function patternSlip(pattern: string, matches: boolean): Slip | undefined {
  if (matches) return undefined;
  if (pattern.startsWith("/"))
    return {
      what: `is read from the top of the repository, as ${showId(pattern.replace(/^\/+/, ""))}`,
      hint: "leave the first '/' away; what lies outside the repository cannot be named",
    };
  const [first = ""] = pattern.split("/");
  if (/^(~.*|\$\w+|\$\{\w+\})$/.test(first))
    return {
      what: `begins with ${showId(first)}, which is read letter by letter`,
      hint: "patterns start at the top of the repository; nothing in them is filled in",
    };
  return undefined;
}

/** Whether all that the pattern covers lies in a git directory, which no work is captured from. */
export function insideGit(pattern: string): boolean {
  return pattern.split("/").some((part) => part.toLowerCase() === ".git");
}
