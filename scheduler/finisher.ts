// Runs that are through: with `into`, the person's branch is moved to the result, if that is a fast-forward and nobody
// has it checked out. What came of it is told to the bus, with the command that does what was not done; nothing else
// depends on it. A result that the bus knows is never tried again: the branch is the person's from then on.

import { BusbarError, isCode } from "../schemas/errors.ts";
import { faultPoint } from "../schemas/fault-points.ts";
import type { Kit } from "./kit.ts";
import type { RunMirror } from "./mirror.ts";
import { ffBranch } from "./refs.ts";

export class Finisher {
  readonly #kit: Kit;
  /** Head that was brought into the branch, or failed to be, and was told. */
  readonly #done = new Map<string, string>();

  constructor(kit: Kit) {
    this.#kit = kit;
  }

  async look(): Promise<void> {
    for (const [run, at] of this.#kit.mirror.runs) {
      const { into } = at.run.spec;
      if (into === undefined || at.ready.size > 0 || at.underway.size > 0) continue;
      const { head } = at.run;
      if (at.run.into?.head === head || this.#done.get(run) === head || !isThrough(at)) continue;
      await this.#bring(run, into, head);
    }
  }

  async #bring(run: string, branch: string, head: string): Promise<void> {
    const { log, control, bus } = this.#kit;
    const why = await ffBranch(control, branch, head).then(
      () => "",
      (error: unknown) => reasonOf(error, branch, head),
    );
    log.info("bringing the result into the branch", { run, branch, head, moved: why === "", why });
    try {
      faultPoint("scheduler.into.before-tell-bus");
      await bus.call("report_into", { run, branch, head, moved: why === "", why });
      this.#done.set(run, head);
    } catch (error) {
      // Told again by the next tick: the branch is there already, or as it was.
      if (!isCode(error, "BUS_AWAY", "TIMEOUT", "SHUTTING_DOWN")) this.#done.set(run, head);
      log.warn("what became of the branch could not be told", { run, branch, why: String(error) });
    }
  }
}

function reasonOf(error: unknown, branch: string, head: string): string {
  if (isCode(error, "BRANCH_CHECKED_OUT"))
    return `it is checked out in ${error.data.path}; there: git merge --ff-only ${head}`;
  if (isCode(error, "NOT_FAST_FORWARD")) return `it has commits of its own; on it: git merge ${head}`;
  const words = error instanceof BusbarError ? error.message : String(error);
  return `${words.slice(0, 1_000)}; then: git branch -f ${branch} ${head}`;
}

function isThrough(at: RunMirror): boolean {
  for (const { state } of at.tasks.values())
    if (state.name !== "passed" || state.merged === null) return false;
  return at.tasks.size > 0;
}
