// Objects that we make are written beside the user's object store, in a directory of ours that borrows from it; what of
// them is to last comes over as one pack that no `git gc` of the user removes before a ref names it (bus/git/kept-pack.ts).
// All else, and whatever a git that failed has left, goes with the directory.

import { mkdir } from "node:fs/promises";
import { join } from "node:path";
import { type Release, storePack } from "../bus/git/kept-pack.ts";
import { withScratch } from "../bus/git/scratch.ts";
import { faultPoint } from "../schemas/fault-points.ts";
import { type Control, controlGit } from "./control.ts";

export interface NewObjects {
  /** Writes beside, reads both. */
  control: Control;
  /** Brings over what `commit` reaches and `known`, which refs name, do not. Kept until the deed is done. */
  store(commit: string, known: readonly string[]): Promise<void>;
}

/** Does `deed`, which makes objects, stores them and names them by a ref. */
export function withNewObjects<T>(control: Control, deed: (made: NewObjects) => Promise<T>): Promise<T> {
  return withScratch(control.gitDir, async (dir) => {
    const objectDir = join(dir, "objects");
    faultPoint("scheduler.new-objects.before-make-directory");
    await mkdir(join(objectDir, "pack"), { recursive: true, mode: 0o700 });
    const beside: Control = {
      ...control,
      objectDir,
      alternates: [control.objectDir, ...(control.alternates ?? [])],
      // Nothing here has to last: the pack is written to the disk.
      config: ["core.fsync=none"],
    };
    const kept: Release[] = [];
    try {
      return await deed({
        control: beside,
        store: async (commit, known) => {
          const revs = [commit, ...known.map((oid) => `^${oid}`)];
          kept.push(await packRevs({ ...beside, config: [] }, control.objectDir, revs, dir));
        },
      });
    } finally {
      for (const release of kept) await release();
    }
  });
}

/** Packs `revs`, read by `from`, into the store `to`. `dir` is for files of a moment. */
function packRevs(from: Control, to: string, revs: readonly string[], dir: string): Promise<Release> {
  const input = revs.map((rev) => `${rev}\n`).join("");
  return storePack(dir, to, (base) => {
    // No search for differences: the objects are few, and the user's own gc does that.
    const args = ["pack-objects", "-q", "--revs", "--threads=1", "--window=0", "--compression=1", base];
    faultPoint("scheduler.new-objects.before-pack");
    return controlGit(from, args, { input });
  });
}
