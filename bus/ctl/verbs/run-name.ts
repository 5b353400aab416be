// The word by which a person names a whole run: RUN, or nothing for the only live one.

import { BusbarError } from "../../../schemas/errors.ts";
import type { RunSummary } from "../../../schemas/methods.ts";
import { isLive, resolveRun } from "../address.ts";
import { type Bus, usage } from "../context.ts";
import { outcomeWords } from "../render/outcome.ts";

/** Pausing and resuming are for runs of which something can still start. Throws ILLEGAL_MOVE. */
export function mustNotBeOver(run: RunSummary, deed: string): void {
  const helps = {
    merged: `Add tasks to it with \`busctl run PLAN --add-to ${run.run}\`.`,
    cancelled: `Bring a task of it back with \`busctl retry ${run.run}/TASK\`.`,
  };
  if (run.status !== "merged" && run.status !== "cancelled") return;
  const what = `${deed} of ${run.run}: it is over (${outcomeWords(run)}), nothing of it will start`;
  throw new BusbarError("ILLEGAL_MOVE", what, { run: run.run, help: helps[run.status] });
}

/** For verbs that change a run: without a name it must be clear which one. */
export async function runToChange(bus: Bus, name: string | undefined): Promise<RunSummary> {
  if (name !== undefined) return resolveRun(bus, name);
  const live = (await bus.call("list_runs", {})).runs.filter(isLive);
  if (live.length > 1) {
    throw usage(`several runs are live; say which: ${live.map((run) => run.run).join(", ")}`);
  }
  if (!live[0]) throw new BusbarError("NO_SUCH_RUN", "no run is live");
  return live[0];
}
