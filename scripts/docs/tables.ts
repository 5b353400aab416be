// The generated tables of the documents as Markdown, and their place in the page.

import { VERBS } from "../../bus/ctl/verb-table.ts";
import { ERRORS, RETIRED_RPC_NUMBERS } from "../../schemas/errors.ts";
import { limitsLine } from "../../schemas/limit-words.ts";
import { LIMIT_PRESETS } from "../../schemas/limits.ts";
import { METHODS } from "../../schemas/methods.ts";
import { PlanInput, TaskInput } from "../../schemas/plan/input.ts";
import type { Open } from "../../test/helpers/escape-kit.ts";
import { ESCAPES } from "../../test/helpers/escapes.ts";
import { innerTable, keyTable } from "./keys.ts";
import { type Schema, schemaOf } from "./schema.ts";

const PARTS: Record<string, Record<string, () => string>> = {
  "PROTOCOL.md": { methods: methodTable, errors: errorTable },
  "README.md": {
    verbs: verbTable,
    "plan-keys": () => keyTable(PlanInput),
    "task-keys": () => keyTable(TaskInput),
    "inner-keys": innerTable,
    "limit-presets": presetTable,
  },
  "SECURITY.md": { escapes: escapeList },
};

/** `text` of the document with all generated parts renewed. Throws when a marker is missing. */
export function withTables(document: string, text: string): string {
  let result = text;
  for (const [name, table] of Object.entries(PARTS[document] ?? {}))
    result = replacePart(document, result, name, table());
  return result;
}

function replacePart(document: string, text: string, name: string, table: string): string {
  const begin = `<!-- ${name}:begin -->`;
  const end = `<!-- ${name}:end -->`;
  const from = text.indexOf(begin);
  const to = text.indexOf(end);
  if (from < 0 || to < from) throw new Error(`${document} has no ${begin} ... ${end}`);
  return `${text.slice(0, from + begin.length)}\n\n${table}\n\n${text.slice(to)}`;
}

export function methodTable(): string {
  const lines = ["| method | who | params | repeatable | recorded as |", "|---|---|---|---|---|"];
  for (const [name, { roles, params, idempotent, reads }] of Object.entries(METHODS)) {
    const who = roles === "any" ? "anybody" : roles.join(", ");
    const shape = describeParams(schemaOf(params));
    lines.push(
      `| \`${name}\` | ${who} | ${shape} | ${idempotent ? "yes" : "no"} | ${reads ? "access" : "event"} |`,
    );
  }
  return lines.join("\n");
}

/** `{run, task?: string}` in one line, names only where the type says nothing new. */
function describeParams(schema: Schema): string {
  const entries = Object.entries(schema.properties ?? {});
  if (entries.length === 0) return "none";
  const required = new Set(schema.required ?? []);
  return entries
    .map(([name, value]) => `\`${name}${required.has(name) ? "" : "?"}\` ${typeName(value)}`)
    .join(", ");
}

function typeName(schema: Schema): string {
  if (schema.enum) return schema.enum.join("/");
  if (schema.const !== undefined) return String(schema.const);
  if (schema.anyOf) return schema.anyOf.map(typeName).join(" or ");
  if (schema.type === "array") return `[${typeName(schema.items ?? {})}]`;
  if (Array.isArray(schema.type)) return schema.type.join(" or ");
  return schema.type ?? "object";
}

export function errorTable(): string {
  const lines = ["| number | code | again? | what to do |", "|---|---|---|---|"];
  const entries = Object.entries(ERRORS).toSorted(([, a], [, b]) => Math.abs(a.rpc) - Math.abs(b.rpc));
  // JSON-RPC's own first, then ours by number.
  const own = entries.filter(([, entry]) => entry.rpc > 0);
  const standard = entries.filter(([, entry]) => entry.rpc < 0);
  for (const [code, { rpc, retryable, help }] of [...standard, ...own])
    lines.push(`| ${rpc} | ${code} | ${retryable ? "yes" : "no"} | ${help.replaceAll("|", "\\|")} |`);
  const retired = RETIRED_RPC_NUMBERS.length > 0 ? RETIRED_RPC_NUMBERS.join(", ") : "none";
  return `${lines.join("\n")}\n\nRetired numbers (never given again): ${retired}.`;
}

/** What is not held without a sandbox; each is tried by test/e2e/escape.test.ts. */
function escapeList(): string {
  const words: Record<Exclude<Open, "never">, string> = {
    always: "it can",
    root: "where busbar runs as root it can",
    perhaps: "where the host lets everybody, it can",
    ungrouped: "where there are no control groups, it can",
  };
  return Object.entries(words)
    .map(([open, begin]) => {
      const all = ESCAPES.filter((one) => one.open === open).map(({ can }) => can);
      return `- ${begin} ${all.join("; ")}`;
    })
    .join("\n");
}

function verbTable(): string {
  const lines = ["| | |", "|---|---|"];
  for (const { name, words, summary } of VERBS)
    lines.push(
      `| \`busctl ${name}${words === "" ? "" : ` ${words.replaceAll("|", "\\|")}`}\` | ${summary.replaceAll("|", "\\|")} |`,
    );
  return lines.join("\n");
}

function presetTable(): string {
  const lines = ["| preset | limits |", "|---|---|"];
  for (const [name, limits] of Object.entries(LIMIT_PRESETS))
    lines.push(`| \`${name}\` | ${limitsLine(limits)} |`);
  return lines.join("\n");
}
