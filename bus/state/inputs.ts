// Inputs changed: what landed since an attempt's base, and the paths of it that the attempt had read or changed itself.
// A semantic conflict needs no common path (case 46), so the tasks are all that landed, not only those that touched one.
// Pure.

import type { AttemptRef } from "../../schemas/ids.ts";
import type { Result } from "../../schemas/methods.ts";
import type { StateView } from "./view.ts";

/** Sorted paths, and all tasks landed since the base, in the order of landing. Unknown attempts give nothing. */
export function inputsChanged(view: StateView, ref: AttemptRef): Result<"inputs_changed"> {
  const run = view.run(ref.run);
  const shots = view.snapshots(ref.run, ref.task, ref.attempt);
  const newest = shots.at(-1);
  if (!run || !newest) return { paths: [], landed_since: [] };
  const read = view.readSet(ref.run, ref.task, ref.attempt);
  const base = run.landed.findLastIndex((l) => l.commit === newest.base);
  const paths = new Set<string>();
  const tasks: string[] = [];
  for (const landing of run.landed.slice(base + 1)) {
    if (landing.task === ref.task) continue;
    const theirs = view.snapshots(ref.run, landing.task, landing.attempt).at(-1);
    tasks.push(landing.task);
    for (const path of theirs?.changed.keys() ?? [])
      if (read.has(path) || newest.changed.has(path)) paths.add(path);
  }
  return { paths: [...paths].sort(), landed_since: tasks };
}
