// Strict JSON (RFC 8259) with positions. JSON.parse has none, and takes the last of two equal keys without a word.
// No recursion: depth is bounded by MAX_DEPTH and the stack of open containers is ours.

import { showId } from "../ids.ts";
import { isForbiddenKey, type Node, type Problems, type Source } from "./nodes.ts";

/** Nesting beyond this is no plan. */
const MAX_DEPTH = 64;

const NUMBER = /-?(?:0|[1-9]\d*)(?:\.\d+)?(?:[eE][+-]?\d+)?/y;
const WORD = /true|false|null/y;

class Fault extends Error {
  constructor(
    readonly at: number,
    message: string,
  ) {
    super(message);
  }
}

/** The tree of a JSON text; undefined when it cannot be read (then a problem says where). */
export function parseJson(source: Source, problems: Problems): Node | undefined {
  try {
    return new Reader(source, problems).document();
  } catch (error) {
    if (!(error instanceof Fault)) throw error;
    problems.error("parse", source.place(error.at), `not valid JSON: ${error.message}`);
    return undefined;
  }
}

interface Open {
  node: Extract<Node, { kind: "map" | "list" }>;
  /** Key -> its first place, made when a map gets large. */
  keys?: Map<string, number>;
}

/** Up to here looking through the entries is quicker than a Map of its own for each object. */
const FEW_KEYS = 24;

function firstPlace(open: Open, key: string): number | undefined {
  if (open.node.kind !== "map") return undefined;
  const { entries } = open.node;
  if (entries.length <= FEW_KEYS) return entries.find((e) => e.key === key)?.at;
  open.keys ??= new Map(entries.toReversed().map((e) => [e.key, e.at]));
  return open.keys.get(key);
}

/** Stands in an entry until its value is read. */
const UNREAD: Node = { kind: "scalar", value: null, at: 0 };

class Reader {
  readonly #source: Source;
  readonly #text: string;
  readonly #problems: Problems;
  #pos: number;

  constructor(source: Source, problems: Problems) {
    this.#source = source;
    this.#text = source.text;
    this.#problems = problems;
    this.#pos = source.text.startsWith("\uFEFF") ? 1 : 0;
  }

  document(): Node | undefined {
    this.#space();
    if (this.#pos === this.#text.length) return undefined;
    const root = this.#value();
    this.#space();
    if (this.#pos < this.#text.length)
      throw new Fault(this.#pos, `unexpected ${this.#here()} after the end of the value`);
    return root;
  }

  #value(): Node {
    const stack: Open[] = [];
    for (;;) {
      let done = this.#begin(stack);
      // close containers that end here; then go on with the next element of the innermost open one
      while (done) {
        const open = stack.at(-1);
        if (!open) return done;
        this.#put(open, done);
        done = this.#next(open) ? undefined : stack.pop()?.node;
      }
    }
  }

  /** Reads a scalar or an empty container and returns it, or opens a container and returns undefined. */
  #begin(stack: Open[]): Node | undefined {
    this.#space();
    const at = this.#pos;
    const char = this.#text[at];
    if (char === "{" || char === "[") {
      if (stack.length >= MAX_DEPTH) throw new Fault(at, `nested deeper than ${MAX_DEPTH}`);
      this.#pos += 1;
      const node: Open["node"] =
        char === "{" ? { kind: "map", entries: [], at } : { kind: "list", items: [], at };
      this.#space();
      if (this.#text[this.#pos] === (char === "{" ? "}" : "]")) {
        this.#pos += 1;
        return node;
      }
      const open: Open = { node };
      stack.push(open);
      if (node.kind === "map") this.#key(open);
      return undefined;
    }
    return { kind: "scalar", value: this.#scalar(), at };
  }

  #put(open: Open, value: Node): void {
    if (open.node.kind === "list") open.node.items.push(value);
    else {
      const last = open.node.entries.at(-1);
      if (last) last.value = value;
    }
  }

  /** True when another element follows, false when the container ends. */
  #next(open: Open): boolean {
    this.#space();
    const end = open.node.kind === "map" ? "}" : "]";
    const char = this.#text[this.#pos];
    if (char !== "," && char !== end)
      throw new Fault(this.#pos, `expected ',' or '${end}', found ${this.#here()}`);
    this.#pos += 1;
    if (char === end) return false;
    if (open.node.kind === "map") this.#key(open);
    return true;
  }

  /** A key and its colon; the value is filled in later. */
  #key(open: Open): void {
    this.#space();
    const at = this.#pos;
    if (this.#text[at] !== '"') throw new Fault(at, `expected a key in double quotes, found ${this.#here()}`);
    const key = this.#string();
    const first = firstPlace(open, key);
    if (first !== undefined || isForbiddenKey(key)) reportKey(this.#source, this.#problems, key, at, first);
    if (first === undefined) open.keys?.set(key, at);
    this.#space();
    if (this.#text[this.#pos] !== ":") throw new Fault(this.#pos, `expected ':', found ${this.#here()}`);
    this.#pos += 1;
    if (open.node.kind === "map") open.node.entries.push({ key, at, value: UNREAD });
  }

  #scalar(): string | number | boolean | null {
    const char = this.#text[this.#pos] ?? "";
    if (char === '"') return this.#string();
    const text = this.#match(/[-0-9]/.test(char) ? NUMBER : WORD);
    if (text === undefined) throw new Fault(this.#pos, `expected a value, found ${this.#here()}`);
    return JSON.parse(text) as number | boolean | null;
  }

  /** From the quote to the next one that is not escaped; JSON.parse then judges what is between. */
  #string(): string {
    const start = this.#pos;
    let end = start + 1;
    while (end < this.#text.length && this.#text[end] !== '"') end += this.#text[end] === "\\" ? 2 : 1;
    if (end >= this.#text.length) throw new Fault(start, "this text does not end");
    this.#pos = end + 1;
    try {
      return JSON.parse(this.#text.slice(start, end + 1)) as string;
    } catch {
      throw new Fault(start, "this text holds a bad escape or a raw control character (a line break is \\n)");
    }
  }

  #match(pattern: RegExp): string | undefined {
    pattern.lastIndex = this.#pos;
    const text = pattern.exec(this.#text)?.[0];
    if (text !== undefined) this.#pos += text.length;
    return text;
  }

  #space(): void {
    for (;;) {
      const code = this.#text.charCodeAt(this.#pos);
      if (code !== 0x20 && code !== 0x0a && code !== 0x0d && code !== 0x09) return;
      this.#pos += 1;
    }
  }

  #here(): string {
    const char = this.#text[this.#pos];
    return char === undefined ? "the end of the file" : showId(char);
  }
}

/** A key that is there twice, or that no parser downstream can be trusted with. Shared with YAML. */
export function reportKey(source: Source, problems: Problems, key: string, at: number, first?: number): void {
  if (isForbiddenKey(key)) problems.error("unknown_key", source.place(at), `${showId(key)} cannot be a key`);
  else if (first !== undefined) {
    const { line, column } = source.place(first);
    const message = `the key ${showId(key)} is given twice; first at line ${line}, column ${column}`;
    problems.error("duplicate_key", source.place(at), message, { hint: "keep one of them" });
  }
}
