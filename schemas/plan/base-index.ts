// The files of the base commit, as the plan check asks for them.

import { compilePathSet, fixedPrefix, literalPath } from "../globs.ts";
import { distance } from "./nearest.ts";

export interface BaseFile {
  path: string;
  /** Bytes, where known. */
  size?: number;
}

/** Comparisons of a name with all files; a plan of thousands of tasks on a large tree must stay quick. */
const MAX_NEAREST_SEARCHES = 200;
/** Steps of matching patterns against files; beyond them "matches something" is taken for granted. */
const MAX_MATCH_STEPS = 20_000_000;

export class BaseIndex {
  readonly #files = new Map<string, number | undefined>();
  readonly #dirs = new Set<string>();
  readonly #paths: string[];
  readonly #answers = new Map<string, boolean>();
  #searches = 0;
  #steps = 0;

  constructor(files: Iterable<BaseFile>) {
    for (const { path, size } of files) {
      this.#files.set(path, size);
      for (let cut = path.lastIndexOf("/"); cut > 0; cut = path.lastIndexOf("/", cut - 1)) {
        const dir = path.slice(0, cut);
        if (this.#dirs.has(dir)) break;
        this.#dirs.add(dir);
      }
    }
    this.#paths = [...this.#files.keys()].sort();
  }

  isFile(path: string): boolean {
    return this.#files.has(path);
  }

  isDirectory(path: string): boolean {
    return this.#dirs.has(path);
  }

  exists(path: string): boolean {
    return this.isFile(path) || this.isDirectory(path);
  }

  size(path: string): number | undefined {
    return this.#files.get(path);
  }

  /** Whether a sound pattern covers a file of the base. */
  matchesSomething(pattern: string): boolean {
    const literal = literalPath(pattern);
    if (literal !== undefined) return this.exists(literal);
    let answer = this.#answers.get(pattern);
    if (answer === undefined) {
      answer = this.#search(pattern);
      this.#answers.set(pattern, answer);
    }
    return answer;
  }

  #search(pattern: string): boolean {
    const set = compilePathSet([pattern]);
    const prefix = fixedPrefix(pattern);
    const under = prefix === "" ? "" : `${prefix}/`;
    for (let i = this.#firstFrom(under); i < this.#paths.length; i += 1) {
      const path = this.#paths[i] ?? "";
      if (!path.startsWith(under)) return false;
      this.#steps += 1;
      if (set.matches(path) || this.#steps > MAX_MATCH_STEPS) return true;
    }
    return false;
  }

  #firstFrom(text: string): number {
    let low = 0;
    let high = this.#paths.length;
    while (low < high) {
      const middle = (low + high) >> 1;
      if ((this.#paths[middle] ?? "") < text) low = middle + 1;
      else high = middle;
    }
    return low;
  }

  /** The file or directory whose path is at most `bound` edits away, nearest first. */
  nearest(path: string, bound: number): string | undefined {
    if (path === "" || path.length > 500 || this.#searches >= MAX_NEAREST_SEARCHES) return undefined;
    this.#searches += 1;
    let best: string | undefined;
    let least = bound + 1;
    const wanted = path.toLowerCase();
    for (const names of [this.#paths, this.#dirs])
      for (const name of names) {
        if (least === 0 || Math.abs(name.length - path.length) >= least) continue;
        const d = name.toLowerCase() === wanted ? 0 : distance(path, name, least - 1);
        if (d >= least) continue;
        least = d;
        best = name;
      }
    return best;
  }

  /** A file of the same name elsewhere, when there is exactly one: `session.ts` -> `src/session.ts`. */
  sameName(path: string): string | undefined {
    const name = path.slice(path.lastIndexOf("/") + 1);
    const found = this.#paths.filter((p) => p.endsWith(`/${name}`) || p === name);
    return found.length === 1 ? found[0] : undefined;
  }
}
