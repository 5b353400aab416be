// What an agent printed of what it had been told (prompt.md, context.json) is no evidence: left in, attempt 3 would be told
// what attempt 2 was told of attempt 1. Pure.
//
// A stretch of the log is cut when it stands word for word, in order, in what was told, holds a line that only we write (a
// heading, a rule, a key), and is at least MIN_LINES long. The same failure met again is no such stretch: it stays.

/** Shorter matches say nothing. */
const MIN_LINES = 3;
/** Lines that agents' own output hardly has: of the prompt's template, and keys of context.json. */
const OURS =
  /^(# Task \S+|## (Goal|Interface|Allowed files|Forbidden files|Read these first|Acceptance|Prohibited actions|Rules|Attempt \d+ failed: .*)|"(allowed_files|forbidden_files|context_files|earlier|granted_files|prohibited_actions|landed_since)": \[\]?,?)/;

interface Told {
  lines: string[];
  /** Where a line of ours stands. */
  marks: Map<string, number[]>;
}

/** `log` with one line in the place of each stretch that was told. */
export function withoutToldWords(log: string, texts: readonly string[]): string {
  if (!log.split("\n").some((line) => OURS.test(bare(line)))) return log;
  const lines = log.split("\n");
  const told = texts.map(readTold);
  const kept: string[] = [];
  for (let at = 0; at < lines.length; ) {
    const found = longest(lines, at, told);
    const back = found ? Math.min(found.before, kept.length) : 0;
    const words = found ? lines.slice(at - back, at + found.after).filter((line) => bare(line) !== "") : [];
    if (!found || words.length < MIN_LINES) {
      kept.push(lines[at] ?? "");
      at += 1;
      continue;
    }
    kept.length -= back;
    kept.push(`[${back + found.after} lines of what it had been told]`);
    at += found.after;
  }
  return kept.join("\n");
}

/** Indentation and the signs of quoting are left out. */
function bare(line: string): string {
  return line.replace(/^[\s>|│]+/, "").trimEnd();
}

function readTold(text: string): Told {
  const lines = text.trimEnd().split("\n").map(bare);
  const marks = new Map<string, number[]>();
  for (const [n, line] of lines.entries())
    if (OURS.test(line)) marks.set(line, [...(marks.get(line) ?? []), n]);
  return { lines, marks };
}

/** The longest stretch round the line at `at`, when that is one of ours. */
function longest(lines: readonly string[], at: number, told: readonly Told[]) {
  let best: { before: number; after: number } | undefined;
  for (const { lines: words, marks } of told)
    for (const n of marks.get(bare(lines[at] ?? "")) ?? []) {
      const after = matching((k) => [lines[at + k], words[n + k]]);
      const before = matching((k) => [lines[at - 1 - k], words[n - 1 - k]]);
      if (!best || before + after > best.before + best.after) best = { before, after };
    }
  return best;
}

function matching(pair: (k: number) => [string | undefined, string | undefined]): number {
  for (let k = 0; ; k++) {
    const [line, word] = pair(k);
    if (line === undefined || word === undefined || bare(line) !== word) return k;
  }
}
