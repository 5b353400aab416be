// Path sets: which repository paths a list of patterns covers. One reading for allowed_files, forbidden_files,
// protect, serial, contracts, the inputs of checks and `include`.
//
// 1. Patterns are rooted at the top of the repository, '/'-separated, compared case by case with names as git
//    prints them. The file system is never asked; the current directory plays no part.
// 2. Special are only `*` (any characters but '/'), `?` (one character but '/'), `**` as a whole part (any number of
//    parts) and `{a,b}` with a comma. `[ ] ( ) + ! @ |` and a brace without a comma stand for themselves.
// 3. Names that begin with a dot are names like any other.
// 4. A pattern whose last part has nothing special covers that path and all that is below it: `src` covers the file
//    `src` and `src/a/b`. `src/` and `src/**` cover what is below, at any depth. `src/*` does not go deeper.
// 5. Leading `./` and `/`, empty parts and `.` parts are dropped.
// 6. A path always matches the pattern that is written exactly like it, braces and all.
// 7. Faults: not a string, empty, only dots and slashes, longer than MAX_PATTERN_CHARS, NUL, a `..` part, a leading
//    `!`, more than MAX_BRACE_READINGS readings; and a backslash where `exists` says that no such path is there.
// 8. A set of no patterns covers nothing. (A plan may not say `allowed_files: []`; that is checked in plan/.)
//
// The matcher is ours, not a regular expression made by picomatch: such an expression takes 3 s to refuse a name of
// 40 letters for a part with nine `*`, so that whoever writes a plan or names a file could hold the scheduler. Here
// the time is bounded by pattern length * path length; test/fuzz/globs.test.ts holds it against the textbook.

import { BusbarError } from "./errors.ts";
import { showId } from "./ids.ts";
import { MAX_BRACE_READINGS, MAX_PATTERN_CHARS } from "./limits.ts";

export interface PathSet {
  readonly patterns: readonly string[];
  matches(path: string): boolean;
  /** The pattern that covers `path`, as it was written; undefined when none does. */
  rule(path: string): string | undefined;
}

/** Whether a file or directory stands at this repository path. */
export type Exists = (path: string) => boolean;

/** One part of a pattern between slashes: `**`, a plain name, or characters with `*` and `?` among them. */
type Part = { kind: "deep" } | { kind: "name"; text: string } | { kind: "wild"; text: string };
/** One reading of a pattern, after its braces are resolved. */
type Reading = readonly Part[];

const DEEP: Part = { kind: "deep" };
const ANY: Part = { kind: "wild", text: "*" };

/**
 * Compiles patterns into a set. With `exists`, a backslash is refused unless it is part of a name that is there;
 * without it (patterns of a spec that was checked before) a backslash stands for itself.
 * Throws BAD_PLAN that lists every bad pattern.
 */
export function compilePathSet(patterns: readonly string[], exists?: Exists): PathSet {
  const faults = patterns.flatMap((pattern, index) => {
    const why = globFault(pattern, exists);
    return why === undefined ? [] : [{ index, pattern, why }];
  });
  if (faults.length > 0) {
    const text = faults.map((f) => `${showId(f.pattern)} ${f.why}`).join("; ");
    throw new BusbarError("BAD_PLAN", `reading file patterns: ${text}`, { faults });
  }
  const plain = new Map<string, string>();
  const wild: { pattern: string; readings: Reading[] }[] = [];
  for (const pattern of patterns) {
    const readings = read(pattern);
    const name = plainName(readings);
    if (name === undefined) wild.push({ pattern, readings });
    else if (!plain.has(name)) plain.set(name, pattern);
  }
  const rule = (path: string): string | undefined =>
    plainRule(plain, path) ?? wildRule(wild, path.split("/"));
  return { patterns: [...patterns], rule, matches: (path) => rule(path) !== undefined };
}

/** Why `pattern` cannot be used, or undefined when it can. */
export function globFault(pattern: unknown, exists?: Exists): string | undefined {
  if (typeof pattern !== "string") return "must be a string";
  if (pattern === "") return "is empty";
  if (pattern.length > MAX_PATTERN_CHARS) return `is longer than ${MAX_PATTERN_CHARS} characters`;
  if (pattern.includes("\0")) return "holds a NUL";
  if (pattern.startsWith("!"))
    return "begins with '!': there is no negation, use forbidden_files (for a file of that name write './!...')";
  const readings = expandBraces(pattern);
  if (readings === undefined) return `has more than ${MAX_BRACE_READINGS} readings`;
  for (const reading of readings) {
    const parts = split(reading);
    if (parts.length === 0) return "names nothing; write '**' for everything";
    if (parts.includes("..")) return "holds '..'; patterns start at the top of the repository";
  }
  if (pattern.includes("\\") && exists && !backslashIsName(pattern, exists))
    return "holds a backslash, and no such file is there; parts are separated by '/'";
  return undefined;
}

/** Every backslash stands in the plain beginning of the pattern, and that beginning is there. */
function backslashIsName(pattern: string, exists: Exists): boolean {
  const prefix = fixedPrefix(pattern);
  return prefix.split("\\").length === pattern.split("\\").length && exists(prefix);
}

/** Whether some path could match both lists. Bad patterns match nothing. */
export function mayOverlap(a: readonly string[], b: readonly string[]): boolean {
  return overlap(a, b) !== undefined;
}

/** The first pair of patterns that some path could match both. */
export function overlap(a: readonly string[], b: readonly string[]): [string, string] | undefined {
  const left = a.filter((p) => globFault(p) === undefined).map((p) => [p, read(p)] as const);
  const right = b.filter((p) => globFault(p) === undefined).map((p) => [p, read(p)] as const);
  for (const [p, ps] of left)
    for (const [q, qs] of right) if (ps.some((x) => qs.some((y) => readingsMeet(x, y)))) return [p, q];
  return undefined;
}

/**
 * A pattern that meets every other one (it covers the whole tree, or begins with `**`). Such tasks are not kept apart
 * by the scheduler: all would run one by one. What they do to the same file is found at landing.
 */
export function meetsEverything(pattern: string): boolean {
  return isTreeWide(pattern) || /^[./]*\*\*/.test(pattern);
}

/** Whether the pattern covers practically everything: two stars as a part, and nothing else but stars and dots. */
export function isTreeWide(pattern: string): boolean {
  if (globFault(pattern) !== undefined) return false;
  return read(pattern).some(
    (reading) =>
      reading.some((part) => part.kind === "deep") &&
      reading.every((part) => part.kind === "deep" || (part.kind === "wild" && /^[*.]+$/.test(part.text))),
  );
}

/** The one file or directory that the pattern names when nothing in it is special, else undefined. */
export function literalPath(pattern: string): string | undefined {
  if (/[*?]/.test(pattern)) return undefined;
  return globFault(pattern) === undefined ? plainName(read(pattern)) : undefined;
}

/** The leading parts of a pattern that hold nothing special, without the slash; "" when there are none. */
export function fixedPrefix(pattern: string): string {
  const parts: string[] = [];
  for (const part of split(pattern)) {
    if (/[*?]/.test(part) || /\{[^}]*,/.test(part)) break;
    parts.push(part);
  }
  return parts.join("/");
}

// --- reading -------------------------------------------------------------------------------------

/** All readings of a sound pattern. */
function read(pattern: string): Reading[] {
  const texts = expandBraces(pattern) ?? [];
  if (texts.length > 1) texts.push(pattern); // rule 6
  return texts.map(readOne);
}

function readOne(text: string): Reading {
  const parts = split(text).map(
    (part): Part =>
      /^\*{2,}$/.test(part)
        ? DEEP
        : { kind: /[*?]/.test(part) ? "wild" : "name", text: part.replace(/\*{2,}/g, "*") },
  );
  const last = parts.at(-1);
  if (text.endsWith("/")) parts.push(ANY, DEEP);
  else if (last?.kind === "name") parts.push(DEEP);
  else if (last?.kind === "deep") parts.splice(-1, 1, ANY, DEEP); // below, not the directory itself
  return squeeze(parts);
}

/** `**` twice in a row says no more than once; left in, it would only cost time. */
function squeeze(parts: Part[]): Reading {
  return parts.filter((part, i) => part.kind !== "deep" || parts[i - 1]?.kind !== "deep");
}

function split(text: string): string[] {
  return text.split("/").filter((part) => part !== "" && part !== ".");
}

/** Every `{a,b}` with a comma resolved, outermost first; undefined when there are too many. */
function expandBraces(pattern: string): string[] | undefined {
  const done: string[] = [];
  const todo: { text: string; from: number }[] = [{ text: pattern, from: 0 }];
  for (let item = todo.pop(); item; item = todo.pop()) {
    if (done.length + todo.length >= MAX_BRACE_READINGS) return undefined;
    const brace = nextBrace(item.text, item.from);
    if (!brace) {
      done.push(item.text);
      continue;
    }
    const before = item.text.slice(0, brace.open);
    const after = item.text.slice(brace.close + 1);
    for (const choice of brace.choices) todo.push({ text: before + choice + after, from: brace.open });
  }
  return done;
}

/** The next brace at or after `from` that closes and holds a comma of its own. One pass, no recursion. */
function nextBrace(
  text: string,
  from: number,
): { open: number; close: number; choices: string[] } | undefined {
  const stack: { open: number; commas: number[] }[] = [];
  let found: { open: number; close: number; commas: number[] } | undefined;
  for (let i = from; i < text.length; i += 1) {
    const char = text[i];
    if (char === "{") stack.push({ open: i, commas: [] });
    else if (char === ",") stack.at(-1)?.commas.push(i);
    else if (char === "}") {
      const top = stack.pop();
      if (top && top.commas.length > 0 && (!found || top.open < found.open)) found = { ...top, close: i };
      if (found && stack.every((s) => s.open > (found?.open ?? 0))) break;
    }
  }
  if (!found) return undefined;
  const cuts = [found.open, ...found.commas, found.close];
  const choices = cuts.slice(1).map((end, i) => text.slice((cuts[i] ?? 0) + 1, end));
  return { open: found.open, close: found.close, choices };
}

// --- matching ------------------------------------------------------------------------------------

function plainName(readings: readonly Reading[]): string | undefined {
  const [reading, ...more] = readings;
  if (!reading || more.length > 0 || reading.at(-1)?.kind !== "deep") return undefined;
  const names = reading.slice(0, -1).map((part) => (part.kind === "name" ? part.text : undefined));
  return names.includes(undefined) ? undefined : names.join("/");
}

/** A plain name covers itself and all below: look the path up, then each directory above it. */
function plainRule(plain: ReadonlyMap<string, string>, path: string): string | undefined {
  if (plain.size === 0) return undefined;
  for (let at = path; ; at = at.slice(0, at.lastIndexOf("/"))) {
    const pattern = plain.get(at);
    if (pattern !== undefined || !at.includes("/")) return pattern;
  }
}

function wildRule(
  wild: readonly { pattern: string; readings: Reading[] }[],
  names: string[],
): string | undefined {
  return wild.find((w) => w.readings.some((reading) => readingMatches(reading, names)))?.pattern;
}

/** Greedy with a return to the last `**` only: what matched before it never has to be tried again. */
function readingMatches(reading: Reading, names: readonly string[]): boolean {
  return greedy(
    reading.length,
    names.length,
    (i) => reading[i]?.kind === "deep",
    (i, j) => partMatches(reading[i], names[j] ?? ""),
  );
}

function partMatches(part: Part | undefined, name: string): boolean {
  if (part?.kind !== "wild") return part?.kind === "name" && part.text === name;
  const { text } = part;
  if (text === "*") return true;
  const chars = [...name];
  const signs = [...text];
  return greedy(
    signs.length,
    chars.length,
    (i) => signs[i] === "*",
    (i, j) => signs[i] === "?" || signs[i] === chars[j],
  );
}

/** Wildcard matching of a sequence of `n` signs, of which some stand for any run, against `m` items: O(n * m). */
function greedy(
  n: number,
  m: number,
  isStar: (i: number) => boolean,
  fits: (i: number, j: number) => boolean,
): boolean {
  let i = 0;
  let star = -1;
  let resume = 0;
  for (let j = 0; j < m; ) {
    if (i < n && isStar(i)) {
      star = i;
      resume = j;
      i += 1;
    } else if (i < n && fits(i, j)) {
      i += 1;
      j += 1;
    } else if (star >= 0) {
      resume += 1;
      j = resume;
      i = star + 1;
    } else return false;
  }
  while (i < n && isStar(i)) i += 1;
  return i === n;
}

// --- meeting -------------------------------------------------------------------------------------

function readingsMeet(a: Reading, b: Reading): boolean {
  return meet(
    a.length,
    b.length,
    (i) => a[i]?.kind === "deep",
    (j) => b[j]?.kind === "deep",
    (i, j) => partsMeet(a[i], b[j]),
  );
}

function partsMeet(a: Part | undefined, b: Part | undefined): boolean {
  if (!a || !b || a.kind === "deep" || b.kind === "deep") return true;
  if (a.kind === "name") return partMatches(b, a.text);
  if (b.kind === "name") return partMatches(a, b.text);
  const x = [...a.text];
  const y = [...b.text];
  const same = (i: number, j: number): boolean => x[i] === "?" || y[j] === "?" || x[i] === y[j];
  return meet(
    x.length,
    y.length,
    (i) => x[i] === "*",
    (j) => y[j] === "*",
    same,
  );
}

/**
 * Whether two sequences with signs for "any run" have a common member. Walks the pairs (i, j) that can be reached
 * from the start, row by row: O(n * m), no recursion.
 */
function meet(
  n: number,
  m: number,
  starA: (i: number) => boolean,
  starB: (j: number) => boolean,
  fits: (i: number, j: number) => boolean,
): boolean {
  let row = new Uint8Array(m + 1);
  row[0] = 1;
  for (let i = 0; i <= n; i += 1) {
    const next = new Uint8Array(m + 1);
    for (let j = 0; j <= m; j += 1) {
      if (!row[j]) continue;
      const a = i < n && starA(i);
      const b = j < m && starB(j);
      if (a) next[j] = 1; // the run of a is empty, or ends here
      if (b) row[j + 1] = 1;
      if (a && j < m) row[j + 1] = 1; // the run of a takes what b has here
      if (b && i < n) next[j] = 1;
      if (i < n && j < m && !a && !b && fits(i, j)) next[j + 1] = 1;
    }
    if (i === n) return row[m] === 1;
    row = next;
  }
  return false;
}
