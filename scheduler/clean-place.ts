// A clean checkout of exactly one tree, for checks (cases 44, 52): made by us from git objects, so nothing that an
// agent left beside its change (ignored files, git settings, late writes) is in it. With `protect`, the files that
// it covers stand as in the base, whatever the commit holds.

import { mkdirSync } from "node:fs";
import { rm } from "node:fs/promises";
import { join } from "node:path";
import { parseRaw, pathText, showName } from "../bus/git/tree.ts";
import { faultPoint } from "../schemas/fault-points.ts";
import { writeTree } from "./capture-write.ts";
import { checkoutFull, giveIndex } from "./checkout.ts";
import { treeOf } from "./commit.ts";
import { type Control, controlGit, userExcludes } from "./control.ts";
import { removeAll } from "./open-tree.ts";
import { writeOwnRepo } from "./own-repo.ts";
import { placeOptions } from "./place-git.ts";
import { placeSubmodules } from "./submodules.ts";
import { verifyPlace } from "./workspace.ts";

export interface CleanPlaceOrder {
  control: Control;
  /** Made (0700) where it is not; holds `work/` and our index. */
  dir: string;
  commit: string;
  /** Tree of the commit, where it is known. */
  tree?: string;
  protect?: { base: string; matches(path: string): boolean };
}

export interface CleanPlace {
  dir: string;
  work: string;
  /** What truly stands on the disk: the commit's tree, but for the restored files. */
  tree: string;
  /** Protected paths that the commit had changed; they stand as in the base. */
  restored: string[];
  /** Object stores that its submodules borrow from. */
  submodules: string[];
  /** Removes the place. Nothing in it is kept. */
  remove(): Promise<void>;
}

export async function makeCleanPlace(order: CleanPlaceOrder): Promise<CleanPlace> {
  const { control, dir, commit } = order;
  const work = join(dir, "work");
  const index = join(dir, "index");
  const remove = async () => {
    for (const part of [work, index, `${index}.lock`, join(dir, "sub")]) await removeAll(part);
  };
  faultPoint("scheduler.place.before-make");
  mkdirSync(dir, { recursive: true, mode: 0o700 });
  faultPoint("scheduler.place.before-make-work");
  mkdirSync(work, { mode: 0o700 });
  try {
    const { tree, restored } = await protectedTree(order, index, work);
    await checkoutFull(control, { work, index, tree });
    const gitDir = join(work, ".git");
    writeOwnRepo({
      gitDir,
      objectFormat: control.objectFormat,
      from: control.repo,
      commit,
      excludes: userExcludes(control.repo),
    });
    await giveIndex(index, gitDir);
    const submodules = await placeSubmodules(control, commit, work, join(dir, "sub"));
    await verifyPlace(control, work, commit);
    return { dir, work, tree, restored, submodules: submodules.map(({ objectDir }) => objectDir), remove };
  } catch (error) {
    await remove();
    throw error;
  }
}

/** The tree of the commit in which the protected files are those of the base. `index` is made and removed. */
export async function protectedTree(
  order: CleanPlaceOrder,
  index: string,
  work: string,
): Promise<{ tree: string; restored: string[] }> {
  const { control, commit, protect } = order;
  const tree = order.tree ?? (await treeOf(control, commit));
  if (protect === undefined) return { tree, restored: [] };
  const diff = await controlGit(
    control,
    ["diff-tree", "-r", "-z", "--raw", "--no-renames", "--full-index", protect.base, commit],
    { encoding: "buffer" },
  );
  const changed = parseRaw(diff.stdoutBuffer).filter(({ name }) =>
    protect.matches(pathText(name) ?? showName(name)),
  );
  if (changed.length === 0) return { tree, restored: [] };
  faultPoint("scheduler.place.before-protect");
  await controlGit(control, ["read-tree", commit], placeOptions({ work, index }));
  const restoredTree = await writeTree(
    { control, work, scratch: index },
    changed.map(({ name, oldMode, oldOid }) => ({
      name,
      entry: oldMode === "000000" ? null : { mode: oldMode, oid: oldOid },
    })),
  );
  faultPoint("scheduler.place.before-remove-index");
  await rm(index, { force: true });
  return { tree: restoredTree, restored: changed.map(({ name }) => showName(name)) };
}
