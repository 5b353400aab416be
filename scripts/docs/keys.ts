// The tables of what a person may write in a plan: keys, values, meanings, all from the published schema.

import { PlanInput, TaskInput } from "../../schemas/plan/input.ts";
import { type Schema, schemaOf } from "./schema.ts";

/** Keys of a plan or of a task; what must be there is bold. */
export function keyTable(type: typeof PlanInput | typeof TaskInput): string {
  return tableOf(rowsOf(schemaOf(type)));
}

/** The keys inside of other keys: `gate.canary.file`. Those that stand in several places are told once. */
export function innerTable(): string {
  const places = new Map<string, { path: string; schema: Schema }>();
  for (const type of [PlanInput, TaskInput])
    for (const [key, value] of Object.entries(schemaOf(type).properties ?? {}))
      if (key !== "defaults" && key !== "tasks") collect(key, value, places);
  const told = [...places.values()].toSorted((a, b) => (a.path < b.path ? -1 : 1));
  return tableOf(told.flatMap(({ path, schema }) => rowsOf(schema, `${path}.`)));
}

/** Every mapping below, under the shortest path that leads to it. */
function collect(path: string, schema: Schema, places: Map<string, { path: string; schema: Schema }>): void {
  for (const one of schema.anyOf ?? []) collect(path, one, places);
  if (schema.items) collect(`${path}[]`, schema.items, places);
  if (!schema.properties) return;
  const name = JSON.stringify(schema.properties);
  const known = places.get(name);
  if (!known || path.split(".").length < known.path.split(".").length) places.set(name, { path, schema });
  for (const [key, value] of Object.entries(schema.properties)) collect(`${path}.${key}`, value, places);
}

type Row = readonly [key: string, values: string, meaning: string];

function rowsOf({ properties = {}, required = [] }: Schema, path = ""): Row[] {
  return Object.entries(properties)
    .filter(([name]) => name !== "$schema")
    .map(([name, value]) => {
      const key = `\`${path}${name}\``;
      return [required.includes(name) ? `**${key}**` : key, valuesOf(value), cell(value.description ?? "")];
    });
}

function tableOf(rows: readonly Row[]): string {
  const lines = rows.map((row) => `| ${row.join(" | ")} |`);
  return ["| key | values | meaning |", "|---|---|---|", ...lines].join("\n");
}

/** `eager` or `waves`; text; list; mapping. */
function valuesOf(schema: Schema): string {
  if (schema.title !== undefined) return schema.title;
  if (schema.anyOf) return [...new Set(schema.anyOf.map(valuesOf))].join(" or ");
  if (schema.enum) return schema.enum.map((value) => `\`${value}\``).join(", ");
  if (schema.const !== undefined) return `\`${schema.const}\``;
  switch (schema.type) {
    case "boolean":
      return "`true`, `false`";
    case "array":
      return "list";
    case "string":
      return "text";
    case "integer":
    case "number":
      return "number";
    default:
      return "mapping";
  }
}

function cell(text: string): string {
  return text.replaceAll("|", "\\|").replaceAll("<", "&lt;");
}
