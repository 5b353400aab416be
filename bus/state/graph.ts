// The dependency graph of a run, checked again where it enters the state: a caller may have gone past busctl.
// Everything is iterative and linear in tasks + dependencies (a chain of 20,000 and 2^40 paths are the same to it).

import { BusbarError } from "../../schemas/errors.ts";
import { idFault, showId } from "../../schemas/ids.ts";
import { MAX_TASKS_PER_RUN } from "../../schemas/limits.ts";

export interface GraphNode {
  id: string;
  depends_on: readonly string[];
}

/** At most so many faults are listed; the rest is counted. */
const MAX_FAULTS = 50;

/**
 * Wave of every new task: 0 without dependencies, else one more than the highest of its dependencies.
 * `existing` gives the wave of a task that the run has already. Refused whole with BAD_PLAN (data.faults lists
 * all) for bad, duplicate or unknown ids and for cycles; the message holds the path `a -> c -> b -> a`.
 */
export function checkGraph(
  nodes: readonly GraphNode[],
  existing: (id: string) => number | undefined = () => undefined,
): Map<string, number> {
  if (nodes.length > MAX_TASKS_PER_RUN) {
    throw badPlan([`${nodes.length} tasks, at most ${MAX_TASKS_PER_RUN} are allowed`]);
  }
  const faults: string[] = [];
  const byId = new Map<string, GraphNode>();
  // Ids that differ in case only would share names on some file systems.
  const folded = new Map<string, string>();
  for (const node of nodes) {
    const fault = idFault(node.id);
    const twin = folded.get(String(node.id).toLowerCase()) ?? node.id;
    if (twin !== node.id) faults.push(`task ids ${showId(twin)} and ${showId(node.id)} differ in case only`);
    else folded.set(String(node.id).toLowerCase(), node.id);
    if (fault) faults.push(`task id ${showId(node.id)} ${fault}`);
    else if (byId.has(node.id) || existing(node.id) !== undefined)
      faults.push(`task id ${showId(node.id)} is there twice`);
    byId.set(node.id, node);
  }
  for (const node of nodes) {
    for (const dep of new Set(node.depends_on)) {
      if (!byId.has(dep) && existing(dep) === undefined)
        faults.push(`task ${showId(node.id)} depends on ${showId(dep)}, which does not exist`);
    }
  }
  if (faults.length > 0) throw badPlan(faults);
  return levels(byId, existing);
}

/** Kahn's order; what is left over lies on or behind a cycle. */
function levels(
  byId: ReadonlyMap<string, GraphNode>,
  existing: (id: string) => number | undefined,
): Map<string, number> {
  const waits = new Map<string, number>();
  const dependents = new Map<string, string[]>();
  const wave = new Map<string, number>();
  const open: string[] = [];
  for (const [id, node] of byId) {
    const inside = [...new Set(node.depends_on)].filter((dep) => byId.has(dep));
    const outside = node.depends_on.map((dep) => existing(dep) ?? -1);
    wave.set(id, 1 + outside.reduce((a, b) => Math.max(a, b), -1));
    waits.set(id, inside.length);
    if (inside.length === 0) open.push(id);
    for (const dep of inside) {
      const list = dependents.get(dep);
      if (list) list.push(id);
      else dependents.set(dep, [id]);
    }
  }
  for (let i = 0; i < open.length; i++) {
    const id = open[i]!;
    for (const next of dependents.get(id) ?? []) {
      wave.set(next, Math.max(wave.get(next)!, wave.get(id)! + 1));
      const left = waits.get(next)! - 1;
      waits.set(next, left);
      if (left === 0) open.push(next);
    }
  }
  if (open.length < byId.size) throw badPlan([`cycle: ${cycle(byId, waits).join(" -> ")}`]);
  return wave;
}

/** Walks along open dependencies until a task comes again. */
function cycle(byId: ReadonlyMap<string, GraphNode>, waits: ReadonlyMap<string, number>): string[] {
  let at = [...waits].find(([, left]) => left > 0)![0];
  const path: string[] = [];
  const seen = new Map<string, number>();
  while (!seen.has(at)) {
    seen.set(at, path.length);
    path.push(at);
    at = byId.get(at)!.depends_on.find((dep) => (waits.get(dep) ?? 0) > 0)!;
  }
  const round = [...path.slice(seen.get(at)), at];
  return round.length > 20 ? [...round.slice(0, 10), "...", ...round.slice(-9)] : round;
}

function badPlan(faults: string[]): BusbarError {
  const shown = faults.slice(0, MAX_FAULTS);
  const more = faults.length - shown.length;
  return new BusbarError(
    "BAD_PLAN",
    `the plan is refused: ${shown.join("; ")}${more > 0 ? `; and ${more} more` : ""}`,
    {
      faults: shown,
    },
  );
}
