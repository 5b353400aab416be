// Plan files to a draft. Pure: texts in, draft and problems out.
//
// 1. Each file becomes a tree (YAML, JSON, Markdown); a file that cannot be read is one problem.
// 2. The first file may be a plan (a mapping with plan keys), a list of tasks, or one task. The others hold tasks only:
//    a list, `tasks: [...]`, or one task (never `include`, see include.ts), whose id defaults to the file's name.
// 3. Head and tasks are held against input.ts; every fault of every file is named in one go. What has faults is kept as far
//    as it could be read (`lost`, `parts`), so that check.ts says in the same round what does not hang on the faults.
// 4. Ids must differ; both places are named.
//
// What this version reads but does not enforce is said as a warning. Meaning that needs the whole graph or the
// repository is checked in check.ts.

import { idFault, showId } from "../ids.ts";
import { MAX_ID_CHARS, MAX_PLAN_BYTES, MAX_TASKS_PER_RUN } from "../limits.ts";
import type { SandboxSaid } from "../sandbox.ts";
import type { DraftPart, DraftTask, PlanDraft } from "./draft.ts";
import { type Include, includesIn, withoutInclude } from "./include.ts";
import { PlanHead, TaskInput } from "./input.ts";
import { parseJson } from "./json.ts";
import { parseMarkdown } from "./markdown.ts";
import { entry, type Node, nodeAt, type Place, type Problem, Problems, Source } from "./nodes.ts";
import { type Fault, normaliseGate, normaliseTask } from "./normalise.ts";
import { readParts } from "./shape.ts";
import { parseYaml } from "./yaml.ts";

export interface PlanFile {
  /** As shown in messages. */
  name: string;
  text: string;
  kind: "yaml" | "json" | "md";
}

export interface PlanContext {
  /** Name of the run where the plan gives none; default from the first file's name. */
  name?: string;
  /** Set when a person said on the command line that there is no gate. */
  gate?: "none";
}

/** A tree with the text it came from. */
interface Tree {
  node: Node;
  source: Source;
}
interface TaskTree extends Tree {
  /** Id of the task when the file gives none: its name, where it holds one task. */
  defaultId?: string;
}

/**
 * `spec` is there whenever there are tasks, also when head or tasks have faults, so that the check of the whole can say
 * more in the same go. It may be submitted only when no problem is an error.
 */
export function parsePlan(
  files: readonly PlanFile[],
  context: PlanContext = {},
): { spec?: PlanDraft; problems: Problem[] } {
  const problems = new Problems();
  const start = { file: files[0]?.name ?? "plan", line: 1, column: 1 };
  const size = files.reduce((sum, file) => sum + file.text.length, 0);
  if (size > MAX_PLAN_BYTES) {
    problems.error("too_large", start, `the plan has ${size} characters, at most ${MAX_PLAN_BYTES} are read`);
    return { problems: problems.list };
  }
  const trees = files.flatMap((file) => readTree(file, problems));
  const first = trees.find((tree) => tree.source.file === start.file);
  const plan: Tree | undefined = first && isPlan(first.node, true) ? first : undefined;
  const tasks = trees.flatMap((tree) => {
    if (tree === plan) return taskTrees(tree, true, problems);
    const node = withoutInclude(tree.node, tree.source, plan?.source.file, problems);
    return taskTrees({ ...tree, node }, false, problems);
  });
  const unread = problems.list.some((p) => HIDES_TASKS.has(p.code));
  const head = plan ? readHead(plan, problems) : { value: {}, lost: new Set<string>() };
  if (tasks.length > MAX_TASKS_PER_RUN) {
    problems.error(
      "too_large",
      start,
      `the plan has ${tasks.length} tasks, at most ${MAX_TASKS_PER_RUN} are read`,
    );
    return { problems: problems.list };
  }
  if (tasks.length === 0 && !problems.failed)
    problems.error(
      "no_tasks",
      plan?.source.place(plan.node.at) ?? start,
      "no tasks: there is nothing to do",
      {
        hint: "write them under `tasks:`, or name their files: `include: tasks/*.md`",
      },
    );
  const spec = first && tasks.length > 0 ? draftOf(head, plan, start, tasks, context, problems) : undefined;
  if (spec && unread) spec.allIds = false;
  if (problems.left > 0)
    problems.list.push({
      ...start,
      severity: "error",
      code: "parse",
      message: `${problems.left} more problems`,
    });
  return spec ? { spec, problems: problems.list } : { problems: problems.list };
}

/** Of a file or a list of tasks: which tasks it holds is not known then. */
const HIDES_TASKS: ReadonlySet<Problem["code"]> = new Set(["parse", "too_large", "include", "wrong_type"]);

/** Patterns of `include` of a plan, so that whoever reads files can follow them. Faults are parsePlan's to name. */
export function includesOf(file: PlanFile): Include[] {
  if (file.kind === "md" || !file.text.includes("include")) return [];
  const [tree] = readTree(file, new Problems());
  return tree ? includesIn(tree.node, tree.source) : [];
}

/** Whether a file is a plan that says nothing of tasks, neither its own nor files of them: in a folder they lie beside it. */
export function leavesTasksToFolder(file: PlanFile): boolean {
  const [tree] = readTree(file, new Problems());
  if (!tree || !isPlan(tree.node, true)) return false;
  return !entry(tree.node, "tasks") && !entry(tree.node, "include");
}

/** A name for a run or task made from a file's name: `tasks/Cancel order.md` -> `Cancel-order`. */
export function idFromFile(name: string): string {
  const base = name.split(/[\\/]/).at(-1) ?? "";
  const id = base
    .replace(/\.[A-Za-z0-9]+$/, "")
    .replace(/[^A-Za-z0-9_.-]+/g, "-")
    .replace(/^[^A-Za-z0-9]+|[^A-Za-z0-9]+$/g, "")
    .slice(0, MAX_ID_CHARS);
  return idFault(id) === undefined ? id : "plan";
}

/** Nothing of a file is believed when a part of it could not be read. */
function readTree(file: PlanFile, problems: Problems): Tree[] {
  const source = new Source(file.name, file.text);
  const before = problems.list.length;
  const parse = file.kind === "json" ? parseJson : file.kind === "md" ? parseMarkdown : parseYaml;
  const node = parse(source, problems);
  const found = problems.list.slice(before);
  if (found.some((p) => p.code === "parse" || p.code === "too_large")) return [];
  if (node && (node.kind !== "scalar" || node.value !== null)) return [{ node, source }];
  if (found.length === 0) problems.error("no_tasks", source.place(0), "no tasks: the file is empty");
  return [];
}

const HEAD_KEYS = new Set(["tasks", ...Object.keys(PlanHead.shape)]);
const TASK_KEYS = new Set(Object.keys(TaskInput.shape).filter((key) => !HEAD_KEYS.has(key)));

/** A mapping is a plan when it has `tasks`, or more words of a plan than of a task. */
function isPlan(node: Node, mayBe: boolean): boolean {
  if (node.kind !== "map" || !mayBe) return false;
  if (entry(node, "tasks")) return true;
  const count = (words: ReadonlySet<string>): number => node.entries.filter((e) => words.has(e.key)).length;
  return count(TASK_KEYS) === 0;
}

function taskTrees(tree: Tree, isThePlan: boolean, problems: Problems): TaskTree[] {
  const { node, source } = tree;
  const wrong = (at: number, message: string, hint?: string): [] => {
    problems.error("wrong_type", source.place(at), message, { hint });
    return [];
  };
  if (node.kind === "list") return node.items.map((item) => ({ node: item, source }));
  if (node.kind === "scalar")
    return wrong(node.at, "a plan, a task or a list of tasks is expected here, not one value");
  const tasks = entry(node, "tasks");
  if (!tasks) return isThePlan ? [] : [{ node, source, defaultId: idFromFile(source.file) }];
  if (!isThePlan) {
    const other = node.entries.find((e) => e.key !== "tasks");
    if (other)
      return wrong(
        other.at,
        `${showId(other.key)} has no place in a file of tasks`,
        "it belongs into the plan file",
      );
  }
  if (tasks.value.kind === "list") return tasks.value.items.map((item) => ({ node: item, source }));
  if (tasks.value.kind === "scalar" && tasks.value.value === null) return [];
  return wrong(tasks.value.at, "tasks must be a list", "begin each task with '- '");
}

/** The head as far as it could be read, and the keys that could not. */
interface Head {
  value: PlanHead;
  lost: ReadonlySet<string>;
}

function readHead(plan: Tree, problems: Problems): Head {
  const { node, source } = plan;
  if (node.kind !== "map") return { value: {}, lost: new Set() };
  const head = { ...node, entries: node.entries.filter((e) => e.key !== "tasks") };
  const { value: read, lost } = readParts(PlanHead, head, source, problems);
  const place = (key: string): Place => source.place(entry(node, key)?.at ?? node.at);
  if (read.budget) warnUnenforced(problems, place("budget"), "the budget is");
  if (read.review) warnUnenforced(problems, place("review"), "the plan's rules for review are");
  if (typeof read.sandbox === "object" && read.sandbox.network === "gateway") {
    const hint = "write `network: none`, or `full` and bound it from outside";
    const at = source.place(nodeAt(node, ["sandbox", "network"]).node.at);
    problems.error("not_available", at, "network: gateway is not available in this version", { hint });
  }
  return { value: read, lost };
}

function warnUnenforced(problems: Problems, place: Place, what: string): void {
  problems.warn(
    "not_enforced",
    place,
    `${what} read, but this version does not enforce ${what.endsWith(" are") ? "them" : "it"} yet`,
  );
}

function placer({ node, source }: Tree): PlanDraft["where"] {
  return (...path) => source.place(nodeAt(node, path).node.at);
}

function itemPlacer({ node, source }: Tree): DraftTask["item"] {
  return (key, text) => {
    const list = nodeAt(node, [key]).node;
    const items = list.kind === "list" ? list.items : [];
    return source.place((items.find((n) => n.kind === "scalar" && n.value === text) ?? list).at);
  };
}

function draftOf(
  { value: head, lost }: Head,
  plan: Tree | undefined,
  start: Place,
  trees: readonly TaskTree[],
  context: PlanContext,
  problems: Problems,
): PlanDraft {
  const ids: Ids = { places: new Map(), folded: new Map() };
  const read = trees.map((tree, i) => readTask(tree, i, { value: head, lost }, ids, problems));
  const at = plan ? plan.source.place(plan.node.at) : start;
  const where = plan ? placer(plan) : () => start;
  const fault: Fault = (code, path, message, hint) => problems.error(code, where(...path), message, { hint });
  const gate = head.gate === undefined ? context.gate : normaliseGate(head.gate, fault);
  const { repo, base, into, workers } = head;
  return {
    run: head.run ?? context.name ?? idFromFile(start.file),
    ...(repo === undefined ? {} : { repo }),
    ...(base === undefined ? {} : { base }),
    ...(into === undefined ? {} : { into }),
    ...(workers === undefined ? {} : { workers }),
    ...(gate === undefined ? {} : { gate }),
    schedule: head.schedule ?? "eager",
    reads: head.reads ?? "dependencies",
    protect: head.protect ?? [],
    ...(head.copy ? { copy: [...new Set(head.copy)] } : {}),
    ...(head.reuse_verdicts === undefined ? {} : { reuse_verdicts: head.reuse_verdicts }),
    ...(head.may_hold_secrets ? { may_hold_secrets: head.may_hold_secrets } : {}),
    serial: head.serial ?? [],
    contracts: head.contracts ?? [],
    // With a gateway there was an error.
    ...(head.sandbox === undefined ? {} : { sandbox: head.sandbox as SandboxSaid }),
    agentAt: head.defaults?.agent === undefined ? where("agent") : where("defaults", "agent"),
    tasks: read.flatMap((one) => (one && !("lost" in one) ? [one] : [])),
    parts: read.flatMap((one) => (one && "lost" in one ? [one] : [])),
    lost,
    allIds: read.every((one) => one !== undefined),
    ids: ids.places,
    at,
    where,
  };
}

function readTask(
  tree: TaskTree,
  index: number,
  head: Head,
  ids: Ids,
  problems: Problems,
): DraftTask | DraftPart | undefined {
  const { source } = tree;
  if (tree.node.kind !== "map") {
    problems.error(
      "wrong_type",
      source.place(tree.node.at),
      `task ${index + 1} must be a mapping of keys to values`,
    );
    return undefined;
  }
  const node = withDefaultId(tree.node, tree.defaultId);
  const id = entry(node, "id")?.value;
  const name = id?.kind === "scalar" && typeof id.value === "string" ? id.value : undefined;
  const place = source.place(id?.at ?? node.at);
  const before = problems.count;
  if (name !== undefined) noteId(name, place, ids, problems);
  const known = idFault(name) ? undefined : name;
  const read = readParts(TaskInput, node, source, problems, known);
  if (known === undefined) return undefined;
  const { value, lost } = read;
  // A list that is lost covers nothing rather than everything: nothing is said about it.
  const input: TaskInput = read.whole ? read.value : { allowed_files: [], ...value, id: known };
  const where = placer({ node, source });
  const unread = new Set(lost);
  const spec = normaliseTask(input, head.value, (code, path, message, hint) => {
    // Who does the work may stand in what could not be read.
    const hidden = ["agent", "command", "model"].some((key) => lost.has(key));
    if (code === "agent" && (hidden || head.lost.has("agent") || head.lost.has("defaults"))) return;
    unread.add(String(path[0] ?? code));
    problems.error(code, where(...path), message, { hint, task: input.id });
  });
  const expectedLines = input.expected_lines;
  const task: DraftTask = {
    spec,
    at: source.place(node.at),
    where,
    item: itemPlacer({ node, source }),
    ownAgent: input.agent !== undefined,
    ...(expectedLines === undefined ? {} : { expectedLines }),
  };
  return problems.count > before ? { ...task, lost: unread } : task;
}

function withDefaultId(node: Node & { kind: "map" }, defaultId: string | undefined): Node & { kind: "map" } {
  if (defaultId === undefined || entry(node, "id")) return node;
  const value: Node = { kind: "scalar", value: defaultId, at: node.at };
  return { ...node, entries: [{ key: "id", at: node.at, value }, ...node.entries] };
}

/** Ids met so far: as written, and without regard to case. */
interface Ids {
  places: Map<string, Place>;
  folded: Map<string, { id: string; place: Place }>;
}

function noteId(id: string, place: Place, ids: Ids, problems: Problems): void {
  // Ids that differ in case only would share names on some file systems.
  const key = id.toLowerCase();
  const first = ids.folded.get(key);
  if (first === undefined) {
    ids.folded.set(key, { id, place });
    ids.places.set(id, place);
    return;
  }
  const at = `${first.place.file}:${first.place.line}:${first.place.column}`;
  const message =
    first.id === id
      ? `the id ${showId(id)} is given twice; first at ${at}`
      : `the id ${showId(id)} differs from ${showId(first.id)} (${at}) in case only`;
  problems.error("duplicate_id", place, message, { hint: "give one of them another id" });
}
