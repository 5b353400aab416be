// context.json: what an attempt is given, as facts (S7, W10). `contextOf` is pure; `repositoryFacts` asks git.

import { compilePathSet, fixedPrefix, isTreeWide, literalPath } from "../schemas/globs.ts";
import {
  type AttemptRecord,
  type Cause,
  INNOCENT_CAUSES,
  type Task,
  type TaskSpec,
} from "../schemas/task.ts";
import { type Control, controlGit } from "./control.ts";

export interface Context {
  v: 1;
  run: string;
  attempt: number;
  base: string;
  task: Pick<
    TaskSpec,
    "id" | "goal" | "interface" | "command" | "acceptance" | "prohibited_actions" | "depends_on" | "tags"
  >;
  allowed_files: string[];
  /** Paths granted beyond the plan; part of `allowed_files`. */
  granted_files: string[];
  forbidden_files: string[];
  context_files: { path: string; mode: string; oid: string }[];
  /** Newest first; commits that touched the context files or the fixed parts of the allowed ones. */
  history: { commit: string; date: string; subject: string }[];
  /** Failed attempts before this one, oldest first. */
  earlier: {
    attempt: number;
    cause: string;
    summary: string;
    log: string;
    paths: string[];
    landed_since: string[];
    check?: string;
  }[];
  feedback: string | null;
}

export interface RepositoryFacts {
  contextFiles: Context["context_files"];
  history: Context["history"];
}

const MAX_EARLIER = 5;
const MAX_HISTORY = 20;
const MAX_HISTORY_PATHS = 50;
const MAX_SUBJECT_CHARS = 120;

/** The newest evidence; what was nobody's fault (a lost shim) must not crowd out what the agent can learn from. */
function toldOf(records: readonly AttemptRecord[]): AttemptRecord[] {
  const told = records.filter(({ evidence }) => evidence !== undefined);
  const isInnocent = ({ result }: AttemptRecord) => INNOCENT_CAUSES.has(result as Cause);
  const lessons = told.filter((record) => !isInnocent(record)).slice(-MAX_EARLIER);
  const others = told.filter(isInnocent).slice(-1);
  return told.filter((record) => lessons.includes(record) || others.includes(record));
}

export function contextOf(
  task: Task,
  attempt: number,
  base: string,
  forbidden: readonly string[],
  facts: RepositoryFacts,
): Context {
  const { id, goal, command, acceptance, prohibited_actions, depends_on, tags } = task.spec;
  const earlier = toldOf(task.attempts.filter((record) => record.attempt < attempt)).map(
    ({ attempt: number, result, evidence }) => ({
      attempt: number,
      cause: result ?? "unknown",
      summary: evidence?.summary ?? "",
      log: evidence?.log ?? "",
      paths: evidence?.paths ?? [],
      landed_since: evidence?.landed_since ?? [],
      ...(evidence?.check === undefined ? {} : { check: evidence.check }),
    }),
  );
  // A file by name in both lists is one that it may not change; a pattern stays.
  const out = compilePathSet(forbidden);
  const isForbidden = (one: string) => {
    const path = literalPath(one);
    return path !== undefined && out.matches(path);
  };
  return {
    v: 1,
    run: task.run,
    attempt,
    base,
    task: {
      id,
      goal,
      interface: task.spec.interface,
      ...(command === undefined ? {} : { command }),
      acceptance,
      prohibited_actions,
      depends_on,
      tags,
    },
    allowed_files: [...task.spec.allowed_files, ...task.granted].filter((one) => !isForbidden(one)),
    granted_files: task.granted,
    forbidden_files: [...forbidden],
    context_files: facts.contextFiles,
    history: facts.history,
    earlier,
    feedback: task.feedback ?? null,
  };
}

/** What git knows about the files of the task at `base`. */
export async function repositoryFacts(
  control: Control,
  spec: TaskSpec,
  base: string,
): Promise<RepositoryFacts> {
  const [contextFiles, history] = await Promise.all([
    entriesAt(control, spec.context_files, base),
    historyOf(control, spec, base),
  ]);
  return { contextFiles, history };
}

async function entriesAt(
  control: Control,
  paths: readonly string[],
  base: string,
): Promise<Context["context_files"]> {
  if (paths.length === 0) return [];
  const { stdout } = await controlGit(control, ["ls-tree", "-z", "--full-tree", base, "--", ...paths]);
  return stdout
    .split("\0")
    .filter((line) => line !== "")
    .map((line) => {
      const tab = line.indexOf("\t");
      const [mode = "", , oid = ""] = line.slice(0, tab).split(" ");
      return { path: line.slice(tab + 1), mode, oid };
    });
}

async function historyOf(control: Control, spec: TaskSpec, base: string): Promise<Context["history"]> {
  const prefixes = spec.allowed_files.filter((p) => !isTreeWide(p)).map(fixedPrefix);
  const paths = [...new Set([...spec.context_files, ...prefixes])]
    .filter((p) => p !== "")
    .slice(0, MAX_HISTORY_PATHS);
  if (paths.length === 0) return [];
  const format = "--format=%H%x1f%cI%x1f%s";
  // A history may be cut (shallow) or far away (partial clone): then there is none to tell, and that is no failure.
  const { stdout, exit } = await controlGit(
    control,
    ["log", "-n", String(MAX_HISTORY), format, base, "--", ...paths],
    { okExits: [0, 128], timeoutMs: 20_000 },
  );
  if (exit !== 0) return [];
  return stdout
    .split("\n")
    .filter((line) => line !== "")
    .map((line) => {
      const [commit = "", date = "", subject = ""] = line.split("\x1f");
      return { commit, date, subject: subject.slice(0, MAX_SUBJECT_CHARS) };
    });
}
