// Which tasks may touch the same file, and therefore go one after the other (S4). Pure.
//
// 1. Two tasks whose allowed files may overlap are never between claim and landing at the same time. Patterns that
//    begin with `**` or cover the whole tree are left out here: they meet everything, and a plan that allows every
//    task everything would run one by one. What such tasks do to the same file is found at landing.
// 2. Public files (manifests and lock files of package managers, shared configuration, and `serial` of the plan) have
//    one lane per run: tasks that name such a file, literally or by a pattern that is not tree-wide, and tasks that
//    declare `changes_contracts`, go one at a time.
// 3. A lane is held from the claim until the task is merged or settled otherwise (failed, blocked, cancelled).

import { fixedPrefix, literalPath, mayOverlap, meetsEverything } from "../schemas/globs.ts";
import type { TaskSpec } from "../schemas/task.ts";

/** Files that most changes of a project meet in; by name, wherever they stand. */
export const PUBLIC_FILES: readonly string[] = [
  "package.json",
  "package-lock.json",
  "npm-shrinkwrap.json",
  "yarn.lock",
  "pnpm-lock.yaml",
  "pnpm-workspace.yaml",
  "bun.lockb",
  "tsconfig.json",
  "pyproject.toml",
  "poetry.lock",
  "uv.lock",
  "Pipfile",
  "Pipfile.lock",
  "requirements.txt",
  "setup.py",
  "setup.cfg",
  "Cargo.toml",
  "Cargo.lock",
  "go.mod",
  "go.sum",
  "Gemfile",
  "Gemfile.lock",
  "composer.json",
  "composer.lock",
  "pom.xml",
  "build.gradle",
  "settings.gradle",
  "CMakeLists.txt",
  "Makefile",
  "Dockerfile",
  ".gitattributes",
  ".gitignore",
  ".gitmodules",
];
const PUBLIC_NAMES: ReadonlySet<string> = new Set(PUBLIC_FILES);

/** What a task holds while it is on its way; made once per task by `laneOf`. */
export interface Lane {
  serial: boolean;
  /** Patterns that are not tree-wide, each with its fixed beginning. */
  files: readonly { pattern: string; prefix: string }[];
}

export function laneOf(
  spec: Pick<TaskSpec, "allowed_files" | "changes_contracts">,
  granted: readonly string[],
  serial: readonly string[],
): Lane {
  const patterns = [...spec.allowed_files, ...granted].filter((pattern) => !meetsEverything(pattern));
  return {
    serial: spec.changes_contracts || patterns.some((pattern) => namesPublicFile(pattern, serial)),
    files: patterns.map((pattern) => ({ pattern, prefix: fixedPrefix(pattern) })),
  };
}

/** Why two tasks must not be on their way at the same time, or undefined when they may. */
export function clash(a: Lane, b: Lane): "serial" | "files" | undefined {
  if (a.serial && b.serial) return "serial";
  for (const x of a.files)
    for (const y of b.files)
      if (nested(x.prefix, y.prefix) && mayOverlap([x.pattern], [y.pattern])) return "files";
  return undefined;
}

function namesPublicFile(pattern: string, serial: readonly string[]): boolean {
  const literal = literalPath(pattern);
  if (literal !== undefined && PUBLIC_NAMES.has(literal.slice(literal.lastIndexOf("/") + 1))) return true;
  // A pattern such as `*.json` meets the public files at the top; `packages/a/**` is a part of the tree of its own.
  if (literal === undefined && mayOverlap([pattern], PUBLIC_FILES)) return true;
  return mayOverlap([pattern], serial);
}

/** Cheap answer first: patterns below different directories cannot meet. */
function nested(a: string, b: string): boolean {
  return a === "" || b === "" || a === b || a.startsWith(`${b}/`) || b.startsWith(`${a}/`);
}
