// Files of the user's checkout that are in no commit and that agents and checks need all the same, `.env` above all
// (`copy` of a plan, W8): copied into every workspace and clean place before its set-up. They are no part of a change as
// long as nobody touches them, and of no kept set-up.

import { lstatSync } from "node:fs";
import { mkdir } from "node:fs/promises";
import { dirname, join } from "node:path";
import { BusbarError } from "../schemas/errors.ts";
import { faultPoint } from "../schemas/fault-points.ts";
import type { Run } from "../schemas/task.ts";
import { copyInto } from "./copy-program.ts";
import type { Kit } from "./kit.ts";
import { clearWay } from "./open-tree.ts";

/** Rejects with WORKSPACE_FAILED when one is not there any more. */
export async function copyLocal({ control }: Pick<Kit, "control">, run: Run, work: string): Promise<void> {
  for (const path of run.spec.copy ?? []) {
    const from = join(control.topLevel ?? "/nonexistent", path);
    const stats = lstatSync(from, { throwIfNoEntry: false });
    if (!stats)
      throw new BusbarError(
        "WORKSPACE_FAILED",
        `copying ${path} of your checkout (\`copy\` of the plan): it is not there`,
        {
          path: from,
        },
      );
    const to = join(work, dirname(path));
    faultPoint("scheduler.copies.before-make-parent");
    await mkdir(to, { recursive: true });
    await clearWay(join(work, path), stats.isDirectory() ? "directory" : "file");
    await copyInto(from, to);
  }
}
