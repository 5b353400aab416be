// The rules themselves: facts in, faults out. Every rule has a fixture that it finds red (test/unit/tree.test.ts).

import { effectFaults } from "./effects.ts";
import {
  ARROWS,
  FORBIDDEN,
  MAX_FILE_LINES,
  MAX_FUNCTION_LINES,
  OUTSIDE_PRODUCT,
  P90_FUNCTION_LINES,
  PACKAGES,
  PRODUCT,
  TEST_KINDS,
} from "./rules.ts";
import { existsInTree, type Source, type Tree } from "./source.ts";

export interface Fault {
  file: string;
  line: number;
  rule: "arrow" | "cycle" | "package" | "size" | "tests" | "word" | "document" | "fault-point";
  message: string;
}

/** All faults of a tree, in the order of the rules. */
export function checkTree(tree: Tree): Fault[] {
  return [
    ...arrows(tree),
    ...cycles(tree),
    ...packages(tree),
    ...sizes(tree),
    ...testFolders(tree),
    ...words(tree),
    ...documents(tree),
    ...effectFaults(tree),
  ];
}

const isProduct = (path: string) => PRODUCT.some((folder) => path.startsWith(folder));

/** The longest entry of the table that holds `path`. */
function layerOf(path: string): string | undefined {
  let best: string | undefined;
  for (const layer of ARROWS.keys())
    if (
      (path === layer || (layer.endsWith("/") && path.startsWith(layer))) &&
      layer.length > (best?.length ?? 0)
    )
      best = layer;
  return best;
}

function arrows(tree: Tree): Fault[] {
  const faults: Fault[] = [];
  for (const source of tree.sources) {
    const from = layerOf(source.path);
    for (const { target, line } of source.imports) {
      if (!target || !from) continue;
      const to = layerOf(target);
      const why = arrowFault(from, to, target);
      if (why) faults.push({ file: source.path, line, rule: "arrow", message: why });
    }
  }
  return faults;
}

function arrowFault(from: string, to: string | undefined, target: string): string | undefined {
  if (OUTSIDE_PRODUCT.some((folder) => target.startsWith(folder)))
    return `the product must not import ${target}`;
  if (to === undefined || to === from || ARROWS.get(from)?.includes(to)) return undefined;
  return `${from} must not import ${target} (allowed: ${[from, ...(ARROWS.get(from) ?? [])].join(", ")})`;
}

/** Depth-first search; reports each cycle once, at the import that closes it. */
function cycles(tree: Tree): Fault[] {
  const faults: Fault[] = [];
  const byPath = new Map(tree.sources.map((source) => [source.path, source]));
  const state = new Map<string, "open" | "done">();
  const path: string[] = [];
  const visit = (source: Source): void => {
    state.set(source.path, "open");
    path.push(source.path);
    for (const { target, lazy, line } of source.imports) {
      const next = target === undefined || lazy ? undefined : byPath.get(target);
      if (!next || next === source) continue;
      if (state.get(next.path) === "open") {
        const loop = [...path.slice(path.indexOf(next.path)), next.path];
        faults.push({
          file: source.path,
          line,
          rule: "cycle",
          message: `import cycle: ${loop.join(" -> ")}`,
        });
      } else if (!state.has(next.path)) visit(next);
    }
    path.pop();
    state.set(source.path, "done");
  };
  for (const source of tree.sources) if (!state.has(source.path)) visit(source);
  return faults;
}

function packageName(specifier: string): string | undefined {
  if (specifier.startsWith(".") || specifier.startsWith("node:")) return undefined;
  const parts = specifier.split("/");
  return specifier.startsWith("@") ? parts.slice(0, 2).join("/") : parts[0];
}

function packages(tree: Tree): Fault[] {
  const faults: Fault[] = [];
  for (const source of tree.sources) {
    for (const { specifier, line } of source.imports) {
      const name = packageName(specifier);
      if (name === undefined) continue;
      const homes = PACKAGES.get(name);
      const message = !homes
        ? `package ${name} is not in the table of packages (scripts/tree/rules.ts)`
        : homes.some((home) => source.path === home || (home.endsWith("/") && source.path.startsWith(home)))
          ? undefined
          : `package ${name} belongs into ${homes.join(" or ")}`;
      // A test may look at what it tests with the package itself.
      if (message && !(homes && source.path.startsWith("test/")))
        faults.push({ file: source.path, line, rule: "package", message });
    }
  }
  return faults;
}

function sizes(tree: Tree): Fault[] {
  const faults: Fault[] = [];
  for (const { path, lines, functions } of tree.sources) {
    if (lines > MAX_FILE_LINES)
      faults.push({
        file: path,
        line: lines,
        rule: "size",
        message: `${lines} lines, at most ${MAX_FILE_LINES}`,
      });
    for (const fn of functions)
      if (fn.lines > MAX_FUNCTION_LINES)
        faults.push({
          file: path,
          line: fn.line,
          rule: "size",
          message: `function ${fn.name} has ${fn.lines} lines, at most ${MAX_FUNCTION_LINES}`,
        });
  }
  const { functionP90 } = measure(tree);
  if (functionP90 > P90_FUNCTION_LINES)
    faults.push({
      file: ".",
      line: 1,
      rule: "size",
      message: `90 % of the product's functions should have at most ${P90_FUNCTION_LINES} lines; it is ${functionP90}`,
    });
  return faults;
}

export interface Measures {
  files: number;
  fileMedian: number;
  fileP90: number;
  functions: number;
  functionMedian: number;
  functionP90: number;
}

/** Sizes of the product's files and functions (tests and scripts are not counted). */
export function measure(tree: Tree): Measures {
  const product = tree.sources.filter((source) => isProduct(source.path));
  const files = product.map((source) => source.lines);
  const functions = product.flatMap((source) => source.functions.map((fn) => fn.lines));
  return {
    files: files.length,
    fileMedian: quantile(files, 0.5),
    fileP90: quantile(files, 0.9),
    functions: functions.length,
    functionMedian: quantile(functions, 0.5),
    functionP90: quantile(functions, 0.9),
  };
}

function quantile(values: readonly number[], q: number): number {
  if (values.length === 0) return 0;
  const sorted = values.toSorted((a, b) => a - b);
  return sorted[Math.min(sorted.length - 1, Math.ceil(q * sorted.length) - 1)] ?? 0;
}

function testFolders(tree: Tree): Fault[] {
  const faults: Fault[] = [];
  for (const { path } of tree.sources) {
    if (!/\.(test|spec)\.[cm]?[jt]s$/.test(path)) continue;
    const [top, kind = "", ...rest] = path.split("/");
    const right = top === "test" && rest.length === 1 && (TEST_KINDS as readonly string[]).includes(kind);
    if (!right || !path.endsWith(".test.ts"))
      faults.push({
        file: path,
        line: 1,
        rule: "tests",
        message: `a test file stands at test/{${TEST_KINDS.join(",")}}/NAME.test.ts`,
      });
  }
  return faults;
}

function words(tree: Tree): Fault[] {
  const faults: Fault[] = [];
  for (const { path, text } of [...tree.sources, ...tree.texts]) {
    for (const [index, line] of text.split("\n").entries())
      for (const { pattern, why } of FORBIDDEN) {
        const found = pattern.exec(line);
        if (found) faults.push({ file: path, line: index + 1, rule: "word", message: `${found[0]}: ${why}` });
      }
  }
  return faults;
}

const DOCUMENTS = ["README.md", "ARCHITECTURE.md", "PROTOCOL.md", "SECURITY.md"];
const FILE_NAME =
  /`((?:bus|shim|scheduler|schemas|scripts|test)\/[\w./-]*)`|\]\((?!https?:|#)([^)#\s]+)[^)]*\)/g;
const NPM_SCRIPT = /`npm run ([\w:-]+)/g;

/** What the documents name must be there: files of the tree, and scripts of package.json. */
function documents(tree: Tree): Fault[] {
  const faults: Fault[] = [];
  const scripts = npmScripts(tree);
  for (const { path, text } of tree.texts.filter((file) => DOCUMENTS.includes(file.path))) {
    for (const [index, line] of text.split("\n").entries()) {
      const at = (message: string) => faults.push({ file: path, line: index + 1, rule: "document", message });
      for (const found of line.matchAll(FILE_NAME)) {
        const name = found[1] ?? found[2] ?? "";
        if (!existsInTree(tree, name)) at(`names ${name}, which is not there`);
      }
      for (const found of line.matchAll(NPM_SCRIPT))
        if (!scripts.has(found[1] ?? "")) at(`names npm run ${found[1]}, which package.json does not have`);
    }
  }
  return faults;
}

function npmScripts(tree: Tree): Set<string> {
  const text = tree.texts.find((file) => file.path === "package.json")?.text ?? "{}";
  const { scripts = {} } = JSON.parse(text) as { scripts?: Record<string, string> };
  return new Set(Object.keys(scripts));
}
