// Our index lies where an agent, which is the same user, can write. What it says is not believed: an entry that
// was changed there together with the file passes for unchanged. The tree is therefore compared with the base,
// object by object: it must differ in exactly what was found, so that all of it went through the scope.

import { parseRaw, pathBytes, showName, splitNul } from "../bus/git/tree.ts";
import { faultPoint } from "../schemas/fault-points.ts";
import { placeOptions } from "./checkout.ts";
import { type Control, controlGit } from "./control.ts";
import type { Workspace } from "./workspace.ts";

/** What of a captured change stands in a tree. */
interface Entry {
  path: string;
  oldMode: string | null;
  oldOid: string | null;
  mode: string | null;
  oid: string | null;
}

/** Paths in which `tree` differs from `base` otherwise than `changed` says. Empty: the list tells all. */
export async function unaccounted(
  control: Control,
  trees: { base: string; tree: string },
  changed: readonly Entry[],
): Promise<string[]> {
  const { stdoutBuffer } = await controlGit(
    control,
    ["diff-tree", "-r", "-z", "--raw", "--no-renames", "--no-abbrev", trees.base, trees.tree],
    { encoding: "buffer" },
  );
  const found = new Map(parseRaw(stdoutBuffer).map((change) => [change.name, entryKey(change)]));
  const wanted = new Map(changed.map((change) => [pathBytes(change.path), changeKey(control, change)]));
  const names = new Set([...found.keys(), ...wanted.keys()]);
  return [...names].filter((name) => found.get(name) !== wanted.get(name)).map(showName);
}

function entryKey(entry: { oldMode: string; oldOid: string; mode: string; oid: string }): string {
  return `${entry.oldMode} ${entry.oldOid} ${entry.mode} ${entry.oid}`;
}

function changeKey(control: Control, change: Entry): string {
  const zero = "0".repeat(control.objectFormat === "sha256" ? 64 : 40);
  const { oldMode, oldOid, mode, oid } = change;
  return entryKey({
    oldMode: oldMode ?? "000000",
    oldOid: oldOid ?? zero,
    mode: mode ?? "000000",
    oid: oid ?? zero,
  });
}

/**
 * A new index of `base` at `index`, with no stat data: every file is read again. What a sparse checkout left out
 * is still taken from the old index; that mark can hide no more than the absence of a file.
 */
export async function freshIndex(
  control: Control,
  workspace: Workspace,
  base: string,
  index: string,
): Promise<void> {
  const options = placeOptions({ work: workspace.work, index });
  faultPoint("scheduler.capture.before-read-base");
  await controlGit(control, ["read-tree", base], options);
  if (!workspace.sparse) return;
  const old = placeOptions({ work: workspace.work, index: workspace.index });
  const [marked, present] = await Promise.all([
    controlGit(control, ["ls-files", "-t", "-z"], { ...old, encoding: "buffer" }),
    controlGit(control, ["ls-files", "-z"], { ...options, encoding: "buffer" }),
  ]);
  const known = new Set(splitNul(present.stdoutBuffer));
  const left = splitNul(marked.stdoutBuffer)
    .filter((line) => line.startsWith("S "))
    .map((line) => line.slice(2))
    .filter((name) => known.has(name));
  faultPoint("scheduler.capture.before-skip-sparse");
  await controlGit(control, ["update-index", "-z", "--skip-worktree", "--stdin"], {
    ...options,
    input: Buffer.from(left.map((name) => `${name}\0`).join(""), "latin1"),
  });
}
