// What is to be proven, and what is known of it beforehand. Types only.

import type { Run, Task } from "../schemas/task.ts";
import type { Earlier } from "../schemas/verdict.ts";
import type { PlannedCheck } from "./gate.ts";
import type { Attempt } from "./kit.ts";

/** What is known of a check before it runs. */
export interface Keyed {
  key: string;
  /** A sample: what stands for it is to be looked at again. */
  again?: Earlier;
}

export interface GateOrder {
  attempt: Attempt;
  task: Task;
  run: Run;
  commit: string;
  tree: string;
  checks: readonly PlannedCheck[];
  /** Recorded instead of the checks' own tiers. */
  as?: "canary" | "base";
  keys?: ReadonlyMap<PlannedCheck, Keyed>;
  signal: AbortSignal;
}
