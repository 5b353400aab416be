// Added paths that differ from another path of the tree only in case, at any level: two files here, one file
// on a file system that does not tell cases apart.

import { pathText, splitNul } from "../bus/git/tree.ts";
import { type Control, controlGit } from "./control.ts";

/** With more directories than this the whole tree is listed: an argument list has its bounds. */
const MAX_DIRECTORIES = 500;

export async function caseTwins(
  control: Control,
  tree: string,
  added: readonly string[],
): Promise<{ path: string; twin: string }[]> {
  if (added.length === 0) return [];
  const names = await namesBeside(control, tree, added);
  return findTwins(
    added,
    names.map((name) => pathText(name) ?? name),
  );
}

/** The files and directories of the tree that lie beside the added paths and their parents, at least. */
async function namesBeside(control: Control, tree: string, added: readonly string[]): Promise<string[]> {
  const parents = new Set(added.flatMap(parentsOf));
  const list = async (...args: string[]) => {
    const command = ["ls-tree", "-z", "--name-only", "--full-tree", ...args];
    return splitNul((await controlGit(control, command, { encoding: "buffer" })).stdoutBuffer);
  };
  // -t: the directories, too.
  if (parents.size > MAX_DIRECTORIES) return list("-r", "-t", tree);
  const dirs = [...parents].filter((dir) => dir !== "").map((dir) => `${dir}/`);
  const [top, below] = await Promise.all([list(tree), dirs.length > 0 ? list(tree, "--", ...dirs) : []]);
  return [...top, ...below];
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
