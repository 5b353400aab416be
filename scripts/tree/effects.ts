// The list of fault points is complete by construction: every effect in bus, shim and scheduler has one before it.
//
// The rule: in every function, the statement before one with an effect is `faultPoint("its.own.name")`, in the same
// block; one effect per statement. An effect in an arrow function without a body, or in a loop without a block, has no
// such place and needs one. What an effect is (effect-tables.ts):
//   - what is imported from Node's file and process modules, or execa, and is not in the table of what only reads;
//   - `process.kill`, `.listen`, and the writing methods of the state's disk;
//   - git, unless its first word is one that only reads;
//   - a call of the bus by a method that is no read;
//   - a call of one of our own doors: functions whose effects stand at their callers.
// Names are checked both ways: every use is in schemas/fault-points.ts (by type), every name is used, and only once.

import ts from "typescript";
import { METHODS } from "../../schemas/methods.ts";
import {
  CHECKED,
  DISK_METHODS,
  DOORS,
  EFFECT_MODULES,
  EXCEPTIONS,
  GIT_CALLS,
  GIT_READS,
  NO_EFFECT,
  NOT_CHECKED,
} from "./effect-tables.ts";
import type { Source, Tree } from "./source.ts";

export interface EffectFault {
  file: string;
  line: number;
  rule: "fault-point";
  message: string;
}

/** Effects without a point, and names that are unused, unknown or used twice. */
export function effectFaults(tree: Tree): EffectFault[] {
  const points = pointsOf(tree);
  const faults: EffectFault[] = [];
  const used = new Map<string, string>();
  for (const source of tree.sources.filter(({ path }) => isChecked(path)))
    faults.push(...new FileEffects(source, used, points).faults());
  for (const name of points)
    if (!used.has(name)) faults.push(at(LIST, 1, `${name} is in the list and used nowhere`));
  return faults;
}

const LIST = "schemas/fault-points.ts";

/** The names in the list, one a line. */
function pointsOf(tree: Tree): string[] {
  const text = tree.sources.find(({ path }) => path === LIST)?.text ?? "";
  return [...text.matchAll(/^ {2}"([\w.-]+)",$/gm)].map(([, name = ""]) => name);
}

function isChecked(path: string): boolean {
  return CHECKED.some((top) => path.startsWith(top)) && !NOT_CHECKED.some((top) => path.startsWith(top));
}

function at(file: string, line: number, message: string): EffectFault {
  return { file, line, rule: "fault-point", message };
}

class FileEffects {
  readonly #path: string;
  readonly #file: ts.SourceFile;
  /** Local name -> name in its module, of what was imported from modules with effects. */
  readonly #imported = new Map<string, string>();
  readonly #used: Map<string, string>;
  readonly #points: readonly string[];
  readonly #faults: EffectFault[] = [];
  readonly #anchors = new Map<ts.Node, string>();

  constructor(source: Source, used: Map<string, string>, points: readonly string[]) {
    this.#path = source.path;
    this.#file = ts.createSourceFile(source.path, source.text, ts.ScriptTarget.Latest, true);
    this.#used = used;
    this.#points = points;
  }

  faults(): EffectFault[] {
    for (const statement of this.#file.statements)
      if (ts.isImportDeclaration(statement)) this.#import(statement);
    const visit = (node: ts.Node): void => {
      if (ts.isCallExpression(node)) this.#call(node);
      else if (ts.isIdentifier(node)) this.#value(node);
      ts.forEachChild(node, visit);
    };
    visit(this.#file);
    return this.#faults;
  }

  #import(node: ts.ImportDeclaration): void {
    const module = ts.isStringLiteral(node.moduleSpecifier) ? node.moduleSpecifier.text : "";
    const clause = node.importClause;
    if (!EFFECT_MODULES.has(module) || !clause || clause.phaseModifier === ts.SyntaxKind.TypeKeyword) return;
    const names = clause.namedBindings;
    if (clause.name || !names || !ts.isNamedImports(names)) {
      this.#say(node, `import what is needed of ${module} by name`);
      return;
    }
    for (const { name, propertyName, isTypeOnly } of names.elements)
      if (!isTypeOnly) this.#imported.set(name.text, (propertyName ?? name).text);
  }

  #call(node: ts.CallExpression): void {
    if (ts.isIdentifier(node.expression) && node.expression.text === "faultPoint") {
      this.#point(node);
      return;
    }
    const effect = this.#effectOf(node);
    if (effect === undefined || this.#isExcepted(effect, node)) return;
    const anchor = anchorOf(node);
    if (!anchor) {
      this.#say(node, `${effect} has no statement of its own: give it a block with a fault point`);
      return;
    }
    const other = this.#anchors.get(anchor);
    this.#anchors.set(anchor, effect);
    if (other !== undefined)
      this.#say(node, `${effect} and ${other} are in one statement: each needs its own point`);
    else if (!hasPoint(anchor))
      this.#say(node, `${effect} has no faultPoint("...") in the statement before it`);
  }

  /** An effect that is handed on under another name would not be seen any more. */
  #value(node: ts.Identifier): void {
    const { parent } = node;
    const imported = this.#imported.get(node.text);
    if (imported === undefined || NO_EFFECT.has(imported) || ts.isImportSpecifier(parent)) return;
    if (ts.isCallExpression(parent) && parent.expression === node) return;
    if (ts.isTypeNode(parent) || ts.isTypeQueryNode(parent) || ts.isExpressionWithTypeArguments(parent))
      return;
    if (ts.isPropertyAccessExpression(parent) && parent.expression === node) return; // constants.O_CREAT
    if (
      ts.isPropertyAccessExpression(parent) ||
      (ts.isPropertyAssignment(parent) && parent.name === node) ||
      ts.isPropertySignature(parent) ||
      ts.isMethodSignature(parent)
    )
      return;
    const effect = `${imported} as a value`;
    if (!this.#isExcepted(effect, node)) this.#say(node, `${effect}: call it where it is imported`);
  }

  #point(node: ts.CallExpression): void {
    const [first] = node.arguments;
    if (!first || !ts.isStringLiteral(first)) {
      this.#say(node, "the name of a fault point is written out");
      return;
    }
    const place = `${this.#path}:${this.#lineOf(node)}`;
    const other = this.#used.get(first.text);
    if (other !== undefined) this.#say(node, `${first.text} stands at ${other}, too`);
    if (!this.#points.includes(first.text)) this.#say(node, `${first.text} is not in ${LIST}`);
    this.#used.set(first.text, place);
  }

  #effectOf(node: ts.CallExpression): string | undefined {
    const { expression } = node;
    const name = lastName(expression);
    if (name === undefined) return undefined;
    if (ts.isIdentifier(expression)) {
      const imported = this.#imported.get(name);
      if (imported !== undefined) return this.#ofModule(imported, node);
      if (GIT_CALLS.has(name)) return this.#ofGit(name, node);
    } else {
      if (expression.getText() === "process.kill")
        // signal 0 only asks
        return node.arguments[1]?.getText() === "0" ? undefined : "process.kill";
      if (name === "listen") return "listen";
      if (name === "call") return this.#ofBus(node);
      if (isDiskCall(expression, name)) return isReadOpen(name, node) ? undefined : name;
    }
    return DOORS.has(name) && !this.#isDoor(name) ? name : undefined;
  }

  /** Within the door itself: its own effects stand at its callers. */
  #isDoor(name: string): boolean {
    return DOORS.get(name)?.includes(this.#path) ?? false;
  }

  #ofModule(name: string, node: ts.CallExpression): string | undefined {
    return NO_EFFECT.has(name) || isReadOpen(name, node) ? undefined : name;
  }

  #ofGit(name: string, node: ts.CallExpression): string | undefined {
    const words = this.#wordsOf(node.arguments[name === "git" || name === "gitLine" ? 0 : 1]);
    const [verb = "?", ...rest] = words;
    const writes = GIT_READS.get(verb);
    return writes !== undefined && !writes.some((word) => rest.includes(word)) ? undefined : `git ${verb}`;
  }

  /** The literal words of an argument list, also when it stands in a constant of this file. */
  #wordsOf(node: ts.Node | undefined): string[] {
    let list = node;
    if (list && ts.isIdentifier(list)) list = constantNamed(this.#file, list.text);
    if (!list || !ts.isArrayLiteralExpression(list)) return [];
    return list.elements.map((element) => (ts.isStringLiteral(element) ? element.text : "?"));
  }

  #ofBus(node: ts.CallExpression): string | undefined {
    const [first] = node.arguments;
    if (!first || !ts.isStringLiteral(first)) return "call of any method";
    const method = Object.hasOwn(METHODS, first.text) && METHODS[first.text as keyof typeof METHODS];
    return method && method.reads === true ? undefined : `call ${first.text}`;
  }

  #isExcepted(effect: string, node: ts.Node): boolean {
    return EXCEPTIONS.some(
      ({ file, within, effects }) =>
        file === this.#path && effects.includes(effect) && (within === undefined || within === topName(node)),
    );
  }

  #say(node: ts.Node, message: string): void {
    this.#faults.push(at(this.#path, this.#lineOf(node), message));
  }

  #lineOf(node: ts.Node): number {
    return this.#file.getLineAndCharacterOfPosition(node.getStart(this.#file)).line + 1;
  }
}

function lastName(node: ts.Expression): string | undefined {
  if (ts.isIdentifier(node)) return node.text;
  return ts.isPropertyAccessExpression(node) ? node.name.text : undefined;
}

/** `file.sync()`, `disk.open(...)`; not `this.sync()` or `Journal.open(...)`. */
function isDiskCall(node: ts.Expression, name: string): boolean {
  if (!DISK_METHODS.has(name) || !ts.isPropertyAccessExpression(node)) return false;
  const owner = node.expression.getText();
  return name === "open" ? /\bdisk$/i.test(owner) : owner !== "this";
}

/** `open` and its kind, to read only. */
function isReadOpen(name: string, node: ts.CallExpression): boolean {
  if (name !== "open" && name !== "openSync") return false;
  const flags = node.arguments[1]?.getText() ?? '"r"';
  return flags === '"r"' || (flags.includes("O_RDONLY") && !/O_(CREAT|WRONLY|RDWR|TRUNC)/.test(flags));
}

/** The statement in a block that holds the node; never out of a function or a loop without a block. */
function anchorOf(node: ts.Node): ts.Statement | undefined {
  for (let at: ts.Node = node; at.parent; at = at.parent) {
    const { parent } = at;
    if (ts.isBlock(parent) || ts.isSourceFile(parent) || ts.isCaseOrDefaultClause(parent))
      return ts.isStatement(at) ? at : undefined;
    if (ts.isFunctionLike(parent) || ts.isIterationStatement(parent, false)) return undefined;
  }
  return undefined;
}

function hasPoint(statement: ts.Statement): boolean {
  const { parent } = statement;
  if (!ts.isBlock(parent) && !ts.isSourceFile(parent) && !ts.isCaseOrDefaultClause(parent)) return false;
  const before = parent.statements[parent.statements.indexOf(statement) - 1];
  if (!before || !ts.isExpressionStatement(before) || !ts.isCallExpression(before.expression)) return false;
  return lastName(before.expression.expression) === "faultPoint";
}

/** Name of the function or constant at the top of the file that holds the node. */
function topName(node: ts.Node): string | undefined {
  let at = node;
  while (at.parent && !ts.isSourceFile(at.parent)) at = at.parent;
  if (ts.isVariableStatement(at)) return at.declarationList.declarations[0]?.name.getText();
  return ts.isFunctionDeclaration(at) || ts.isClassDeclaration(at) ? at.name?.text : undefined;
}

/** The initial value of the one constant with that name in the file; undefined when there are several. */
function constantNamed(file: ts.SourceFile, name: string): ts.Expression | undefined {
  const found: (ts.Expression | undefined)[] = [];
  const visit = (node: ts.Node): void => {
    if (ts.isVariableDeclaration(node) && ts.isIdentifier(node.name) && node.name.text === name)
      found.push(node.initializer);
    ts.forEachChild(node, visit);
  };
  visit(file);
  const [first] = found;
  if (found.length !== 1 || !first) return undefined;
  return ts.isAsExpression(first) ? first.expression : first;
}
