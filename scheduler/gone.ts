// The commit that an attempt stands on, or the head of its run, can leave the repository in mid-run: somebody deleted the
// branch and refs/busbar, and git removed what nothing named. No try can help then, so none is used up.
//
// 1. A step fails. Whether the commit is there is asked of git; facts decide, not the words of the error.
// 2. Gone: the run is paused, with what a person can do, and the attempt is held as it is (bases.ts).
// 3. Once the run goes on, the step is done again.

import { BusbarError } from "../schemas/errors.ts";
import { integrationBranch } from "../schemas/ids.ts";
import { type Bases, lifeOf } from "./bases.ts";
import { type Control, controlGit } from "./control.ts";
import { cureOf } from "./cure.ts";
import type { Attempt, Kit } from "./kit.ts";

/** Does `deed`, and again as long as it fails beside a base that is gone, or for what only a person mends (cure.ts). */
export async function whileGone<T>(
  { kit, attempt, bases }: { kit: Kit; attempt: Attempt; bases: Bases },
  deed: () => Promise<T>,
): Promise<T> {
  const { run } = attempt.ref;
  for (;;) {
    const life = lifeOf(kit, run);
    try {
      return await deed();
    } catch (error) {
      attempt.abort.signal.throwIfAborted();
      const why = cureOf(error) ?? (await goneWhy(kit.control, run, attempt.base).catch(() => undefined));
      if (why === undefined) throw error;
      await bases.hold(kit, attempt, why, life);
    }
  }
}

/** For a deed within `whileGone` that answers with trouble instead of failing. */
export async function refuseGone({ control }: Kit, { ref, base }: Attempt): Promise<void> {
  const why = await goneWhy(control, ref.run, base);
  if (why !== undefined) throw new BusbarError("OBJECT_MISSING", why, { commit: base });
}

/** In words, with what a person can do; undefined when the commit and its tree are there. */
export async function goneWhy(control: Control, run: string, commit: string): Promise<string | undefined> {
  const input = `${commit}\n${commit}^{tree}\n`;
  const { stdout } = await controlGit(control, ["cat-file", "--batch-check"], { input });
  if (!/ missing$/m.test(stdout)) return undefined;
  const branch = integrationBranch(run);
  return `commit ${commit} of ${branch} is not in the repository any more (its refs were deleted, and git removed it): cancel the run and run the plan anew, or bring the commit back from a copy (\`git fetch COPY ${branch}\`)`;
}
