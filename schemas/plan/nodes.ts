// What a file of a person is turned into before anything is believed: a tree of values in which every key and value
// knows its place, and a list of problems. YAML, JSON and Markdown all become this tree. Foreign keys are entries of
// a list or keys of a Map, never keys of an object.

import { showId } from "../ids.ts";

export interface Place {
  file: string;
  /** From 1. */
  line: number;
  /** From 1, in UTF-16 units. */
  column: number;
}

/** `at` is an offset into the text of the source. */
export type Node =
  | { kind: "map"; entries: Entry[]; at: number }
  | { kind: "list"; items: Node[]; at: number }
  | { kind: "scalar"; value: string | number | boolean | null; at: number };

export interface Entry {
  key: string;
  at: number;
  value: Node;
}

export const PROBLEM_CODES = [
  "parse",
  "too_large",
  "duplicate_key",
  "unknown_key",
  "wrong_type",
  "bad_value",
  "missing",
  "no_tasks",
  "bad_id",
  "duplicate_id",
  "unknown_dependency",
  "cycle",
  "bad_pattern",
  "outside",
  "scope",
  "no_gate",
  "agent",
  "not_available",
  "not_enforced",
  "overlap",
  "vague",
  "no_acceptance",
  "many_files",
  "many_context_files",
  "goal_length",
  "large_change",
  "matches_nothing",
  "no_such_file",
  "include",
  "serial",
] as const;
export type ProblemCode = (typeof PROBLEM_CODES)[number];

/** One fault, or one doubt, with its place and what to do. An error stops the plan, a warning does not. */
export interface Problem extends Place {
  severity: "error" | "warning";
  code: ProblemCode;
  message: string;
  hint?: string;
  task?: string;
}

/** A text with a name, and the way from offsets to places. */
export class Source {
  readonly file: string;
  readonly text: string;
  readonly #starts: number[] = [0];

  constructor(file: string, text: string) {
    this.file = file;
    this.text = text;
    for (let i = text.indexOf("\n"); i >= 0; i = text.indexOf("\n", i + 1)) this.#starts.push(i + 1);
  }

  place(offset: number): Place {
    let low = 0;
    let high = this.#starts.length - 1;
    while (low < high) {
      const middle = (low + high + 1) >> 1;
      if ((this.#starts[middle] ?? 0) <= offset) low = middle;
      else high = middle - 1;
    }
    const start = this.#starts[low] ?? 0;
    const bom = low === 0 && this.text.startsWith("\uFEFF") ? 1 : 0; // an editor does not count it
    return { file: this.file, line: low + 1, column: Math.max(1, offset - start + 1 - bom) };
  }
}

/** Collects problems; a file that is wrong everywhere is not printed line by line. */
export class Problems {
  static readonly MAX = 500;
  readonly list: Problem[] = [];
  #left = 0;

  add(problem: Problem): void {
    if (this.list.length < Problems.MAX) this.list.push(problem);
    else this.#left += 1;
  }

  error(code: ProblemCode, place: Place, message: string, more: { hint?: string; task?: string } = {}): void {
    this.add({ severity: "error", code, ...place, message, ...more });
  }

  warn(code: ProblemCode, place: Place, message: string, more: { hint?: string; task?: string } = {}): void {
    this.add({ severity: "warning", code, ...place, message, ...more });
  }

  get failed(): boolean {
    return this.#left > 0 || this.list.some((p) => p.severity === "error");
  }

  get count(): number {
    return this.list.length + this.#left;
  }

  /** Problems beyond the bound, counted only. */
  get left(): number {
    return this.#left;
  }
}

export function entry(node: Node, key: string): Entry | undefined {
  return node.kind === "map" ? node.entries.find((e) => e.key === key) : undefined;
}

/** The node at a path of keys and indexes, or the deepest one on the way that exists. */
export function nodeAt(node: Node, path: readonly PropertyKey[]): { node: Node; found: boolean } {
  let here = node;
  for (const step of path) {
    const next = here.kind === "list" ? here.items[Number(step)] : entry(here, String(step))?.value;
    if (!next) return { node: here, found: false };
    here = next;
  }
  return { node: here, found: true };
}

/** The value as a reader would name it: `the text "a"`, `a list`, `nothing`. */
export function nameOf(node: Node): string {
  if (node.kind === "map") return "a mapping";
  if (node.kind === "list") return "a list";
  if (node.value === null) return "nothing";
  if (typeof node.value === "string") return `the text ${showId(node.value)}`;
  return typeof node.value === "number" ? `the number ${node.value}` : `${node.value}`;
}

/** Plain values for a parser of shapes. Maps have no prototype, so that `constructor` is a key like any other. */
export function toValue(node: Node): unknown {
  if (node.kind === "scalar") return node.value;
  if (node.kind === "list") return node.items.map(toValue);
  const value = Object.create(null) as Record<string, unknown>;
  for (const e of node.entries) value[e.key] = toValue(e.value);
  return value;
}

/** `__proto__` is the one key that parsers downstream may drop in silence. */
export function isForbiddenKey(key: string): boolean {
  return key === "__proto__";
}
