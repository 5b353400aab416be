// The help texts, from the verb table. Pure; short enough for one screen.

import { GLOBAL_OPTIONS, type Group, type OptionDef, type VerbDef } from "../verb-def.ts";
import type { Palette } from "./palette.ts";
import { renderTable } from "./table.ts";
import { wrap } from "./width.ts";

const GROUPS: readonly Group[] = ["Plan and run", "Watch", "Look at the work", "Decide", "House"];

export function mainHelp(verbs: readonly VerbDef[], p: Palette, width: number): string {
  const lines = [
    `${p.bold("busctl")}: many coding agents on one repository; only what was proven lands.`,
    "",
    `Usage: busctl VERB [OPTIONS]      ${p.dim("`busctl VERB --help` says more")}`,
  ];
  const nameWidth = verbs.reduce((w, v) => Math.max(w, usageOf(v).length), 0);
  for (const group of GROUPS) {
    lines.push("", p.bold(group));
    const rows = verbs
      .filter((v) => v.group === group)
      .map((v): [string, string] => [usageOf(v).padEnd(nameWidth), v.summary]);
    lines.push(...twoColumns(rows, width));
  }
  lines.push("", p.bold("Begin"), "  busctl init && busctl plan plan.yaml && busctl run plan.yaml");
  return `${lines.join("\n")}\n`;
}

function usageOf(verb: VerbDef): string {
  return verb.words === "" ? verb.name : `${verb.name} ${verb.words}`;
}

export function verbHelp(verb: VerbDef, p: Palette, width: number): string {
  const lines = [
    `${p.bold(`busctl ${verb.name}`)}: ${verb.summary}`,
    "",
    `Usage: busctl ${usageOf(verb)} [OPTIONS]`,
  ];
  if (verb.options.length > 0) lines.push("", p.bold("Options"), ...optionLines(verb.options, width));
  lines.push("", p.bold("Everywhere"), ...optionLines(GLOBAL_OPTIONS, width));
  if (verb.more) lines.push("", ...verb.more.flatMap((line) => wrap(line, width)));
  if (verb.examples.length > 0) {
    const rows = verb.examples.map(([command, what]) => [command, { text: what, paint: p.dim }]);
    lines.push(
      "",
      p.bold("Examples"),
      ...indent(renderTable([{ title: "" }, { title: "" }], rows, width - 2)),
    );
  }
  return `${lines.join("\n")}\n`;
}

function optionLines(options: readonly OptionDef[], width: number): string[] {
  const rows = options.map((o) => {
    const short = o.short ? `-${o.short}, ` : "    ";
    return [`${short}--${o.name}${o.value ? ` ${o.value}` : ""}`, o.help] as const;
  });
  return twoColumns(rows, width);
}

/** Names, and beside them what they mean, on as many lines as that takes. */
function twoColumns(rows: readonly (readonly [string, string])[], width: number): string[] {
  const names = rows.reduce((w, [name]) => Math.max(w, name.length), 0);
  return rows.flatMap(([name, text]) =>
    wrap(text, width - names - 4).map((line, i) =>
      `  ${(i === 0 ? name : "").padEnd(names)}  ${line}`.trimEnd(),
    ),
  );
}

function indent(lines: readonly string[]): string[] {
  return lines.map((line) => `  ${line}`);
}
