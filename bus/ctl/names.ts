// The names that a shell offers while a person types: of the bus that runs, quickly or not at all. A prompt is no place for
// errors: where there is no bus, no answer in time, or nothing that fits, nothing is offered.

import type { Result } from "../../schemas/methods.ts";
import { byInterest, isLive } from "./address.ts";
import type { Bus } from "./context.ts";

export const NAME_KINDS = ["tasks", "runs"] as const;
export type NameKind = (typeof NAME_KINDS)[number];

/** Which names stand for the words of a verb or the value of an option, as the help shows them. */
export function namesMeant(shown: string | undefined): NameKind | undefined {
  if (shown?.startsWith("[RUN/]TASK")) return "tasks";
  return shown !== undefined && /^\[?RUN\b/.test(shown) ? "runs" : undefined;
}

/** More are no help at a prompt. */
const MAX_NAMES = 500;
/** Live runs whose tasks are asked for. */
const MAX_RUNS = 10;

/** Names that begin with `prefix`: with a slash in it `RUN/TASK`, else tasks of the live runs (or the newest), or runs. */
export async function namesLike(bus: Pick<Bus, "call">, kind: NameKind, prefix: string): Promise<string[]> {
  const slash = prefix.indexOf("/");
  const found =
    slash >= 0
      ? (await tasksOf(bus, prefix.slice(0, slash))).map((id) => `${prefix.slice(0, slash)}/${id}`)
      : await plainNames(bus, kind);
  return [...new Set(found)].filter((name) => name.startsWith(prefix)).slice(0, MAX_NAMES);
}

async function plainNames(bus: Pick<Bus, "call">, kind: NameKind): Promise<string[]> {
  const { runs }: Result<"list_runs"> = await bus.call("list_runs", {});
  const ordered = byInterest(runs);
  if (kind === "runs") return ordered.map((summary) => summary.run);
  const live = ordered.filter(isLive).slice(0, MAX_RUNS);
  const meant = live.length > 0 ? live : ordered.slice(0, 1);
  return (await Promise.all(meant.map((summary) => tasksOf(bus, summary.run)))).flat();
}

async function tasksOf(bus: Pick<Bus, "call">, run: string): Promise<string[]> {
  const { tasks } = await bus.call("list_tasks", { run });
  return tasks.map((task) => task.spec.id);
}
