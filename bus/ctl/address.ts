// How people name things: `TASK` or `RUN/TASK`, with `:PATH` behind where a file is meant. Ids are checked
// before anything is asked, and shown escaped.
//
// A task without a run is looked for in the live runs first (newest first), then in the ended ones. In two
// live runs at once it is ambiguous, and refused.

import { BusbarError, isCode } from "../../schemas/errors.ts";
import { idFault, showId } from "../../schemas/ids.ts";
import type { RunSummary } from "../../schemas/methods.ts";
import { nearest } from "../../schemas/plan/nearest.ts";
import type { Run, Task } from "../../schemas/task.ts";
import type { Bus } from "./context.ts";

export interface Address {
  run?: string;
  task: string;
  /** What stands behind the first `:`. */
  path?: string;
}

/** Throws BAD_ID. */
export function parseAddress(text: string): Address {
  const colon = text.indexOf(":");
  const name = colon < 0 ? text : text.slice(0, colon);
  const path = colon < 0 ? {} : { path: text.slice(colon + 1) };
  const slash = name.indexOf("/");
  if (slash < 0) return { task: checkId("task", name), ...path };
  return {
    run: checkId("run", name.slice(0, slash)),
    task: checkId("task", name.slice(slash + 1)),
    ...path,
  };
}

/** The id itself, or BAD_ID with the id escaped. */
export function checkId(what: "run" | "task", id: string): string {
  const fault = idFault(id);
  if (fault) throw new BusbarError("BAD_ID", `${what} ${showId(id)} ${fault}`, { id: showId(id) });
  return id;
}

export function isLive(run: RunSummary): boolean {
  return run.status === "active" || run.status === "paused";
}

/** Live runs first, each newest first. */
export function byInterest(runs: readonly RunSummary[]): RunSummary[] {
  return [...runs].sort(
    (a, b) => Number(isLive(b)) - Number(isLive(a)) || Date.parse(b.created) - Date.parse(a.created),
  );
}

/** The run of that name, or the most interesting one. Throws NO_SUCH_RUN. */
export async function resolveRun(bus: Bus, name?: string): Promise<RunSummary> {
  if (name !== undefined) checkId("run", name);
  const { runs } = await bus.call("list_runs", {});
  const found = name === undefined ? byInterest(runs)[0] : runs.find((run) => run.run === name);
  if (found) return found;
  if (name === undefined) throw new BusbarError("NO_SUCH_RUN", "there is no run yet");
  throw noSuchRun(name, runs);
}

function noSuchRun(name: string, runs: readonly RunSummary[]): BusbarError {
  const near = nearest(
    name,
    runs.map((run) => run.run),
  );
  return new BusbarError(
    "NO_SUCH_RUN",
    `there is no run ${showId(name)}${near ? `; did you mean ${near}?` : ""}`,
  );
}

/** How many ended runs are searched for a task that was named without its run. */
const MAX_RUNS_SEARCHED = 20;

/** The task, with its run. Throws NO_SUCH_RUN, NO_SUCH_TASK, USAGE (ambiguous). */
export async function resolveTask(bus: Bus, address: Address): Promise<{ task: Task; run: Run }> {
  const { runs } = await bus.call("list_runs", {});
  if (address.run !== undefined) {
    if (!runs.some((run) => run.run === address.run)) throw noSuchRun(address.run, runs);
    const found = await taskOf(bus, address.run, address.task);
    if (found) return found;
    throw await noSuchTask(bus, address.run, address.task);
  }
  if (runs.length === 0) throw new BusbarError("NO_SUCH_TASK", "there is no run yet");
  const ordered = byInterest(runs);
  const live = await present(bus, ordered.filter(isLive), address.task);
  if (live.length > 1) {
    const names = live.map((found) => `${found.run.run}/${address.task}`).join(", ");
    throw new BusbarError("USAGE", `task ${address.task} is in several live runs; say one of: ${names}`);
  }
  if (live[0]) return live[0];
  for (const run of ordered.filter((r) => !isLive(r)).slice(0, MAX_RUNS_SEARCHED)) {
    const found = await taskOf(bus, run.run, address.task);
    if (found) return found;
  }
  throw await noSuchTask(bus, ordered[0]?.run ?? "", address.task, "there is");
}

async function present(bus: Bus, runs: readonly RunSummary[], task: string) {
  const found = await Promise.all(runs.map((run) => taskOf(bus, run.run, task)));
  return found.filter((one) => one !== undefined);
}

async function taskOf(bus: Bus, run: string, task: string): Promise<{ task: Task; run: Run } | undefined> {
  try {
    const answer = await bus.call("get_task", { run, task });
    return { task: answer.task, run: answer.run };
  } catch (error) {
    if (isCode(error, "NO_SUCH_TASK", "NO_SUCH_RUN")) return undefined;
    throw error;
  }
}

/** Names the nearest task of `run`; `said`: no run was meant in particular. */
async function noSuchTask(bus: Bus, run: string, task: string, said?: string): Promise<BusbarError> {
  const { tasks } = await bus.call("list_tasks", { run });
  const near = nearest(
    task,
    tasks.map((one) => one.spec.id),
  );
  const hint = near ? `; did you mean ${near}?` : "";
  const facts = hint === "" ? {} : { near: hint };
  return new BusbarError("NO_SUCH_TASK", `${said ?? `run ${run} has`} no task ${showId(task)}${hint}`, facts);
}
