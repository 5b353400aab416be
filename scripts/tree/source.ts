// Reads a tree into plain facts that the rules judge: texts, imports with their lines, functions with their sizes.

import { existsSync, readdirSync, readFileSync } from "node:fs";
import { dirname, join, posix } from "node:path";
import ts from "typescript";

export interface Import {
  /** As written. */
  specifier: string;
  /** File of this tree that it names (from the root), or undefined for packages and Node's modules. */
  target: string | undefined;
  /** `import()`: loaded when it is called, so it closes no cycle. */
  lazy: boolean;
  line: number;
}

export interface Fn {
  name: string;
  line: number;
  lines: number;
}

export interface Source {
  /** From the root, '/'-separated. */
  path: string;
  text: string;
  lines: number;
  imports: Import[];
  functions: Fn[];
}

export interface Tree {
  root: string;
  /** TypeScript and JavaScript. */
  sources: Source[];
  /** Every other text file. */
  texts: { path: string; text: string }[];
}

const SKIP = new Set(["node_modules", "dist", "coverage", ".git", "package-lock.json", "LICENSE"]);
const CODE = /\.(ts|mjs|cjs|js)$/;
const TEXT = /\.(md|json|ya?ml|sh)$|(^|\/)\.(gitignore|npmrc)$|\.ci\/run$/;

/** Reads everything below `root` that is ours. */
export function readTree(root: string): Tree {
  const tree: Tree = { root, sources: [], texts: [] };
  for (const path of walk(root, "")) {
    const text = readFileSync(join(root, path), "utf8");
    if (CODE.test(path)) tree.sources.push(readSource(path, text));
    else if (TEXT.test(path)) tree.texts.push({ path, text });
  }
  return tree;
}

function* walk(root: string, folder: string): Generator<string> {
  const entries = readdirSync(join(root, folder), { withFileTypes: true });
  for (const entry of entries.sort((a, b) => (a.name < b.name ? -1 : 1))) {
    if (SKIP.has(entry.name)) continue;
    const path = folder === "" ? entry.name : `${folder}/${entry.name}`;
    if (entry.isDirectory()) yield* walk(root, path);
    else if (entry.isFile()) yield path;
  }
}

/** Parses one file; no types are resolved. */
export function readSource(path: string, text: string): Source {
  const file = ts.createSourceFile(path, text, ts.ScriptTarget.Latest, true);
  const source: Source = { path, text, lines: countLines(text), imports: [], functions: [] };
  const lineOf = (position: number) => file.getLineAndCharacterOfPosition(position).line + 1;
  const visit = (node: ts.Node): void => {
    const found = importOf(node);
    if (found) {
      const target = targetOf(path, found.specifier);
      source.imports.push({ ...found, target, line: lineOf(node.getStart(file)) });
    }
    if (isFunction(node) && node.body && !isSuite(node)) {
      const line = lineOf(node.getStart(file));
      source.functions.push({ name: nameOf(node), line, lines: lineOf(node.getEnd()) - line + 1 });
    }
    ts.forEachChild(node, visit);
  };
  visit(file);
  return source;
}

function countLines(text: string): number {
  return text === "" ? 0 : text.split("\n").length - (text.endsWith("\n") ? 1 : 0);
}

/** `import`, `export ... from`, `import()` and `import("x").T`. */
function importOf(node: ts.Node): { specifier: string; lazy: boolean } | undefined {
  if (ts.isImportDeclaration(node) && ts.isStringLiteral(node.moduleSpecifier))
    return { specifier: node.moduleSpecifier.text, lazy: false };
  if (ts.isExportDeclaration(node) && node.moduleSpecifier && ts.isStringLiteral(node.moduleSpecifier))
    return { specifier: node.moduleSpecifier.text, lazy: false };
  if (ts.isCallExpression(node) && node.expression.kind === ts.SyntaxKind.ImportKeyword) {
    const [first] = node.arguments;
    if (first && ts.isStringLiteral(first)) return { specifier: first.text, lazy: true };
  }
  if (
    ts.isImportTypeNode(node) &&
    ts.isLiteralTypeNode(node.argument) &&
    ts.isStringLiteral(node.argument.literal)
  )
    return { specifier: node.argument.literal.text, lazy: false };
  return undefined;
}

function targetOf(from: string, specifier: string): string | undefined {
  if (!specifier.startsWith(".")) return undefined;
  return posix.normalize(posix.join(dirname(from), specifier));
}

type FunctionNode = ts.FunctionLikeDeclaration;

function isFunction(node: ts.Node): node is FunctionNode {
  return (
    ts.isFunctionDeclaration(node) ||
    ts.isFunctionExpression(node) ||
    ts.isArrowFunction(node) ||
    ts.isMethodDeclaration(node) ||
    ts.isConstructorDeclaration(node) ||
    ts.isGetAccessorDeclaration(node) ||
    ts.isSetAccessorDeclaration(node)
  );
}

/** The body of `describe(...)` is a chapter, not a function that somebody has to follow. */
function isSuite(node: FunctionNode): boolean {
  const call = node.parent;
  return ts.isCallExpression(call) && /^(describe|suite)\b/.test(call.expression.getText());
}

function nameOf(node: FunctionNode): string {
  if (node.name) return node.name.getText();
  if (ts.isConstructorDeclaration(node)) return "constructor";
  const { parent } = node;
  if (ts.isVariableDeclaration(parent) || ts.isPropertyAssignment(parent)) return parent.name.getText();
  if (ts.isCallExpression(parent)) return `argument of ${parent.expression.getText().slice(0, 40)}`;
  return "(anonymous)";
}

/** True when `path` (from the root; with or without a trailing slash) exists in the tree. */
export function existsInTree(tree: Tree, path: string): boolean {
  return existsSync(join(tree.root, path));
}
