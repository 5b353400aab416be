// From a path to a checked plan, and from there to what is submitted. Everything that can be refused is refused
// here, before anything starts.
//
// 1. The plan files are read and parsed.
// 2. The repository: --repo; else `repo:` of the plan; else the one around the current directory. A plan that
//    lies in another repository than the current one, and names none, is ambiguous and refused.
// 3. The base commit is resolved once, to its full id (case 04).
// 4. The plan is checked against the files of that commit, then the repository itself.

import { readdirSync, readFileSync, statSync } from "node:fs";
import { availableParallelism, homedir } from "node:os";
import { resolve } from "node:path";
import type { Config } from "../../schemas/config.ts";
import { BusbarError, isCode } from "../../schemas/errors.ts";
import { MAX_WORKERS, WORKERS_PER_CORE } from "../../schemas/limits.ts";
import type { BaseFile } from "../../schemas/plan/base-index.ts";
import { checkPlan, type PlanReport } from "../../schemas/plan/check.ts";
import type { PlanDraft } from "../../schemas/plan/draft.ts";
import type { Problem } from "../../schemas/plan/nodes.ts";
import { type PlanFile, parsePlan } from "../../schemas/plan/parse.ts";
import { loadConfig } from "../config.ts";
import type { RepoFacts } from "../git/facts.ts";
import { missingObjects } from "../git/partial.ts";
import { probeRepository, resolveBase } from "../git/probe.ts";
import { git } from "../git/run.ts";
import { pathText } from "../git/tree.ts";
import type { Ctx } from "./context.ts";
import { copyProblems } from "./local-copies.ts";
import { loadPlan, type PlanIo } from "./plan-files.ts";

export interface CheckedPlan {
  files: PlanFile[];
  draft: PlanDraft | undefined;
  report: PlanReport | undefined;
  problems: Problem[];
  config: Config;
  /** Absent when the plan could be checked without a repository only. */
  repo?: { facts: RepoFacts; base: { commit: string; name: string } };
  /** Why there is none: `run` refuses the plan with it. */
  noRepo?: BusbarError;
}

export interface PlanWishes {
  path: string;
  /** --repo was given: ctx.dir is what the person wants. */
  repoGiven: boolean;
  name?: string | undefined;
  base?: string | undefined;
  /** False: a plan may also be checked where there is no usable repository. */
  needRepo: boolean;
  /** Tasks that the plan may depend on beside its own: those of the run that it is added to. */
  known?(commonDir: string): Promise<ReadonlySet<string>>;
}

export async function readPlan(ctx: Ctx, wishes: PlanWishes): Promise<CheckedPlan> {
  const loaded = loadPlan(wishes.path, planIo, process.cwd());
  const parsed = parsePlan(loaded.files, { name: wishes.name ?? loaded.name });
  const config = configOf(ctx);
  const draft = parsed.spec;
  const problems = [...loaded.problems, ...parsed.problems];
  if (draft && wishes.name !== undefined) draft.run = wishes.name;
  if (draft && loaded.problems.length > 0) draft.allIds = false;
  const rest = { files: loaded.files, config };
  if (!draft) return { ...rest, draft, report: undefined, problems };
  // Which repository or commit is meant may stand in what could not be read: then none is looked at.
  const unsure = ["repo", "base"].some((key) => draft.lost.has(key));
  const found = unsure ? {} : await findRepo(ctx, wishes, draft, loaded.folder);
  const { repo } = found;
  const baseFiles = repo ? await filesAt(repo.facts, repo.base.commit) : undefined;
  const known = repo && (await wishes.known?.(repo.facts.commonDir));
  const report = checkPlan(draft, {
    profiles: Object.keys(config.agents),
    ...(baseFiles ? { baseFiles } : {}),
    ...(known ? { known } : {}),
  });
  problems.push(...report.problems);
  if (repo && baseFiles) problems.push(...copyProblems(draft, repo.facts.topLevel, baseFiles));
  return { ...rest, ...found, draft, report, problems };
}

/** The person's or host's configuration. Throws what is wrong in it. */
export function configOf(ctx: Pick<Ctx, "env">): Config {
  return loadConfig({ env: ctx.env, home: homedir(), readFile: (path) => readFileSync(path, "utf8") });
}

async function findRepo(
  ctx: Ctx,
  wishes: PlanWishes,
  draft: PlanDraft,
  folder: string,
): Promise<Pick<CheckedPlan, "repo" | "noRepo">> {
  try {
    const facts = await chooseRepo(ctx, wishes, draft, folder);
    const base = await resolveBase(facts, wishes.base ?? draft.base);
    return { repo: { facts, base } };
  } catch (error) {
    if (wishes.needRepo || !isCode(error, "NOT_A_REPOSITORY", "UNBORN_HEAD", "DETACHED_HEAD")) throw error;
    return { noRepo: error };
  }
}

async function chooseRepo(
  ctx: Ctx,
  wishes: PlanWishes,
  draft: PlanDraft,
  folder: string,
): Promise<RepoFacts> {
  if (wishes.repoGiven) return probeRepository(ctx.dir);
  if (draft.repo !== undefined) return probeRepository(resolve(folder, draft.repo));
  const [here, there] = await Promise.all([probeOrNone(ctx.dir), probeOrNone(folder)]);
  if (here && there && here.commonDir !== there.commonDir) {
    throw new BusbarError(
      "USAGE",
      `the plan lies in the repository ${there.commonDir}, the current directory in ${here.commonDir}`,
      { help: "Say which one is meant: --repo DIR, or `repo:` in the plan." },
    );
  }
  // Neither: the error of the current directory is the one to be told.
  return here ?? there ?? probeRepository(ctx.dir);
}

async function probeOrNone(dir: string): Promise<RepoFacts | undefined> {
  try {
    return await probeRepository(dir);
  } catch (error) {
    if (isCode(error, "NOT_A_REPOSITORY")) return undefined;
    throw error;
  }
}

/**
 * Files of a commit with their sizes; names that are not UTF-8 cannot be meant by a plan. In a partial clone whose
 * objects are not all here a question for sizes would fetch them one by one (case 06): the sizes stay unknown.
 * Throws OBJECTS_UNREACHABLE when not even the names are here and nobody gives them.
 */
async function filesAt(facts: RepoFacts, commit: string): Promise<BaseFile[]> {
  const lacking = facts.partial !== null && (await missingObjects(facts, commit)).length > 0;
  const words = ["ls-tree", "-r", ...(lacking ? [] : ["-l"]), "-z", "--full-tree", commit];
  const options = { gitDir: facts.commonDir, encoding: "buffer" as const };
  const { stdoutBuffer } = await git(words, options).catch((cause: unknown) => {
    if (!lacking) throw cause;
    const why = `the names of the files of ${commit} are not here and could not be fetched from the promisor remote ${facts.partial}`;
    throw new BusbarError("OBJECTS_UNREACHABLE", why, { remote: facts.partial }, { cause });
  });
  const files: BaseFile[] = [];
  for (const record of stdoutBuffer.toString("latin1").split("\0")) {
    const tab = record.indexOf("\t");
    if (tab < 0) continue;
    const path = pathText(record.slice(tab + 1));
    const size = Number(record.slice(0, tab).split(/ +/)[3] ?? Number.NaN);
    if (path !== undefined) files.push(Number.isNaN(size) ? { path } : { path, size });
  }
  return files;
}

/** Attempts at once where neither plan nor configuration says. */
export function defaultWorkers(config: Config): number {
  return config.workers ?? Math.min(MAX_WORKERS, availableParallelism() * WORKERS_PER_CORE);
}

const planIo: PlanIo = {
  kind: (path) => {
    const stat = statSync(path, { throwIfNoEntry: false });
    if (!stat) return undefined;
    return stat.isFile() ? "file" : stat.isDirectory() ? "directory" : "other";
  },
  list: (path) =>
    readdirSync(path, { withFileTypes: true }).map((entry) => ({
      name: entry.name,
      kind: entry.isFile()
        ? "file"
        : entry.isDirectory()
          ? "directory"
          : entry.isSymbolicLink()
            ? "link"
            : "other",
    })),
  read: (path) => readFileSync(path, "utf8"),
};
