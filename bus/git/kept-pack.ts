// New objects of ours come into the user's object store as a pack that is kept until a ref names them. A `git gc` or
// `git prune` of the user takes the refs as they are when it begins, and with --prune=now removes what they do not reach,
// also when a ref was made meanwhile: that ref would name nothing, and git fails for good. So, as git's own fetch does it:
//   1. The .keep first, then the pack, then its index. No prune touches a pack; no repack drops one with a .keep, nor
//      one that came after it began.
//   2. The ref (the caller).
//   3. The .keep goes: whatever begins now sees the ref.
// Killed in between, the .keep is left. It names the process: the next scheduler removes it, and a pack without an index.
// A git that fails on a full disk leaves nothing in the user's store either: it wrote elsewhere.

import { randomBytes } from "node:crypto";
import { existsSync, readdirSync, readFileSync, rmSync } from "node:fs";
import { copyFile, mkdir, open, rename, rm, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { ioError } from "../../schemas/errors.ts";
import { faultPoint } from "../../schemas/fault-points.ts";
import type { GitResult } from "./run.ts";

/** What a .keep of ours says. */
const OURS = /^busbar (\d+)\n$/;
const ENDINGS = ["pack", "idx"] as const;

/** Takes away the mark that keeps a pack. */
export type Release = () => Promise<void>;

/** Brings what `pack` (a `git pack-objects` of the name that it is given, below `dir`) packs into the object store. */
export async function storePack(
  dir: string,
  objectDir: string,
  pack: (base: string) => Promise<Pick<GitResult, "stdout">>,
): Promise<Release> {
  const base = join(dir, "new");
  const id = (await pack(base)).stdout.trim();
  return await adoptPack(objectDir, `${base}-${id}`, id.length / 2);
}

/** Moves the pack `from` (a path without its ending) into the object store. Nothing is left there when that fails. */
async function adoptPack(objectDir: string, from: string, idBytes: number): Promise<Release> {
  const dir = join(objectDir, "pack");
  // A name of its own: one of the same content may be there, just being dropped.
  const to = join(dir, `pack-${randomBytes(idBytes).toString("hex")}`);
  const release = async () => {
    faultPoint("shared.kept-pack.before-release");
    await rm(`${to}.keep`, { force: true });
  };
  try {
    faultPoint("shared.kept-pack.before-make-directory");
    await mkdir(dir, { recursive: true });
    faultPoint("shared.kept-pack.before-keep");
    await writeFile(`${to}.keep`, `busbar ${process.pid}\n`, { flag: "wx" });
    for (const ending of ENDINGS) await bring(`${from}.${ending}`, `${to}.${ending}`);
    await syncDir(dir);
  } catch (error) {
    for (const ending of ["idx", "pack"]) await remove(`${to}.${ending}`);
    await release();
    throw ioError("bringing new objects into the repository", dir, error);
  }
  return release;
}

/** Also from another disk. */
async function bring(from: string, to: string): Promise<void> {
  try {
    faultPoint("shared.kept-pack.before-move");
    return await rename(from, to);
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== "EXDEV") throw error;
  }
  const fresh = `${to}.new`;
  try {
    faultPoint("shared.kept-pack.before-copy");
    await copyFile(from, fresh);
    await syncDir(fresh);
    faultPoint("shared.kept-pack.before-rename");
    await rename(fresh, to);
  } catch (error) {
    await remove(fresh);
    throw error;
  }
}

async function remove(file: string): Promise<void> {
  faultPoint("shared.kept-pack.before-remove");
  await rm(file, { force: true });
}

/** What was written there, or into the file, is on the disk. */
async function syncDir(path: string): Promise<void> {
  faultPoint("shared.kept-pack.before-open");
  const handle = await open(path, "r");
  try {
    faultPoint("shared.kept-pack.before-sync");
    await handle.sync();
  } finally {
    await handle.close();
  }
}

/** Removes the marks of processes that are gone, and what has no index. */
export function clearKeeps(objectDir: string): void {
  const dir = join(objectDir, "pack");
  for (const name of existsSync(dir) ? readdirSync(dir) : []) {
    if (!name.endsWith(".keep")) continue;
    const base = join(dir, name.slice(0, -".keep".length));
    const [, pid] = OURS.exec(readText(`${base}.keep`)) ?? [];
    if (pid === undefined || existsSync(`/proc/${pid}`)) continue;
    const left = existsSync(`${base}.idx`) ? [] : [".pack", ".pack.new", ".idx.new"];
    for (const ending of [...left, ".keep"]) {
      faultPoint("shared.kept-pack.before-clear");
      rmSync(`${base}${ending}`, { force: true });
    }
  }
}

function readText(file: string): string {
  try {
    return readFileSync(file, "utf8");
  } catch {
    return ""; // released just now
  }
}
