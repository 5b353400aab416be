// Runs that are through: with `into`, the person's branch is moved to the result, if that is a fast-forward and nobody
// has it checked out. What cannot be done is said, with the command that does it; nothing else depends on it.

import { isCode } from "../schemas/errors.ts";
import type { Kit } from "./kit.ts";
import type { RunMirror } from "./mirror.ts";
import { ffBranch } from "./refs.ts";

export class Finisher {
  readonly #kit: Kit;
  /** Head that was brought into the branch, or failed to be. */
  readonly #done = new Map<string, string>();

  constructor(kit: Kit) {
    this.#kit = kit;
  }

  async look(): Promise<void> {
    for (const [run, at] of this.#kit.mirror.runs) {
      const { into } = at.run.spec;
      if (into === undefined || at.ready.size > 0 || at.underway.size > 0) continue;
      if (this.#done.get(run) === at.run.head || !isThrough(at)) continue;
      this.#done.set(run, at.run.head);
      await this.#bring(run, into, at.run.head);
    }
  }

  async #bring(run: string, into: string, head: string): Promise<void> {
    const { log, control } = this.#kit;
    try {
      await ffBranch(control, into, head);
      log.info("the result was brought into the branch", { run, into, head });
    } catch (error) {
      const help = isCode(error, "BRANCH_CHECKED_OUT", "NOT_FAST_FORWARD") ? error.help : "";
      log.warn("the result was not brought into the branch", { run, into, head, why: String(error), help });
    }
  }
}

function isThrough(at: RunMirror): boolean {
  for (const { state } of at.tasks.values())
    if (state.name !== "passed" || state.merged === null) return false;
  return at.tasks.size > 0;
}
