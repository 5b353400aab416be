// Directories for files of a moment (indexes, new objects), below a place of ours: an attempt is not told of it, and nobody
// can have made something there before us. A program that was killed leaves some; the next one removes them.

import { existsSync, readdirSync, rmSync } from "node:fs";
import { mkdtemp, rm } from "node:fs/promises";
import { join } from "node:path";
import { faultPoint } from "../../schemas/fault-points.ts";

/** `scratch-<pid>-<letters>` */
const NAME = /^scratch-(\d+)-/;

/** Below `place`: gives `deed` a new directory, and removes it with all that is in it. */
export async function withScratch<T>(place: string, deed: (dir: string) => Promise<T>): Promise<T> {
  faultPoint("shared.scratch.before-make");
  const dir = await mkdtemp(join(place, `scratch-${process.pid}-`));
  try {
    return await deed(dir);
  } finally {
    faultPoint("shared.scratch.before-remove");
    await rm(dir, { recursive: true, force: true });
  }
}

/** Removes what processes left that are gone. */
export function clearScratch(place: string): void {
  for (const name of readdirSync(place)) {
    const [, pid] = NAME.exec(name) ?? [];
    if (pid === undefined || existsSync(`/proc/${pid}`)) continue;
    faultPoint("shared.scratch.before-clear");
    rmSync(join(place, name), { recursive: true, force: true });
  }
}
