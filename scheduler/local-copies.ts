// Files of the user's checkout that are in no commit and that agents and checks need all the same, `.env` above all
// (`copy` of a plan, W8): copied into every workspace and clean place before its set-up. They are no part of a change as
// long as nobody touches them, and of no kept set-up.

import { lstatSync, readdirSync, statSync } from "node:fs";
import { mkdir } from "node:fs/promises";
import { dirname, join } from "node:path";
import { BusbarError } from "../schemas/errors.ts";
import { faultPoint } from "../schemas/fault-points.ts";
import type { Run } from "../schemas/task.ts";
import type { Control } from "./control.ts";
import { copyInto } from "./copy-program.ts";
import { clearWay } from "./open-tree.ts";

/** Rejects with COPY_UNAVAILABLE when one is not there any more. */
export async function copyLocal({ control }: { control: Control }, run: Run, work: string): Promise<void> {
  for (const path of run.spec.copy ?? []) {
    const from = join(control.topLevel ?? "/nonexistent", path);
    // A link at the top stands for what it leads to: inside, it would lead nowhere.
    const stats = statSync(from, { throwIfNoEntry: false });
    if (!stats)
      throw new BusbarError(
        "COPY_UNAVAILABLE",
        `copying ${path} of your checkout (\`copy\` of the plan): it is not there`,
        {
          path: from,
        },
      );
    const to = join(work, dirname(path));
    faultPoint("scheduler.copies.before-make-parent");
    await mkdir(to, { recursive: true });
    await clearWay(join(work, path), stats.isDirectory() ? "directory" : "file");
    await copyInto(from, to, true);
  }
}

/** Size and time of every file that is copied: what a set-up made of them is another when they are. */
export function localFacts(topLevel: string | null, paths: readonly string[]): string[] {
  return paths.flatMap((path) => factsOf(join(topLevel ?? "/nonexistent", path), path));
}

function factsOf(at: string, path: string): string[] {
  const stats = statSync(at, { throwIfNoEntry: false });
  if (!stats) return [`${path} is not there`];
  if (!stats.isDirectory()) return [`${path} ${stats.size} ${stats.mtimeMs}`];
  return readdirSync(at)
    .sort()
    .flatMap((name) => {
      const inner = join(at, name);
      const own = lstatSync(inner, { throwIfNoEntry: false });
      return own?.isDirectory()
        ? factsOf(inner, `${path}/${name}`)
        : [`${path}/${name} ${own?.size} ${own?.mtimeMs}`];
    });
}
