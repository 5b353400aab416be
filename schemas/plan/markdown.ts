// A task as a Markdown page, read into the same tree as YAML:
//
// 1. Front matter between two lines `---` holds any task key as YAML (id, priority, depends_on ...); it may be absent.
// 2. The first `# heading` is the title; it stands before the goal.
// 3. Each `## section` is one key. Known, in any case: Goal, Interface, Allowed files, Forbidden files, Context files,
//    Acceptance, Prohibited actions. Goal and Interface are text; the others are lists (`-`, `*`, `+` or `1.`), where an
//    indented line continues its item.
// 4. An acceptance item: what stands in backticks is the command, the rest is the text. At most one command an item.
// 5. Headings inside a code fence are text; `###` and deeper belong to their section.

import { showId } from "../ids.ts";
import { acceptanceParts } from "./acceptance.ts";
import { didYouMean } from "./nearest.ts";
import { type Entry, entry, type Node, type Problems, type Source } from "./nodes.ts";
import { parseYaml } from "./yaml.ts";

const SECTIONS = new Map<string, { key: string; list: boolean }>([
  ["goal", { key: "goal", list: false }],
  ["interface", { key: "interface", list: false }],
  ["allowed files", { key: "allowed_files", list: true }],
  ["forbidden files", { key: "forbidden_files", list: true }],
  ["context files", { key: "context_files", list: true }],
  ["acceptance", { key: "acceptance", list: true }],
  ["prohibited actions", { key: "prohibited_actions", list: true }],
]);

interface Line {
  text: string;
  at: number;
}

interface Section {
  name: string;
  at: number;
  lines: Line[];
}

/** The task of a page; undefined when the page is empty. */
export function parseMarkdown(source: Source, problems: Problems): Node | undefined {
  const lines = linesOf(source);
  if (lines.every((line) => line.text.trim() === "")) return undefined;
  const front = frontMatter(lines);
  const entries: Entry[] = front ? headEntries(source, problems, front) : [];
  const page = sections(front ? lines.slice(front.length + 2) : lines, source, problems);
  for (const section of page.sections) addSection(entries, section, source, problems);
  const goal = entries.find((e) => e.key === "goal");
  if (page.title && goal?.value.kind === "scalar" && typeof goal.value.value === "string")
    goal.value.value = `${page.title.text}\n\n${goal.value.value}`.trim();
  else if (page.title && !goal) entries.push(textEntry("goal", page.title.text, page.title.at));
  return { kind: "map", entries, at: page.title?.at ?? lines[0]?.at ?? 0 };
}

function linesOf(source: Source): Line[] {
  let at = 0;
  return source.text.split("\n").map((raw) => {
    const line = { text: raw.replace(/\r$/, ""), at };
    at += raw.length + 1;
    if (line.at === 0 && line.text.startsWith("\uFEFF")) return { text: line.text.slice(1), at: 1 };
    return line;
  });
}

/** The lines between the two `---`, or undefined. */
function frontMatter(lines: readonly Line[]): Line[] | undefined {
  if (lines[0]?.text.trimEnd() !== "---") return undefined;
  const end = lines.findIndex((line, i) => i > 0 && line.text.trimEnd() === "---");
  return end < 0 ? undefined : lines.slice(1, end);
}

function headEntries(source: Source, problems: Problems, front: readonly Line[]): Entry[] {
  const [first, last] = [front[0], front.at(-1)];
  if (!first || !last) return [];
  const text = source.text.slice(first.at, last.at + last.text.length);
  const node = parseYaml(source, problems, { text, offset: first.at });
  if (!node || (node.kind === "scalar" && node.value === null)) return [];
  if (node.kind === "map") return [...node.entries];
  problems.error("wrong_type", source.place(node.at), "the front matter must be a mapping of keys to values");
  return [];
}

function sections(
  lines: readonly Line[],
  source: Source,
  problems: Problems,
): { title?: Line; sections: Section[] } {
  const found: Section[] = [];
  let title: Line | undefined;
  let fence: string | undefined;
  for (const line of lines) {
    const mark = /^ {0,3}(```+|~~~+)/.exec(line.text)?.[1];
    if (mark && (fence === undefined || (mark.startsWith(fence) && line.text.trim() === mark)))
      fence = fence === undefined ? mark : undefined;
    const heading = fence === undefined && !mark ? /^(#{1,2})\s+(.*?)(?:\s+#+)?\s*$/.exec(line.text) : null;
    const [, level = "", name = ""] = heading ?? [];
    if (level === "##") found.push({ name, at: line.at, lines: [] });
    else if (level === "#" && title === undefined && found.length === 0) title = { text: name, at: line.at };
    else if (found.length > 0) found.at(-1)?.lines.push(line);
    else if (line.text.trim() !== "") {
      const hint = "put it under '## Goal'";
      problems.error("parse", source.place(line.at), "text stands outside of every section", { hint });
      break;
    }
  }
  return { title, sections: found };
}

function addSection(entries: Entry[], section: Section, source: Source, problems: Problems): void {
  const word = section.name
    .toLowerCase()
    .replace(/\s*:$/, "")
    .replace(/[\s_]+/g, " ");
  const known = SECTIONS.get(word);
  if (!known) {
    const hint = didYouMean(word, SECTIONS.keys()) ?? `known sections: ${[...SECTIONS.keys()].join(", ")}`;
    problems.error("unknown_key", source.place(section.at), `unknown section ${showId(section.name)}`, {
      hint,
    });
    return;
  }
  const first = entry({ kind: "map", entries, at: 0 }, known.key);
  if (first) {
    const { line } = source.place(first.at);
    const message = `${known.key} is given twice; first at line ${line}`;
    problems.error("duplicate_key", source.place(section.at), message, { hint: "keep one of them" });
    return;
  }
  if (!known.list) {
    const text = section.lines
      .map((line) => line.text)
      .join("\n")
      .trim();
    entries.push(textEntry(known.key, text, section.at));
    return;
  }
  const items = listItems(section, source, problems).map((item) =>
    itemNode(known.key, item, source, problems),
  );
  entries.push({ key: known.key, at: section.at, value: { kind: "list", items, at: section.at } });
}

function listItems(section: Section, source: Source, problems: Problems): Line[] {
  const items: Line[] = [];
  for (const line of section.lines) {
    const item = /^\s{0,3}(?:[-*+]|\d{1,9}[.)])\s+(.*)$/.exec(line.text);
    const last = items.at(-1);
    if (item) items.push({ text: item[1] ?? "", at: line.at + line.text.length - (item[1] ?? "").length });
    else if (line.text.trim() === "") continue;
    else if (last && /^\s/.test(line.text)) last.text += ` ${line.text.trim()}`;
    else {
      const hint = "begin the line with '- '";
      problems.error(
        "parse",
        source.place(line.at),
        `${showId(section.name)} is a list; this is no item of it`,
        { hint },
      );
    }
  }
  return items;
}

function itemNode(key: string, item: Line, source: Source, problems: Problems): Node {
  const text = item.text.trim();
  if (key === "acceptance") {
    const parts = acceptanceParts(text);
    if (typeof parts === "string") {
      problems.error("bad_value", source.place(item.at), parts, { hint: "make one item of each command" });
      return { kind: "map", entries: [], at: item.at };
    }
    const entries = Object.entries(parts).map(([name, value]) => textEntry(name, value, item.at));
    return { kind: "map", entries, at: item.at };
  }
  const bare = key === "prohibited_actions" ? text : text.replace(/^`([^`]*)`$/, "$1");
  return { kind: "scalar", value: bare, at: item.at };
}

function textEntry(key: string, value: string, at: number): Entry {
  return { key, at, value: { kind: "scalar", value, at } };
}
