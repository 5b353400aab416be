// Checks of one task by itself (S2): patterns, scope, goal, acceptance, sizes. Thresholds are in limits.ts (LINT).

import { compilePathSet, fixedPrefix, globFault, isTreeWide, literalPath, type PathSet } from "../globs.ts";
import { showId } from "../ids.ts";
import { LINT } from "../limits.ts";
import type { BaseIndex } from "./base-index.ts";
import type { DraftPart, DraftTask, PlanDraft } from "./draft.ts";
import { didYouMean } from "./nearest.ts";
import type { Place, Problems } from "./nodes.ts";
import { insideGit, patternSlip } from "./pattern-slip.ts";

export interface LintContext {
  draft: PlanDraft;
  base?: BaseIndex;
  profiles: readonly string[];
  problems: Problems;
  /** Ids outside the plan that its tasks may depend on. */
  known?: ReadonlySet<string>;
  /** Agents of the plan or its defaults that were reported already: once is enough. */
  reportedAgents: Set<string>;
}

/** Verbs that name no end. Stems: "optimis" covers optimise, optimised, optimising. */
const VAGUE =
  /\b(optimi[sz]\w*|improv\w*|clean(?:ed|ing|s)?[ -]?up|cleanup|refactor\w*|enhanc\w*|tid(?:y|ied|ying)\w*|polish\w*|moderni[sz]\w*|streamlin\w*|simplif\w*|beautif\w*|harden\w*|revamp\w*|rework\w*|make (?:\w+ ){0,4}(?:better|faster|nicer|cleaner))\b/i;

export function lintTask(task: DraftTask | DraftPart, context: LintContext): void {
  const lost = "lost" in task ? task.lost : undefined;
  // What hangs on a key that could not be read is not judged.
  const sound = (...keys: string[]) => !lost || !keys.some((key) => lost.has(key));
  const agent = sound("agent", "command", "model") && !context.draft.lost.has("agent");
  if (agent && !context.draft.lost.has("defaults")) checkAgent(task, context);
  if (sound("allowed_files")) checkPatterns(task, context);
  if (sound("allowed_files", "forbidden_files", "changes_contracts")) checkScope(task, context);
  checkContextFiles(task, context);
  if (agent && sound("goal", "acceptance")) checkGoal(task, context);
  if (sound("allowed_files")) checkSize(task, context);
}

/** Whether a model does the work; a command reads no goal. */
export function isModelTask(task: DraftTask): boolean {
  return task.spec.agent.use !== "command";
}

function checkAgent(task: DraftTask, { draft, profiles, problems, reportedAgents }: LintContext): void {
  const { use } = task.spec.agent;
  if (use === "command" || profiles.includes(use)) return;
  const hint = /\s/.test(use)
    ? "to run a command line, write `command:` instead of `agent:`"
    : (didYouMean(use, profiles) ??
      `known agents: ${[...profiles, "command"].join(", ")}; define it in ~/.config/busbar/config.yaml: agents: {${profileKey(use)}: {command: '... "$BUSBAR_PROMPT"'}}`);
  const message = `there is no agent ${showId(use)}`;
  if (task.ownAgent) problems.error("agent", task.where("agent"), message, { hint, task: task.spec.id });
  else if (!reportedAgents.has(use)) problems.error("agent", draft.agentAt, message, { hint });
  if (!task.ownAgent) reportedAgents.add(use);
}

/** As a key of YAML; what is no plain word stands as an example. */
function profileKey(use: string): string {
  return /^[A-Za-z][A-Za-z0-9_-]*$/.test(use) ? use : "mine";
}

/** Faults and slips of patterns, in a list of the plan or of a task. */
export function checkPatternList(
  patterns: readonly string[],
  where: (index: number) => Place,
  { base, problems }: LintContext,
  task?: string,
): void {
  const exists = (path: string): boolean => base?.exists(path) ?? false;
  patterns.forEach((pattern, i) => {
    const why = globFault(pattern, exists);
    if (why === undefined) {
      const slip = patternSlip(pattern, base?.matchesSomething(pattern) ?? false);
      const message = `the pattern ${showId(pattern)} ${slip?.what}`;
      if (slip) problems.warn("outside", where(i), message, { hint: slip.hint, task });
      return;
    }
    const hint = pattern.includes("\\") ? `write ${showId(pattern.replaceAll("\\", "/"))}` : undefined;
    problems.error("bad_pattern", where(i), `the pattern ${showId(pattern)} ${why}`, { hint, task });
  });
}

function checkPatterns(task: DraftTask, context: LintContext): void {
  for (const key of ["allowed_files", "forbidden_files"] as const)
    checkPatternList(task.spec[key], (i) => task.where(key, i), context, task.spec.id);
  task.spec.allowed_files.forEach((pattern, i) => {
    if (insideGit(pattern)) {
      const message = `${showId(pattern)} lies in a git directory: nothing there is ever captured`;
      context.problems.error("bad_pattern", task.where("allowed_files", i), message, { task: task.spec.id });
    } else checkMatch(task, pattern, i, context);
  });
}

/** A pattern that covers nothing of the base is often a slip; a path of a new file is not. */
function checkMatch(task: DraftTask, pattern: string, index: number, { base, problems }: LintContext): void {
  if (!base || globFault(pattern, (path) => base.exists(path)) !== undefined) return;
  if (base.matchesSomething(pattern) || patternSlip(pattern, false)) return;
  const literal = literalPath(pattern);
  const wanted = literal ?? fixedPrefix(pattern);
  // One edit in five characters is a slip of the hand; `a.txt` beside `f.txt` is a new file.
  const slips = literal === undefined ? 4 : Math.min(2, Math.floor(wanted.length / 5) - 1);
  const near =
    (slips > 0 ? base.nearest(wanted, slips) : undefined) ?? (literal ? undefined : base.sameName(wanted));
  if (literal !== undefined && near === undefined) return; // a new file, by all signs
  const place = task.where("allowed_files", index);
  const hint =
    near === undefined || near === wanted
      ? "right, if the files are to be made"
      : `did you mean ${showId(near)}?`;
  const message = `${showId(pattern)} matches no file of the base`;
  problems.warn("matches_nothing", place, message, { hint, task: task.spec.id });
}

function warnProtected(task: DraftTask, { draft, problems }: LintContext): void {
  const { id, allowed_files } = task.spec;
  if (![...allowed_files, ...draft.protect].every((p) => globFault(p) === undefined)) return;
  const kept = compilePathSet(draft.protect);
  allowed_files.forEach((pattern, i) => {
    const path = literalPath(pattern);
    if (path === undefined || !kept.matches(path)) return;
    const message = `${path} is protected by the plan: no task may change it`;
    const hint = "take it off the list, or off `protect`";
    problems.warn("scope", task.where("allowed_files", i), message, { hint, task: id });
  });
}

function checkScope(task: DraftTask, context: LintContext): void {
  const { draft, problems } = context;
  warnProtected(task, context);
  const { id, allowed_files, forbidden_files, changes_contracts } = task.spec;
  if (![...allowed_files, ...forbidden_files, ...draft.contracts].every((p) => globFault(p) === undefined))
    return;
  const forbidden = compilePathSet(forbidden_files);
  const everything = forbidden_files.some(isTreeWide);
  if (forbidden_files.length > 0 && allowed_files.every((p) => everything || coversAll(forbidden, p))) {
    const message = "forbidden_files covers everything that allowed_files allows";
    const hint = "the task could change nothing; narrow forbidden_files";
    problems.error("scope", task.where("forbidden_files"), message, { hint, task: id });
  }
  if (changes_contracts || draft.contracts.length === 0) return;
  const contracts = compilePathSet(draft.contracts);
  allowed_files.forEach((pattern, i) => {
    const path = literalPath(pattern);
    if (path === undefined || !contracts.matches(path)) return;
    const hint = "add `changes_contracts: true`, or take it off the list";
    problems.warn(
      "scope",
      task.where("allowed_files", i),
      `${path} is a contract of the plan and read-only here`,
      { hint, task: id },
    );
  });
}

/** Probes with names that nobody has: a set that covers them covers all that is below. */
function coversAll(set: PathSet, pattern: string): boolean {
  const literal = literalPath(pattern);
  if (literal !== undefined) return set.matches(literal);
  if (set.patterns.includes(pattern)) return true;
  const prefix = fixedPrefix(pattern);
  return prefix !== "" && set.matches(`${prefix}/\u0001`) && set.matches(`${prefix}/\u0001/\u0001`);
}

function checkContextFiles(task: DraftTask, { base, problems }: LintContext): void {
  const { id, context_files } = task.spec;
  if (context_files.length > LINT.maxContextFiles) {
    const message = `${context_files.length} context files; more than ${LINT.maxContextFiles} blur what matters`;
    const hint = "keep those that hold the interfaces the work touches";
    problems.warn("many_context_files", task.where("context_files"), message, { hint, task: id });
  }
  if (!base) return;
  context_files.forEach((path, i) => {
    if (base.isFile(path)) return;
    const near = base.nearest(path, 3) ?? base.sameName(path);
    const hint = base.isDirectory(path)
      ? "name the files in it"
      : near
        ? `did you mean ${showId(near)}?`
        : undefined;
    const message = `the context file ${showId(path)} is ${base.isDirectory(path) ? "a directory" : "not in the base"}`;
    problems.error("no_such_file", task.where("context_files", i), message, { hint, task: id });
  });
}

function checkGoal(task: DraftTask, { problems }: LintContext): void {
  const { id, goal, acceptance } = task.spec;
  const vague = VAGUE.exec(goal)?.[0];
  if (acceptance.length === 0 && vague !== undefined) {
    const hint = "say in acceptance what is measured, and with which command";
    problems.warn("vague", task.where("goal"), `"${vague}" names no end, and there is no acceptance`, {
      hint,
      task: id,
    });
  } else if (acceptance.length === 0) {
    const hint = "add a command that fails before the work and passes after it";
    problems.warn("no_acceptance", task.at, "no acceptance: nothing proves this task but the common gate", {
      hint,
      task: id,
    });
  }
  if (!isModelTask(task)) return;
  if (goal === "") {
    problems.error("missing", task.where("goal"), "goal is missing: an agent must be told what to do", {
      task: id,
    });
    return;
  }
  const long = goal.length > LINT.maxGoalChars;
  if (!long && goal.length >= LINT.minGoalChars) return;
  const bound = long ? `over ${LINT.maxGoalChars}` : `under ${LINT.minGoalChars}`;
  const hint = long
    ? "split the task, or move detail into interface"
    : "say where, what must hold, and what must stay";
  const message = `the goal has ${goal.length} characters; ${bound} an agent tends to ${long ? "lose the thread" : "guess"}`;
  problems.warn("goal_length", task.where("goal"), message, { hint, task: id });
}

function checkSize(task: DraftTask, { base, problems }: LintContext): void {
  const { id, allowed_files } = task.spec;
  const files = allowed_files.filter((pattern) => {
    const path = literalPath(pattern);
    return path !== undefined && !base?.isDirectory(path);
  });
  if (files.length > LINT.maxFilesToChange) {
    const message = `${files.length} files to change; more than ${LINT.maxFilesToChange} in one task go wrong more often`;
    problems.warn("many_files", task.where("allowed_files"), message, { hint: "split the task", task: id });
  }
  if (task.expectedLines !== undefined && task.expectedLines > LINT.maxExpectedLines) {
    const message = `${task.expectedLines} lines expected; over ${LINT.maxExpectedLines} nobody reviews well`;
    problems.warn("large_change", task.where("expected_lines"), message, {
      hint: "split the task",
      task: id,
    });
  }
}
