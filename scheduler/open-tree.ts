// Opens directories that somebody closed (chmod) to reading or removing, and removes them. Asynchronous: a tree may
// be large.

import { chmod, lstat, readdir, rm } from "node:fs/promises";
import { faultPoint } from "../schemas/fault-points.ts";

/** Gives us rwx on each directory below and at `top`, links not followed; true when one was closed. */
export async function openTree(top: string | Buffer, skip?: string): Promise<boolean> {
  let opened = false;
  const left: Buffer[] = [Buffer.from(top)];
  for (let dir = left.pop(); dir !== undefined; dir = left.pop()) {
    try {
      const stats = await lstat(dir);
      if (!stats.isDirectory()) continue;
      if ((stats.mode & 0o700) !== 0o700) {
        faultPoint("scheduler.remove.before-open-directory");
        await chmod(dir, (stats.mode & 0o7777) | 0o700);
        opened = true;
      }
      for (const entry of await readdir(dir, { withFileTypes: true, encoding: "buffer" })) {
        const name = entry.name as unknown as Buffer;
        if (entry.isDirectory() && name.toString("latin1") !== skip)
          left.push(Buffer.concat([dir, Buffer.from("/"), name]));
      }
    } catch {
      // Not ours to open, or gone meanwhile: git will say so.
    }
  }
  return opened;
}

/** Removes a tree whatever modes its directories have. */
export async function removeAll(path: string | Buffer): Promise<void> {
  try {
    faultPoint("scheduler.remove.before-first-try");
    await rm(path, { recursive: true, force: true, maxRetries: 3 });
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException;
    if (code !== "EACCES" && code !== "EPERM") throw error;
    await openTree(path);
    faultPoint("scheduler.remove.before-second-try");
    await rm(path, { recursive: true, force: true, maxRetries: 3 });
  }
}

/** An agent may have put something else where a file or directory of ours is to be: that goes, never what it names. */
export async function clearWay(path: string, wanted: "file" | "directory"): Promise<void> {
  const stats = await lstat(path).catch(() => undefined);
  if (stats && !(wanted === "file" ? stats.isFile() : stats.isDirectory())) await removeAll(path);
}
