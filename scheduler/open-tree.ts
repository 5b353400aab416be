// Opens directories that somebody closed (chmod) to reading or removing.

import { chmodSync, type Dirent, lstatSync, readdirSync } from "node:fs";
import { join } from "node:path";

/** Gives us rwx on each directory below and at `top`, links not followed; true when one was closed. */
export function openTree(top: string, skip?: string): boolean {
  let opened = false;
  const visit = (dir: string) => {
    const stats = lstatSync(dir);
    if (!stats.isDirectory()) return;
    if ((stats.mode & 0o700) !== 0o700) {
      chmodSync(dir, (stats.mode & 0o7777) | 0o700);
      opened = true;
    }
    let entries: Dirent[] = [];
    try {
      entries = readdirSync(dir, { withFileTypes: true });
    } catch {
      // Not ours to open, or gone meanwhile: git will say so.
      return;
    }
    for (const entry of entries) if (entry.isDirectory() && entry.name !== skip) visit(join(dir, entry.name));
  };
  visit(top);
  return opened;
}
