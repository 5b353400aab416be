// Added paths that differ from another path of the tree only in case, at any level: two files here, one file
// on a file system that does not tell cases apart.

import { pathText, splitNul } from "../bus/git/tree.ts";
import { type Control, controlGit } from "./control.ts";

/** More directories than this are not looked at: an argument list has its bounds. */
const MAX_DIRECTORIES = 500;

export async function caseTwins(
  control: Control,
  tree: string,
  added: readonly string[],
): Promise<{ path: string; twin: string }[]> {
  const parents = new Set(added.flatMap(parentsOf));
  if (added.length === 0 || parents.size > MAX_DIRECTORIES) return [];
  const dirs = [...parents].filter((dir) => dir !== "").map((dir) => `${dir}/`);
  const list = (...paths: string[]) =>
    controlGit(control, ["ls-tree", "-z", "--name-only", "--full-tree", tree, "--", ...paths], {
      encoding: "buffer",
    });
  const [top, below] = await Promise.all([list(), dirs.length > 0 ? list(...dirs) : null]);
  const names = [...splitNul(top.stdoutBuffer), ...(below ? splitNul(below.stdoutBuffer) : [])];
  return findTwins(
    added,
    names.map((name) => pathText(name) ?? name),
  );
}

function parentsOf(path: string): string[] {
  const parts = path.split("/");
  return parts.map((_, n) => parts.slice(0, n).join("/"));
}

/** Pure part: `names` are the entries (files and directories) beside the added paths and their parents. */
export function findTwins(
  added: readonly string[],
  names: readonly string[],
): { path: string; twin: string }[] {
  const byFold = new Map<string, Set<string>>();
  for (const name of names) {
    const fold = foldCase(name);
    byFold.set(fold, (byFold.get(fold) ?? new Set()).add(name));
  }
  const twins: { path: string; twin: string }[] = [];
  for (const path of added) {
    const levels = [path, ...parentsOf(path).slice(1).reverse()];
    const twin = levels.flatMap((level) =>
      [...(byFold.get(foldCase(level)) ?? [])].filter((name) => name !== level),
    )[0];
    if (twin !== undefined) twins.push({ path, twin });
  }
  return twins;
}

function foldCase(path: string): string {
  return path.normalize("NFC").toLowerCase();
}
