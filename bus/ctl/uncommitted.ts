// Agents start from a commit. What the person's checkout holds beside it is not in any workspace, which is told once before
// the run: the commonest reason why an agent "does not see" a file. The checkout is only looked at.

import { relative, resolve, sep } from "node:path";
import { CHECKOUT_LOOK_MS } from "../../schemas/limits.ts";
import type { RepoFacts } from "../git/facts.ts";
import { git } from "../git/run.ts";
import { plural } from "./render/time.ts";
import { oneLine } from "./render/width.ts";

/** Names in the note. */
const SHOWN = 3;

/**
 * Paths of the main checkout that are changed or new and not committed, without the files of the plan, which are read from
 * the disk. A checkout that git cannot tell about in a moment (a huge one, a filter that hangs) says nothing.
 */
export async function uncommittedFiles(
  facts: Pick<RepoFacts, "commonDir" | "topLevel">,
  planFiles: readonly { name: string }[],
): Promise<string[]> {
  const top = facts.topLevel;
  if (top === null) return [];
  const words = ["status", "--porcelain=v1", "-z", "--untracked-files=all", "--no-renames"];
  const answer = await git([...words, "--ignore-submodules=dirty"], {
    cwd: top,
    // What the person ignores everywhere, and filters that make a file equal to what is committed.
    userConfig: true,
    timeoutMs: CHECKOUT_LOOK_MS,
  }).catch(() => undefined);
  if (!answer) return [];
  const own = new Set(planFiles.map(({ name }) => relative(top, resolve(name)).split(sep).join("/")));
  return answer.stdout
    .split("\0")
    .map((entry) => entry.slice(3))
    .filter((path) => path !== "" && !own.has(path));
}

/** One line; undefined: nothing to be told. */
export function uncommittedNote(paths: readonly string[], base: string): string | undefined {
  if (paths.length === 0) return undefined;
  const more = paths.length - SHOWN;
  const names = paths.slice(0, SHOWN).map(oneLine).join(", ") + (more > 0 ? ` and ${more} more` : "");
  const what = `${plural(paths.length, "file of your checkout is", "files of your checkout are")} changed and not committed`;
  return `${what}; agents start from ${base} as committed, without that: ${names}`;
}
