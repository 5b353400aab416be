// Acceptance as one line of text. What stands in backticks is the command, the rest is the criterion in words:
// "Orders behave as before: `npm test`". In Markdown a line without backticks is words only; in YAML and JSON it is a
// command. A command that itself holds backticks is written as {run: ...} ($(...) does the same in a shell).

import type { Acceptance } from "../task.ts";

/** The parts of a line; a string says why it cannot be told apart. */
export function acceptanceParts(line: string): Acceptance | string {
  const spans = [...line.matchAll(/(`+)(.+?)\1(?!`)/g)];
  const [span] = spans;
  if (!span) return { text: line };
  if (spans.length > 1) return "holds more than one command in backticks";
  const run = (span[2] ?? "").trim();
  if (run === "") return "holds an empty command in backticks";
  const text = (line.slice(0, span.index) + line.slice(span.index + span[0].length))
    .trim()
    .replace(/[:;,–-]+$/, "")
    .trim();
  return text === "" ? { run } : { text, run };
}

/** A string of a YAML or JSON list. */
export function acceptanceLine(line: string): Acceptance | string {
  const parts = acceptanceParts(line);
  return typeof parts === "string" || parts.run !== undefined ? parts : { run: line };
}
