// YAML 1.2 with positions, through the package `yaml`: plans, task files, front matter, configuration.
//
// Documented choices: one document a file; merge keys (`<<: *base`) are resolved, own keys win; keys are plain text;
// duplicate keys, tags of one's own, anchors that hold themselves, and aliases that multiply to more than
// MAX_ALIASED_VALUES values are refused.

import { type Alias, isAlias, isMap, isScalar, isSeq, parseAllDocuments, type YAMLMap } from "yaml";
import { showId } from "../ids.ts";
import { MAX_ALIASED_VALUES, MAX_YAML_BYTES } from "../limits.ts";
import { parseJson, reportKey } from "./json.ts";
import { type Entry, isForbiddenKey, type Node, type Problem, Problems, Source } from "./nodes.ts";

/** Text of a file to a tree with places. `root` is undefined when it is empty or cannot be read. */
export function parseYamlWithPositions(
  file: string,
  text: string,
  kind: "yaml" | "json" = "yaml",
): { source: Source; root?: Node; problems: Problem[] } {
  const source = new Source(file, text);
  const problems = new Problems();
  const root = kind === "json" ? parseJson(source, problems) : parseYaml(source, problems);
  return { source, root: problems.failed ? undefined : root, problems: problems.list };
}

/** `part` is a cut of the source that begins at `offset` (front matter); default: all of it. */
export function parseYaml(
  source: Source,
  problems: Problems,
  part: { text: string; offset: number } = { text: source.text, offset: 0 },
): Node | undefined {
  if (part.text.length > MAX_YAML_BYTES) {
    const hint = "write JSON, or spread the tasks over files";
    problems.error("too_large", source.place(0), `YAML of more than ${MAX_YAML_BYTES} bytes is not read`, {
      hint,
    });
    return undefined;
  }
  const documents = parseAllDocuments(part.text, {
    uniqueKeys: false,
    prettyErrors: false,
    logLevel: "silent",
  });
  if (!Array.isArray(documents)) return undefined;
  const [document, second] = documents;
  if (!document) return undefined;
  const fault = [...document.errors, ...document.warnings][0];
  if (fault) {
    const message = /call stack/.test(fault.message) ? "nested too deeply" : fault.message;
    problems.error("parse", source.place(fault.pos[0] + part.offset), `not valid YAML: ${message}`);
    return undefined;
  }
  if (second) {
    const at = (second.contents?.range?.[0] ?? second.range[0]) + part.offset;
    problems.error(
      "parse",
      source.place(at),
      "a second YAML document begins here; one file holds one document",
    );
    return undefined;
  }
  return new Converter(source, problems, part.offset).convert(document.contents);
}

const EMPTY: Node = { kind: "scalar", value: null, at: 0 };

class Converter {
  readonly #anchors = new Map<string, Node>();
  readonly #open = new Set<string>();
  /** Values below each node, aliases counted each time they stand there. */
  readonly #weights = new Map<Node, number>();
  #aliased = 0;

  constructor(
    readonly source: Source,
    readonly problems: Problems,
    readonly offset: number,
  ) {}

  convert(value: unknown): Node {
    if (isAlias(value)) return this.#alias(value);
    if (isScalar(value))
      return this.#anchored(value.anchor, () => this.#scalar(value.value, this.#at(value)));
    if (isSeq(value))
      return this.#anchored(value.anchor, () => {
        const items = value.items.map((item) => this.convert(item));
        return this.#weighed({ kind: "list", items, at: this.#at(value) }, items);
      });
    if (isMap(value)) return this.#anchored(value.anchor, () => this.#map(value));
    return EMPTY;
  }

  #at(value: { range?: readonly number[] | null }): number {
    return (value.range?.[0] ?? 0) + this.offset;
  }

  #fail(at: number, message: string): Node {
    this.problems.error("parse", this.source.place(at), message);
    return { ...EMPTY, at };
  }

  #scalar(value: unknown, at: number): Node {
    if (
      value === null ||
      typeof value === "string" ||
      typeof value === "boolean" ||
      typeof value === "number"
    )
      return { kind: "scalar", value, at };
    return this.#fail(at, "this kind of value is not read here");
  }

  /** Remembers what an anchor stands for, and which anchors are being read. */
  #anchored(anchor: string | undefined, make: () => Node): Node {
    if (anchor === undefined) return make();
    this.#anchors.delete(anchor);
    this.#open.add(anchor);
    const node = make();
    this.#open.delete(anchor);
    this.#anchors.set(anchor, node);
    return node;
  }

  #alias(alias: Alias): Node {
    const at = this.#at(alias);
    if (this.#open.has(alias.source)) return this.#fail(at, `*${alias.source} stands inside what it names`);
    const node = this.#anchors.get(alias.source);
    if (!node) return this.#fail(at, `no anchor &${alias.source} stands before this`);
    const before = this.#aliased;
    this.#aliased += this.#weights.get(node) ?? 1;
    if (this.#aliased <= MAX_ALIASED_VALUES) return node;
    if (before <= MAX_ALIASED_VALUES)
      this.#fail(at, `aliases multiply to more than ${MAX_ALIASED_VALUES} values`);
    return { ...EMPTY, at };
  }

  #weighed(node: Node, below: readonly Node[]): Node {
    this.#weights.set(
      node,
      below.reduce((sum, n) => sum + (this.#weights.get(n) ?? 1), 1),
    );
    return node;
  }

  #map(map: YAMLMap): Node {
    const entries: Entry[] = [];
    const merged: Entry[] = [];
    const first = new Map<string, number>();
    for (const pair of map.items) {
      const at = isScalar(pair.key) ? this.#at(pair.key) : this.#at(map);
      const key = this.#key(pair.key, at);
      if (key === undefined) continue;
      const value = pair.value ? this.convert(pair.value) : { ...EMPTY, at };
      if (key === "<<") merged.push(...this.#merge(value, at));
      else {
        if (first.has(key) || isForbiddenKey(key))
          reportKey(this.source, this.problems, key, at, first.get(key));
        else entries.push({ key, at, value });
        if (!first.has(key)) first.set(key, at);
      }
    }
    for (const entry of merged) {
      if (first.has(entry.key)) continue;
      first.set(entry.key, entry.at);
      entries.push(entry);
    }
    const node: Node = { kind: "map", entries, at: this.#at(map) };
    return this.#weighed(
      node,
      entries.map((e) => e.value),
    );
  }

  #key(key: unknown, at: number): string | undefined {
    if (isScalar(key) && key.value !== null && typeof key.value !== "object") return String(key.value);
    this.#fail(at, "a key must be plain text");
    return undefined;
  }

  #merge(value: Node, at: number): Entry[] {
    if (value.kind === "map") return value.entries;
    const maps = value.kind === "list" ? value.items : [];
    if (maps.length === 0 || maps.some((m) => m.kind !== "map")) {
      this.#fail(at, `${showId("<<")} merges a mapping or a list of mappings`);
      return [];
    }
    return maps.flatMap((m) => (m.kind === "map" ? m.entries : []));
  }
}
