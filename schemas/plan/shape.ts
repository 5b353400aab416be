// Shapes with places: a tree is held against a zod schema, and every issue becomes a problem at the line it is
// about, in words that say what was written, what is expected, and which word was probably meant.

import { z } from "zod";
import { showId } from "../ids.ts";
import { didYouMean, nearest } from "./nearest.ts";
import { entry, type Node, nameOf, nodeAt, type Problems, type Source, toValue } from "./nodes.ts";

type Issue = z.core.$ZodIssue;

/** The value in the schema's type, or undefined when problems were added. */
export function readShape<T extends z.ZodType>(
  schema: T,
  node: Node,
  source: Source,
  problems: Problems,
): z.output<T> | undefined {
  const result = schema.safeParse(toValue(node));
  if (result.success) return result.data;
  const report = new Report(schema, node, source, problems, undefined);
  for (const issue of withoutEchoes(schema, result.error.issues)) report.issue(issue, []);
  return undefined;
}

/** What of a mapping could be read. `lost`: keys with faults, and those that misspelt ones were meant for. */
export type Parts<T extends z.ZodObject> =
  | { whole: true; value: z.output<T>; lost: ReadonlySet<string> }
  | { whole: false; value: Partial<z.output<T>>; lost: ReadonlySet<string> };

/** The value in the schema's type, or its sound parts when problems were added: later checks may go on with those. */
export function readParts<T extends z.ZodObject>(
  schema: T,
  node: Node & { kind: "map" },
  source: Source,
  problems: Problems,
  task?: string,
): Parts<T> {
  const value = toValue(node) as Record<string, unknown>;
  const result = schema.safeParse(value);
  if (result.success) return { whole: true, value: result.data, lost: new Set() };
  const { issues } = result.error;
  const report = new Report(schema, node, source, problems, task);
  for (const issue of withoutEchoes(schema, issues)) report.issue(issue, []);
  const lost = lostKeys(schema, issues);
  const kept = Object.fromEntries(Object.entries(value).filter(([key]) => !lost.has(key)));
  const again = schema.partial().safeParse(kept);
  return { whole: false, value: (again.success ? again.data : {}) as Partial<z.output<T>>, lost };
}

function lostKeys(schema: z.ZodObject, issues: readonly Issue[]): Set<string> {
  const lost = new Set<string>();
  const known = Object.keys(schema.shape);
  for (const issue of issues) {
    const [top] = issue.path;
    if (top !== undefined) lost.add(String(top));
    else if (issue.code === "unrecognized_keys")
      for (const key of issue.keys) lost.add(key).add(nearest(key, known) ?? key);
  }
  return lost;
}

/** `allowed_file` is one fault, not two: no word about the missing key that a misspelt one was meant for. */
function withoutEchoes(schema: z.ZodType, issues: readonly Issue[]): Issue[] {
  const meant = new Set<string>();
  for (const issue of issues) {
    if (issue.code !== "unrecognized_keys") continue;
    const known = keysOf(schemaAt(schema, issue.path));
    for (const key of issue.keys) meant.add(JSON.stringify([...issue.path, nearest(key, known)]));
  }
  return issues.filter((issue) => issue.code !== "invalid_type" || !meant.has(JSON.stringify(issue.path)));
}

/** Keys of an object schema; for a union, of all its objects. */
export function keysOf(schema: unknown): string[] {
  const inner = unwrap(schema);
  if (inner instanceof z.ZodObject) return Object.keys(inner.shape);
  if (inner instanceof z.ZodUnion) return inner.options.flatMap(keysOf);
  return [];
}

function unwrap(schema: unknown): unknown {
  let inner = schema;
  while (inner instanceof z.ZodOptional || inner instanceof z.ZodDefault || inner instanceof z.ZodNullable)
    inner = inner.unwrap();
  return inner;
}

class Report {
  constructor(
    readonly schema: z.ZodType,
    readonly root: Node,
    readonly source: Source,
    readonly problems: Problems,
    readonly task: string | undefined,
  ) {}

  issue(issue: Issue, above: readonly PropertyKey[]): void {
    const path = [...above, ...issue.path];
    const { node, found } = nodeAt(this.root, path);
    const name = fieldName(path);
    if (issue.code === "unrecognized_keys") this.#unknown(node, issue.keys, path);
    else if (issue.code === "invalid_union") this.#union(issue, path, node, name);
    else if (issue.code === "invalid_key")
      this.#add("bad_value", node, `${name} is no good name for a value`);
    else if (issue.code === "invalid_type" && !found) this.#add("missing", node, `${name} is missing`);
    else if (issue.code === "invalid_type") this.#type(issue, node, name);
    else if (issue.code === "invalid_value") this.#choice(issue.values, node, name);
    else
      this.#add(path.at(-1) === "id" ? "bad_id" : "bad_value", node, `${name} ${said(node)}${words(issue)}`);
  }

  #add(
    code: "bad_value" | "bad_id" | "missing" | "wrong_type",
    node: Node,
    message: string,
    hint?: string,
  ): void {
    this.problems.error(code, this.source.place(node.at), message, { hint, task: this.task });
  }

  #unknown(node: Node, keys: readonly string[], path: readonly PropertyKey[]): void {
    const known = keysOf(schemaAt(this.schema, path));
    for (const key of keys) {
      const at = entry(node, key)?.at ?? node.at;
      const where = path.length > 0 ? ` in ${fieldName(path)}` : "";
      const hint = didYouMean(key, known) ?? `known here: ${known.filter((k) => k !== "$schema").join(", ")}`;
      this.problems.error("unknown_key", this.source.place(at), `unknown key ${showId(key)}${where}`, {
        hint,
        task: this.task,
      });
    }
  }

  /** Of a union the branch is reported that fits the kind of the value; else what all branches expect. */
  #union(
    issue: Extract<Issue, { code: "invalid_union" }>,
    path: PropertyKey[],
    node: Node,
    name: string,
  ): void {
    const isRoot = (i: Issue): boolean =>
      i.path.length === 0 && (i.code === "invalid_type" || i.code === "invalid_value");
    const branch = issue.errors.find((issues) => issues.length > 0 && !issues.some(isRoot));
    if (branch) {
      for (const inner of branch) this.issue(inner, path);
      return;
    }
    const values = issue.errors.flatMap((issues) =>
      issues.flatMap((i) => (i.code === "invalid_value" ? i.values : [])),
    );
    const types = issue.errors.flatMap((issues) =>
      issues.flatMap((i) => (i.code === "invalid_type" ? [typeName(i.expected)] : [])),
    );
    const expected = [...new Set([...types, ...values.map((v) => `the word ${String(v)}`)])].join(" or ");
    const hint = node.kind === "scalar" ? didYouMean(String(node.value), values.map(String)) : undefined;
    this.#add("wrong_type", node, `${name} must be ${expected}, not ${nameOf(node)}`, hint);
  }

  #type(issue: Extract<Issue, { code: "invalid_type" }>, node: Node, name: string): void {
    const message = `${name} must be ${typeName(issue.expected)}, not ${nameOf(node)}`;
    this.#add("wrong_type", node, message, typeHint(issue.expected, node));
  }

  #choice(values: readonly unknown[], node: Node, name: string): void {
    const words = values.map(String);
    const message = `${name} must be ${words.join(" or ")}, not ${nameOf(node)}`;
    this.#add(
      "bad_value",
      node,
      message,
      didYouMean(node.kind === "scalar" ? String(node.value) : "", words),
    );
  }
}

/** `depends_on[2]`; the root is "this". */
export function fieldName(path: readonly PropertyKey[]): string {
  if (path.length === 0) return "this";
  return path
    .map((p, i) => (typeof p === "number" ? `[${p + 1}]` : `${i > 0 ? "." : ""}${String(p)}`))
    .join("");
}

function said(node: Node): string {
  return node.kind === "scalar" && typeof node.value === "string" ? `${showId(node.value)} ` : "";
}

function typeName(expected: string): string {
  if (expected === "array") return "a list";
  if (expected === "object" || expected === "record") return "a mapping";
  if (expected === "string") return "text";
  if (expected === "int") return "a whole number";
  if (expected === "boolean") return "true or false";
  return `a ${expected}`;
}

function typeHint(expected: string, node: Node): string | undefined {
  if (node.kind !== "scalar") return undefined;
  if (expected === "array" && node.value === null) return "leave the key out, or write []";
  if (expected === "array") return `write [${JSON.stringify(node.value)}]`;
  if (expected === "string" && node.value !== null) return `write it in quotes: "${node.value}"`;
  return node.value === null ? "leave the key out, or give it a value" : undefined;
}

/** Our own words for a bound; a schema's own message otherwise. */
function words(issue: Issue): string {
  if (issue.code === "too_small") {
    if (issue.origin === "array") return "is an empty list";
    if (issue.origin === "string") return "is empty";
    return issue.inclusive ? `must be at least ${issue.minimum}` : `must be more than ${issue.minimum}`;
  }
  if (issue.code === "too_big")
    return `must be at most ${issue.maximum}${issue.origin === "string" ? " characters" : ""}`;
  return issue.message;
}

function schemaAt(schema: unknown, path: readonly PropertyKey[]): unknown {
  let here = unwrap(schema);
  for (const step of path) {
    if (here instanceof z.ZodUnion)
      here = here.options.map(unwrap).find((o) => o instanceof z.ZodObject || o instanceof z.ZodArray);
    if (here instanceof z.ZodObject) here = unwrap((here.shape as Record<string, unknown>)[String(step)]);
    else if (here instanceof z.ZodArray) here = unwrap(here.element);
    else if (here instanceof z.ZodRecord) here = unwrap(here.valueType);
    else return undefined;
  }
  return here;
}
