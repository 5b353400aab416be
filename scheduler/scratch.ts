// Directories for files of a moment (indexes above all), below our control repository: an attempt is not told of that
// place, and nobody can have made something there before us. A scheduler that was killed leaves some; the next one
// removes them.

import { existsSync, readdirSync, rmSync } from "node:fs";
import { mkdtemp, rm } from "node:fs/promises";
import { join } from "node:path";
import { faultPoint } from "../schemas/fault-points.ts";

/** `scratch-<pid>-<letters>` */
const NAME = /^scratch-(\d+)-/;

/** Below our control repository `gitDir`: gives `deed` a new directory, and removes it with all that is in it. */
export async function withScratch<T>(gitDir: string, deed: (dir: string) => Promise<T>): Promise<T> {
  faultPoint("scheduler.scratch.before-make");
  const dir = await mkdtemp(join(gitDir, `scratch-${process.pid}-`));
  try {
    return await deed(dir);
  } finally {
    faultPoint("scheduler.scratch.before-remove");
    await rm(dir, { recursive: true, force: true });
  }
}

/** Removes what processes left that are gone. */
export function clearScratch(gitDir: string): void {
  for (const name of readdirSync(gitDir)) {
    const [, pid] = NAME.exec(name) ?? [];
    if (pid === undefined || existsSync(`/proc/${pid}`)) continue;
    faultPoint("scheduler.scratch.before-clear");
    rmSync(join(gitDir, name), { recursive: true, force: true });
  }
}
