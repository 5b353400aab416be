// Which paths a sparse workspace holds (W2). Pure: the paths of the base and the task's spec in, a list out.
//
// 1. What the task may change, and its context files.
// 2. Everything at the top of the repository, and every package manifest and tool configuration on the way down.
// 3. Tests whose names hold a word of the task: the stem of an allowed or context file, or a tag.

import { compilePathSet, literalPath } from "../schemas/globs.ts";
import type { Task } from "../schemas/task.ts";
import { PUBLIC_FILES } from "./lanes.ts";

const CONFIG_NAMES: ReadonlySet<string> = new Set([...PUBLIC_FILES, ".editorconfig", ".npmrc", "biome.json"]);
const CONFIG_STEM =
  /^(\.eslintrc|\.prettierrc|eslint\.config|prettier\.config|jest\.config|vitest\.config|vite\.config|tsconfig|ruff|mypy|tox|pytest)\b/;
const TEST_NAME = /(^|[./_-])(test|tests|spec|__tests__)([./_-]|$)/i;
const MIN_WORD_CHARS = 3;

export function sparsePaths(paths: readonly string[], task: Task): string[] {
  const { spec } = task;
  const wanted = compilePathSet([...spec.allowed_files, ...task.granted]);
  const context = new Set(spec.context_files);
  const words = wordsOf(task);
  return paths.filter(
    (path) =>
      !path.includes("/") ||
      context.has(path) ||
      wanted.matches(path) ||
      isConfig(path) ||
      (TEST_NAME.test(path) && words.some((word) => path.toLowerCase().includes(word))),
  );
}

function isConfig(path: string): boolean {
  const name = path.slice(path.lastIndexOf("/") + 1);
  return CONFIG_NAMES.has(name) || CONFIG_STEM.test(name);
}

function wordsOf(task: Task): string[] {
  const files = [...task.spec.allowed_files, ...task.granted, ...task.spec.context_files];
  const stems = files.flatMap((pattern) => {
    const path = literalPath(pattern);
    return path === undefined ? [] : [path.slice(path.lastIndexOf("/") + 1).replace(/\..*$/, "")];
  });
  return [...new Set([...stems, ...task.spec.tags])]
    .map((word) => word.toLowerCase())
    .filter((word) => word.length >= MIN_WORD_CHARS);
}
