// The plan check: everything that can be known before anything runs (S2). Errors stop the plan; warnings say what
// will go slower or worse than it could, with the place and the cure. Also the shape of the run: waves, critical
// path, best possible speed-up, whether going parallel is worth it, and a rough estimate of tokens.

import { type BaseFile, BaseIndex } from "./base-index.ts";
import type { PlanDraft } from "./draft.ts";
import { buildGraph, criticalPath, waves } from "./graph.ts";
import {
  checkCycles,
  checkDependencies,
  checkGate,
  checkPlanPatterns,
  findOverlaps,
  type Overlaps,
  warnOverlaps,
  warnSerial,
  warnWide,
} from "./lint-plan.ts";
import { isModelTask, type LintContext, lintTask } from "./lint-task.ts";
import { type Problem, Problems } from "./nodes.ts";

export interface CheckOptions {
  /** Files of the base commit; without them nothing is said about what is there. */
  baseFiles?: Iterable<BaseFile>;
  /** Agent profiles that exist, without `command`. */
  profiles: readonly string[];
  /** Tasks of the run that this plan is added to: they may be depended on. */
  known?: ReadonlySet<string>;
}

export interface PlanReport {
  problems: Problem[];
  /** Ids wave by wave; a task of a wave waits for tasks of earlier waves only. */
  waves: string[][];
  /** The longest chain of tasks; each counts as one. */
  criticalPath: string[];
  /** Tasks divided by the length of the critical path: no number of workers is faster. */
  speedUp: number;
  worthIt: { yes: boolean; why: string };
  /** Pairs that may run together and change the same file, with the pattern; at most 1,000. */
  overlaps: [string, string, string][];
  /** Rough; null when no task is done by a model. */
  tokens: number | null;
}

/** Below this speed-up the cost of workspaces and merges eats the gain. */
const MIN_SPEED_UP = 1.3;
const MIN_TASKS = 3;

export function checkPlan(draft: PlanDraft, options: CheckOptions): PlanReport {
  const problems = new Problems();
  const base = options.baseFiles && new BaseIndex(options.baseFiles);
  const context: LintContext = {
    draft,
    problems,
    profiles: options.profiles,
    reportedAgents: new Set(),
    ...(base ? { base } : {}),
    ...(options.known ? { known: options.known } : {}),
  };
  const graph = buildGraph(draft.tasks.map((task) => task.spec));
  checkGate(context);
  checkPlanPatterns(context);
  checkDependencies(context);
  checkCycles(context);
  for (const task of [...draft.tasks, ...draft.parts]) lintTask(task, context);
  const overlaps = findOverlaps(graph, draft.tasks);
  warnOverlaps(overlaps, context);
  warnWide(context);
  warnSerial(context);
  const path = criticalPath(graph);
  const speedUp = path.length === 0 ? 1 : draft.tasks.length / path.length;
  return {
    problems: problems.list,
    waves: waves(graph),
    criticalPath: path,
    speedUp,
    worthIt: judge(draft.tasks.length, speedUp, overlaps),
    overlaps: overlaps.pairs,
    tokens: estimateTokens(draft, base),
  };
}

function judge(tasks: number, speedUp: number, overlaps: Overlaps): PlanReport["worthIt"] {
  const best = `at best ${speedUp.toFixed(1)} times as fast`;
  if (tasks < MIN_TASKS)
    return { yes: false, why: `${tasks === 1 ? "one task" : `${tasks} tasks`}: one agent does as well` };
  if (speedUp < MIN_SPEED_UP) return { yes: false, why: `nearly every task waits for another; ${best}` };
  if (overlaps.complete && overlaps.together > 0 && overlaps.pairs.length === overlaps.together)
    return {
      yes: false,
      why: "all tasks that could run together may change the same files, so they run one by one",
    };
  return { yes: true, why: best };
}

const PROMPT_TOKENS = 3_000;
const CHARS_PER_TOKEN = 4;
const UNKNOWN_FILE_BYTES = 4_000;
const TURNS = 12;
const OUTPUT_TOKENS = 4_000;

/**
 * Rough, for one attempt of each task, without retries: an agent sends what it knows again on each of about 12 turns.
 * tokens = 12 * (3000 + (goal + interface + acceptance + context files) / 4) + 4000 of output.
 * Commands use none.
 */
function estimateTokens(draft: PlanDraft, base: BaseIndex | undefined): number | null {
  const tasks = draft.tasks.filter(isModelTask);
  if (tasks.length === 0) return null;
  return tasks.reduce((sum, { spec }) => {
    const words = spec.acceptance.reduce((n, a) => n + (a.text?.length ?? 0) + (a.run?.length ?? 0), 0);
    const files = spec.context_files.reduce((n, path) => n + (base?.size(path) ?? UNKNOWN_FILE_BYTES), 0);
    const chars = spec.goal.length + spec.interface.length + words + files;
    return sum + TURNS * (PROMPT_TOKENS + Math.ceil(chars / CHARS_PER_TOKEN)) + OUTPUT_TOKENS;
  }, 0);
}
