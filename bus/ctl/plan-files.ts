// Reading plan files from disk; what they mean is decided in schemas/plan/.
//
// 1. A path to a file (.yaml, .yml, .json, .md) is read; then the task files that its `include` names, seen from the
//    plan's folder, each once, in the order of the patterns and by name.
// 2. A path to a folder: its plan.yaml, plan.yml, plan.json or plan.md is the plan. Without one, or where it has neither
//    `tasks` nor `include`, every task file in the folder (not below it) is read, by name.
// 3. Bounded: files, folders walked, and bytes. Links to folders are not followed, so there are no loops.

import { basename, dirname, extname, join, relative, resolve, sep } from "node:path";
import { BusbarError, ioError } from "../../schemas/errors.ts";
import { compilePathSet, fixedPrefix, globFault } from "../../schemas/globs.ts";
import { MAX_PLAN_BYTES } from "../../schemas/limits.ts";
import type { Include } from "../../schemas/plan/include.ts";
import type { Place, Problem } from "../../schemas/plan/nodes.ts";
import { idFromFile, includesOf, leavesTasksToFolder, type PlanFile } from "../../schemas/plan/parse.ts";

/** What is needed of node:fs; a test gives its own. */
export interface PlanIo {
  /** Kind of what is there, links followed; undefined when nothing is. */
  kind(path: string): "file" | "directory" | "other" | undefined;
  /** Names in a directory with their kind, links not followed. */
  list(path: string): { name: string; kind: "file" | "directory" | "link" | "other" }[];
  read(path: string): string;
}

export interface LoadedPlan {
  /** The plan first; for parsePlan. */
  files: PlanFile[];
  /** Faults of reading, e.g. an `include` that names nothing. */
  problems: Problem[];
  /** Folder that `repo` and `include` of the plan are seen from. */
  folder: string;
  /** Name of the run where the plan gives none. */
  name: string;
}

const KINDS = new Map<string, PlanFile["kind"]>([
  [".yaml", "yaml"],
  [".yml", "yaml"],
  [".json", "json"],
  [".md", "md"],
]);
const PLAN_NAMES = ["plan.yaml", "plan.yml", "plan.json", "plan.md"];
const MAX_FILES = 50_000;
const MAX_ENTRIES = 200_000;

/** Reads the plan at `path`; names in messages are relative to `cwd`. Throws IO or BAD_PLAN when nothing can be read. */
export function loadPlan(path: string, io: PlanIo, cwd: string): LoadedPlan {
  const full = resolve(cwd, path);
  const kind = io.kind(full);
  if (kind === undefined)
    throw new BusbarError("USAGE", `reading the plan ${path}: no such file or folder`, { path: full });
  if (kind === "other")
    throw new BusbarError("USAGE", `reading the plan ${path}: neither a file nor a folder`, { path: full });
  const loader = new Loader(io, cwd);
  if (kind === "file") return loader.plan(full);
  const plan = PLAN_NAMES.map((name) => join(full, name)).find((p) => io.kind(p) === "file");
  return plan === undefined ? loader.folder(full) : loader.plan(plan, full);
}

class Loader {
  readonly #files: PlanFile[] = [];
  readonly #problems: Problem[] = [];
  readonly #seen = new Set<string>();
  #bytes = 0;
  #entries = 0;

  constructor(
    readonly io: PlanIo,
    readonly cwd: string,
  ) {}

  /** `asked`: the folder that was named instead of the plan. */
  plan(full: string, asked?: string): LoadedPlan {
    const folder = dirname(full);
    if (!KINDS.has(extname(full).toLowerCase()))
      throw new BusbarError(
        "BAD_PLAN",
        `reading the plan ${this.#name(full)}: its name must end in .yaml, .yml, .json or .md`,
      );
    const file = this.#read(full);
    for (const include of includesOf(file)) this.#include(include, folder, full);
    if (asked !== undefined && leavesTasksToFolder(file)) this.#takeAll(asked);
    const base = basename(full);
    return this.#done(folder, PLAN_NAMES.includes(base) ? basename(folder) : base);
  }

  folder(full: string): LoadedPlan {
    this.#takeAll(full);
    if (this.#files.length === 0)
      throw new BusbarError(
        "BAD_PLAN",
        `reading the folder ${this.#name(full)}: it holds no plan and no task files (.yaml, .yml, .json, .md)`,
        { help: "`busctl init` writes a first plan for a repository." },
      );
    return this.#done(full, basename(full));
  }

  #takeAll(folder: string): void {
    for (const { name, kind } of this.#list(folder))
      if (kind !== "directory" && KINDS.has(extname(name).toLowerCase())) this.#take(join(folder, name));
  }

  #done(folder: string, name: string): LoadedPlan {
    return { files: this.#files, problems: this.#problems, folder, name: idFromFile(name) };
  }

  /** `../` may lead out of the plan's folder; the rest is a pattern of schemas/globs.ts from there. */
  #include({ pattern, place }: Include, folder: string, plan: string): void {
    const [, up = "", rest = ""] = /^((?:\.\.?\/)*)(.*)$/s.exec(pattern) ?? [];
    const root = resolve(folder, up);
    const fault = pattern.startsWith("/")
      ? "is absolute; name files from the plan's folder"
      : globFault(rest);
    if (fault !== undefined) {
      this.#problem(place, `the include ${JSON.stringify(pattern)} ${fault}`);
      return;
    }
    if (join(root, rest) === plan) {
      this.#problem(place, `the plan includes itself: ${place.file} -> ${pattern}`);
      return;
    }
    const set = compilePathSet([rest]);
    const before = this.#files.length;
    const known = this.#seen.size;
    for (const path of this.#walk(root, fixedPrefix(rest)))
      if (set.matches(path)) this.#take(join(root, path));
    if (this.#files.length === before && this.#seen.size === known && !this.#matchesSeen(root, rest))
      this.#problem(place, `the include ${JSON.stringify(pattern)} names no task file`);
  }

  #matchesSeen(root: string, pattern: string): boolean {
    const set = compilePathSet([pattern]);
    return [...this.#seen].some((path) => set.matches(relative(root, path).split(sep).join("/")));
  }

  /** Files with a known ending at and below `root/start`, as paths from `root`, by name. */
  *#walk(root: string, start: string): Generator<string> {
    const at = join(root, start);
    const kind = this.io.kind(at);
    if (kind === "file" && KINDS.has(extname(start).toLowerCase())) yield start;
    if (kind !== "directory") return;
    const open = [start];
    for (let dir = open.pop(); dir !== undefined; dir = open.pop()) {
      const below: string[] = [];
      for (const { name, kind: what } of this.#list(join(root, dir))) {
        const path = dir === "" ? name : `${dir}/${name}`;
        if (what === "directory" && name !== ".git" && name !== "node_modules") below.push(path);
        else if (what !== "directory" && KINDS.has(extname(name).toLowerCase())) yield path;
      }
      open.push(...below.reverse());
    }
  }

  #list(dir: string): ReturnType<PlanIo["list"]> {
    let entries: ReturnType<PlanIo["list"]>;
    try {
      entries = this.io.list(dir);
    } catch (error) {
      throw ioError("listing", dir, error);
    }
    this.#entries += entries.length;
    if (this.#entries > MAX_ENTRIES)
      throw new BusbarError(
        "BAD_PLAN",
        `reading the plan: more than ${MAX_ENTRIES} files to look at below ${dir}; narrow \`include\``,
      );
    return entries.toSorted((a, b) => (a.name < b.name ? -1 : 1));
  }

  #take(full: string): void {
    if (this.#seen.has(full) || this.io.kind(full) !== "file") return;
    if (this.#files.length >= MAX_FILES)
      throw new BusbarError("BAD_PLAN", `reading the plan: more than ${MAX_FILES} task files`);
    this.#read(full);
  }

  #read(full: string): PlanFile {
    let text: string;
    try {
      text = this.io.read(full);
    } catch (error) {
      throw ioError("reading", full, error);
    }
    this.#bytes += text.length;
    if (this.#bytes > MAX_PLAN_BYTES)
      throw new BusbarError(
        "BAD_PLAN",
        `reading ${this.#name(full)}: the plan is larger than ${MAX_PLAN_BYTES} bytes`,
      );
    const file: PlanFile = {
      name: this.#name(full),
      text,
      kind: KINDS.get(extname(full).toLowerCase()) ?? "yaml",
    };
    this.#seen.add(full);
    this.#files.push(file);
    return file;
  }

  #problem(place: Place, message: string): void {
    this.#problems.push({ severity: "error", code: "include", ...place, message });
  }

  #name(full: string): string {
    const name = relative(this.cwd, full);
    return name === "" || name.startsWith(`..${sep}..${sep}..`) ? full : name;
  }
}
