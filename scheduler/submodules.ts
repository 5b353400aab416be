// Submodules in a workspace or clean place: each gets a small repository of its own with borrowed objects and
// the commit that the superproject names (case 01). Changes inside them are found, never captured.

import { mkdirSync } from "node:fs";
import { dirname, join } from "node:path";
import { submodulesOf } from "../bus/git/submodules.ts";
import { parseRaw, pathBytes, showName, splitNul } from "../bus/git/tree.ts";
import { isCode } from "../schemas/errors.ts";
import { faultPoint } from "../schemas/fault-points.ts";
import { checkoutFull, giveIndex } from "./checkout.ts";
import type { Control } from "./control.ts";
import { onDisk } from "./on-disk.ts";
import { writeOwnRepo } from "./own-repo.ts";
import { type GitPlace, placeGit } from "./place-git.ts";

export interface PlacedSubmodule {
  path: string;
  oid: string;
  index: string;
  objectDir: string;
}

/** Where the index of the n-th submodule is. */
export function submoduleIndex(indexDir: string, n: number): string {
  return join(indexDir, `sub-${n}.index`);
}

/** Populates all submodules of `commit` below `work`; indexes of ours go to `indexDir`. Outer before inner. */
export async function placeSubmodules(
  control: Control,
  commit: string,
  work: string,
  indexDir: string,
): Promise<PlacedSubmodule[]> {
  const found = await submodulesOf({ commonDir: control.repo, topLevel: control.topLevel }, commit);
  const placed: PlacedSubmodule[] = [];
  for (const [n, submodule] of found.entries()) {
    const dir = join(work, submodule.path);
    const index = submoduleIndex(indexDir, n);
    const objectDir = join(submodule.gitDir, "objects");
    faultPoint("scheduler.submodule.before-make-index-directory");
    mkdirSync(dirname(index), { recursive: true });
    faultPoint("scheduler.submodule.before-make");
    mkdirSync(dir, { recursive: true });
    await checkoutFull(control, { work: dir, root: work, index, tree: submodule.oid, objectDir });
    writeOwnRepo({
      gitDir: join(dir, ".git"),
      objectFormat: control.objectFormat,
      from: submodule.gitDir,
      commit: submodule.oid,
      excludes: "",
    });
    await giveIndex(index, join(dir, ".git"));
    placed.push({ path: submodule.path, oid: submodule.oid, index, objectDir });
  }
  return placed;
}

/** Paths (from the top of the superproject) that differ from what was placed; at most `limit`. */
export async function submoduleChanges(
  control: Control,
  work: string,
  placed: readonly PlacedSubmodule[],
  limit = 50,
): Promise<string[]> {
  const changes: string[] = [];
  for (const { path, index, objectDir } of placed) {
    // A link laid there must not be followed.
    if ((await onDisk(work, pathBytes(path))).is !== "directory") {
      changes.push(path);
      continue;
    }
    try {
      const names = await changesIn(control, { work: join(work, path), root: work, index, objectDir });
      changes.push(...names.map((name) => `${path}/${showName(name)}`));
    } catch (error) {
      if (!isCode(error, "GIT_FAILED")) throw error;
      // Only the attempt was here since it was placed: what git cannot read any more was changed by it.
      changes.push(path);
    }
  }
  return changes.slice(0, limit);
}

async function changesIn(control: Control, place: GitPlace): Promise<string[]> {
  const ok = { encoding: "buffer" as const, okExits: [0, 1] };
  faultPoint("scheduler.submodule.before-refresh");
  await placeGit(control, ["update-index", "-q", "--refresh"], place, ok);
  const [changed, added] = await Promise.all([
    placeGit(control, ["diff-files", "-z", "--raw", "--no-renames", "--ignore-submodules=all"], place, ok),
    placeGit(control, ["ls-files", "-z", "-o", "--exclude-standard"], place, ok),
  ]);
  return [...parseRaw(changed.stdoutBuffer).map((c) => c.name), ...splitNul(added.stdoutBuffer)];
}
