// Our index lies where an agent, which is the same user, can write: an entry that was changed there together with its
// file would pass for unchanged, a mark would hide an absence. So it is believed only as we left it (hash, size, time;
// kept where the attempt is not told of). Else a new one is made of facts: the base, and what was put on the disk.
// The tree that comes of it is compared with the base, object by object: it must differ in exactly what was found, so
// that all of it went through the scope.

import { utimes, writeFile } from "node:fs/promises";
import { parseRaw, pathBytes, showName, splitNul } from "../bus/git/tree.ts";
import { faultPoint } from "../schemas/fault-points.ts";
import { type Control, controlGit } from "./control.ts";
import { readSealed } from "./index-seal.ts";
import { placeOptions } from "./place-git.ts";
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
 * Puts an index at `to` that can be believed. "sealed": ours, with the stat data of the checkout. "fresh": a new one of
 * `base`; every file is read again.
 */
export async function trustedIndex(
  control: Control,
  workspace: Workspace,
  base: string,
  to: string,
): Promise<"sealed" | "fresh"> {
  const bytes = workspace.seal && (await readSealed(workspace.index, workspace.seal));
  if (workspace.seal && bytes) {
    faultPoint("scheduler.capture.before-copy-index");
    await writeFile(to, bytes, { flag: "wx" });
    await asOldAs(to, workspace.seal.mtimeMs);
    return "sealed";
  }
  await freshIndex(control, workspace, base, to);
  return "fresh";
}

/** Its own time decides which files git believes to be unchanged (checkout.ts). */
async function asOldAs(path: string, mtimeMs: number): Promise<void> {
  const time = new Date(Math.floor(mtimeMs));
  faultPoint("scheduler.capture.before-age-index");
  await utimes(path, time, time);
}

/** No stat data; of a sparse checkout, all that was not put on the disk is marked as absent on purpose. */
async function freshIndex(
  control: Control,
  workspace: Workspace,
  base: string,
  index: string,
): Promise<void> {
  const options = placeOptions({ work: workspace.work, index });
  faultPoint("scheduler.capture.before-read-base");
  await controlGit(control, ["read-tree", base], options);
  if (!workspace.sparse) return;
  const all = await controlGit(control, ["ls-files", "-z"], { ...options, encoding: "buffer" });
  const present = new Set(workspace.paths.map(pathBytes));
  const left = splitNul(all.stdoutBuffer).filter((name) => !present.has(name));
  faultPoint("scheduler.capture.before-skip-sparse");
  await controlGit(control, ["update-index", "-z", "--skip-worktree", "--stdin"], {
    ...options,
    input: Buffer.from(left.map((name) => `${name}\0`).join(""), "latin1"),
  });
}
