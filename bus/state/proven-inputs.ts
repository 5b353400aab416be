// Which checks need not run again (issue 5.5): verdicts by the key of what decides them. Nothing of its own is stored.
// The verdicts in the state are the truth, sealed like all of it; this finds them, and is made anew after a start.
//
// 1. Only a pass by a run of the check itself stands for others: a cached one refers to that run, never to another cached one.
// 2. A key that was red once stands for nothing any more: its input does not decide it alone.
// 3. Old ones stand for nothing either, and the oldest keys are forgotten.

import { MAX_PROVEN_INPUTS, VERDICT_AGE_MS } from "../../schemas/limits.ts";
import type { Result } from "../../schemas/methods.ts";
import type { Earlier, Verdict } from "../../schemas/verdict.ts";
import type { StateStore } from "./view.ts";

interface Known {
  /** The newest run of the check itself that passed. */
  earlier?: Earlier;
  uses: number;
  red: boolean;
}

type Of = Pick<Earlier, "run" | "task" | "attempt">;

export class ProvenInputs {
  readonly #store: Pick<StateStore, "view" | "onRecord">;
  readonly #limit: number;
  #known: Map<string, Known> | undefined;

  constructor(store: Pick<StateStore, "view" | "onRecord">, limit = MAX_PROVEN_INPUTS) {
    this.#store = store;
    this.#limit = limit;
  }

  /** `now`: milliseconds. */
  find(keys: readonly string[], now: number): Result<"find_verdicts">["found"] {
    const known = this.#index();
    return keys.flatMap((key) => {
      const { earlier, uses = 0, red } = known.get(key) ?? {};
      if (!earlier || red || now - Date.parse(earlier.at) > VERDICT_AGE_MS) return [];
      return [{ key, uses, earlier }];
    });
  }

  #index(): Map<string, Known> {
    if (this.#known) return this.#known;
    this.#known = new Map();
    const { view } = this.#store;
    for (const { run } of view.runs())
      for (const { spec, attempts } of view.tasks(run))
        for (const { attempt, verdicts } of attempts)
          for (const verdict of verdicts) this.#take({ run, task: spec.id, attempt }, verdict);
    this.#store.onRecord(({ run, task, event }) => {
      if (event?.type === "task.verdict" && run !== undefined && task !== undefined)
        this.#take({ run, task, attempt: event.attempt }, event.verdict);
    });
    return this.#known;
  }

  #take(of: Of, { key, at, cached, verdict, tree, duration_ms }: Verdict): void {
    const all = this.#known;
    if (!all || key === undefined || at === undefined || verdict === "infra") return;
    const before = all.get(key);
    const ran = verdict === "pass" && cached === undefined ? { ...of, tree, at, duration_ms } : undefined;
    const earlier = ran && !(before?.earlier && before.earlier.at > at) ? ran : before?.earlier;
    all.delete(key);
    all.set(key, {
      ...(earlier && { earlier }),
      uses: (before?.uses ?? 0) + 1,
      red: before?.red === true || verdict === "fail",
    });
    const oldest = all.size > this.#limit ? all.keys().next().value : undefined;
    if (oldest !== undefined) all.delete(oldest);
  }
}
