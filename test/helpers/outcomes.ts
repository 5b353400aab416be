// Outcomes as a shim reports them.

import type { AttemptRef } from "../../schemas/ids.ts";
import type { Outcome } from "../../schemas/job.ts";

/** The agent of an attempt ended well; `over` says otherwise. */
export function outcomeOf(ref: AttemptRef, over: Partial<Outcome> = {}): Outcome {
  const at = "2030-01-01T00:00:00.000Z";
  const figures = { duration_ms: 1, peak_rss: 1, cpu_ms: 1, log_bytes: 1, log_dropped: 0 };
  const lists = { killed_with: [], leftovers: [], survivors: [], limits_missing: [] };
  const end = { reason: "exit", exit: 0, signal: null, started: at, ended: at, certain: false } as const;
  return { v: 1, ref, kind: "agent", name: "agent", log_tail: "", ...end, ...figures, ...lists, ...over };
}
