// Checks of the plan as a whole (S2, S4): dependencies, gate, and tasks that would wait for each other.

import { globFault, meetsEverything, overlap } from "../globs.ts";
import { showId } from "../ids.ts";
import type { DraftTask } from "./draft.ts";
import { buildGraph, findCycles, type Graph, unorderedPairs } from "./graph.ts";
import { checkPatternList, type LintContext } from "./lint-task.ts";
import { didYouMean } from "./nearest.ts";

/** Comparisons of two lists of patterns; beyond them the plan check has said enough. */
const MAX_COMPARISONS = 200_000;
const MAX_PAIRS_LOOKED_AT = 2_000_000;
const MAX_OVERLAPS = 1_000;
/** A hint compares with every id; after this many faults the reader has seen the pattern. */
const MAX_HINTS = 100;
/** Groups of overlapping tasks that get a message of their own. */
const MAX_GROUPS = 10;
/** Ids in one message. */
const SHOWN = 8;

export function checkDependencies({ draft, problems, known }: LintContext): void {
  if (!draft.allIds) return; // the id may be of a task that could not be read
  for (const task of [...draft.tasks, ...draft.parts])
    task.spec.depends_on.forEach((id) => {
      if (draft.ids.has(id) || known?.has(id)) return;
      const hint = problems.count < MAX_HINTS ? didYouMean(id, draft.ids.keys()) : undefined;
      const place = task.item("depends_on", id);
      problems.error(
        "unknown_dependency",
        place,
        `task ${task.spec.id} depends on ${showId(id)}, which is no task`,
        {
          hint,
          task: task.spec.id,
        },
      );
    });
}

/** The path is printed in the direction of depends_on: each task waits for the next. */
export function checkCycles({ draft, problems }: LintContext): void {
  const tasks = [...draft.tasks, ...draft.parts];
  const graph = buildGraph(tasks.map((task) => task.spec));
  for (const cycle of findCycles(graph)) {
    const names = cycle.map((i) => graph.ids[i] ?? "");
    const path =
      names.length <= 30
        ? names
        : [...names.slice(0, 14), `(${names.length - 28} more)`, ...names.slice(-14)];
    const task = tasks[cycle[0] ?? 0];
    const message = `these tasks wait for each other: ${path.join(" -> ")}`;
    const hint = "take one of these dependencies away";
    problems.error("cycle", task?.where("depends_on") ?? draft.at, message, { hint, task: task?.spec.id });
  }
}

export function checkGate(context: LintContext): void {
  const { draft, problems, base } = context;
  const { gate } = draft;
  if (draft.lost.has("gate")) return;
  if (gate === undefined) {
    const hint =
      "add `gate:` with checks, or say `gate: none` and let each task's acceptance be the only proof";
    problems.error("no_gate", draft.at, "the plan has no gate", { hint });
    return;
  }
  if (gate === "none") return;
  const tiers = [gate.shallow, gate.middle, gate.deep];
  if (tiers.every((tier) => tier.length === 0)) {
    const hint = "add a check under shallow, middle or deep, or say `gate: none`";
    problems.error("no_gate", draft.where("gate"), "the gate holds no check", { hint });
  }
  for (const tier of ["shallow", "middle", "deep"] as const)
    gate[tier].forEach((check, i) => {
      checkPatternList(check.inputs, (k) => draft.where("gate", tier, i, "inputs", k), context);
    });
  gate.setup.forEach((step, i) => {
    checkPatternList(step.key, (k) => draft.where("gate", "setup", i, "key", k), context);
  });
  const canary = gate.canary?.file;
  if (canary !== undefined && base && !base.isFile(canary)) {
    const near = base.nearest(canary, 3);
    const hint = near ? `did you mean ${showId(near)}?` : "name a file that the checks read";
    problems.error(
      "no_such_file",
      draft.where("gate", "canary", "file"),
      `the canary ${showId(canary)} is not in the base`,
      { hint },
    );
  }
}

export function checkPlanPatterns(context: LintContext): void {
  for (const key of ["protect", "may_hold_secrets", "serial", "contracts"] as const)
    checkPatternList(context.draft[key] ?? [], (i) => context.draft.where(key, i), context);
}

export interface Overlaps {
  /** Two ids and the pattern of the first that meets one of the second. */
  pairs: [string, string, string][];
  /** How many pairs could run together, as far as was looked. */
  together: number;
  /** False when the plan was too large to look at every pair. */
  complete: boolean;
}

/** Pairs of tasks that no dependency orders and that the scheduler keeps apart, since they may change the same file. */
export function findOverlaps(graph: Graph, tasks: readonly DraftTask[]): Overlaps {
  const lists = new Map<string, number>();
  const narrow = tasks.map((task) => task.spec.allowed_files.filter((pattern) => !meetsEverything(pattern)));
  const listOf = narrow.map((patterns) => {
    const key = patterns.join("\0");
    const id = lists.get(key) ?? lists.size;
    lists.set(key, id);
    return id;
  });
  const answers = new Map<number, string | undefined>();
  const found: Overlaps = { pairs: [], together: 0, complete: true };
  for (const [i, j] of unorderedPairs(graph)) {
    const [a, b] = [tasks[i], tasks[j]];
    if (!a || !b) continue;
    if (
      answers.size > MAX_COMPARISONS ||
      found.together >= MAX_PAIRS_LOOKED_AT ||
      found.pairs.length >= MAX_OVERLAPS
    ) {
      found.complete = false;
      break;
    }
    found.together += 1;
    const key = (listOf[i] ?? 0) * lists.size + (listOf[j] ?? 0);
    if (!answers.has(key)) answers.set(key, overlap(narrow[i] ?? [], narrow[j] ?? [])?.[0]);
    const pattern = answers.get(key);
    if (pattern !== undefined) found.pairs.push([a.spec.id, b.spec.id, pattern]);
  }
  return found;
}

/** One warning for each group of tasks that hang together by overlaps, not one for each pair. */
export function warnOverlaps(overlaps: Overlaps, { draft, problems }: LintContext): void {
  const patterns = new Map<string, string>();
  for (const [a, b, pattern] of overlaps.pairs) {
    if (!patterns.has(a)) patterns.set(a, pattern);
    if (!patterns.has(b)) patterns.set(b, pattern);
  }
  const found = groups(draft.tasks, overlaps.pairs);
  if (found.length > MAX_GROUPS) {
    const message = `${found.length} groups of tasks may change the same files and go one after the other; the first ${MAX_GROUPS} follow`;
    problems.warn("overlap", draft.at, message);
  }
  for (const tasks of found.slice(0, MAX_GROUPS)) {
    const ids = tasks.map((task) => task.spec.id);
    const pattern = showId(patterns.get(ids[0] ?? ""));
    const message = `${listIds(ids)} may change the same files (${pattern}), so they go one after the other`;
    const hint = "narrow allowed_files, or order the tasks by depends_on";
    const place = tasks[1]?.where("allowed_files") ?? draft.at;
    problems.warn("overlap", place, message, { hint, task: ids[1] });
  }
}

/** Tasks that may change everything run together all the same; people should know what that costs. */
export function warnWide({ draft, problems }: LintContext): void {
  const wide = draft.tasks.filter((task) => task.spec.allowed_files.some(meetsEverything));
  const [first, second] = wide;
  if (!first || !second) return;
  const ids = wide.map((task) => task.spec.id);
  const message = `${listIds(ids)} may change files all over the tree; where two change the same file, the second is sent back at landing`;
  const hint = "narrow allowed_files, so that they are kept apart";
  problems.warn("overlap", second.where("allowed_files"), message, { hint, task: second.spec.id });
}

/** Connected components of two and more, in the order of the plan (union-find). */
function groups(tasks: readonly DraftTask[], pairs: readonly [string, string, string][]): DraftTask[][] {
  const parent = new Map<string, string>();
  const root = (id: string): string => {
    let at = id;
    for (let up = parent.get(at); up !== undefined; up = parent.get(at)) at = up;
    return at;
  };
  for (const [a, b] of pairs) {
    const [x, y] = [root(a), root(b)];
    if (x !== y) parent.set(y, x);
  }
  const members = new Map<string, DraftTask[]>();
  for (const task of tasks) {
    const key = root(task.spec.id);
    const list = members.get(key);
    if (list) list.push(task);
    else members.set(key, [task]);
  }
  return [...members.values()].filter((list) => list.length > 1);
}

/** Public files go through one lane; worth knowing when several tasks want to. */
export function warnSerial({ draft, problems }: LintContext): void {
  if (!draft.serial.every((p) => globFault(p) === undefined)) return;
  if (draft.serial.length === 0) return;
  const users = draft.tasks.filter((task) => overlap(task.spec.allowed_files, draft.serial) !== undefined);
  if (users.length < 2) return;
  const ids = users.map((task) => task.spec.id);
  const message = `${listIds(ids)} may change serial files (${draft.serial.slice(0, 4).map(showId).join(", ")}): one lane for them`;
  problems.warn("serial", draft.where("serial"), message, {
    hint: "let one task change them, before the others",
  });
}

function listIds(ids: readonly string[]): string {
  if (ids.length <= SHOWN) return `${ids.slice(0, -1).join(", ")} and ${ids.at(-1)}`;
  return `${ids.slice(0, SHOWN).join(", ")} and ${ids.length - SHOWN} more`;
}
