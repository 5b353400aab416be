// Opens directories that somebody closed (chmod) to reading or removing. Asynchronous: a tree may be large.

import { chmod, lstat, readdir } from "node:fs/promises";
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
