// What the doctor found, part by part, with the cure under what lacks. Pure.

import type { Finding, FindingPart } from "../../../schemas/finding.ts";
import type { Palette } from "./palette.ts";
import { plural } from "./time.ts";
import { harmless, wrap } from "./width.ts";

const TITLES: Record<FindingPart, string> = {
  limits: "Limits",
  isolation: "Isolation",
  host: "Host",
  repository: "Repository",
  state: "State",
};

const ORDER: readonly FindingPart[] = ["isolation", "limits", "host", "repository", "state"];

export function doctorLines(findings: readonly Finding[], p: Palette, width: number): string[] {
  const names = Math.max(0, ...findings.map(({ name }) => name.length));
  const parts = ORDER.flatMap((part) => {
    const found = findings.filter((one) => one.part === part);
    if (found.length === 0) return [];
    return ["", p.bold(TITLES[part]), ...found.flatMap((one) => findingLines(one, names, p, width))];
  });
  return [verdictLine(findings, p), ...parts];
}

function verdictLine(findings: readonly Finding[], p: Palette): string {
  const of = (state: Finding["state"]) => findings.filter((one) => one.state === state).length;
  const [bad, poor] = [of("bad"), of("poor")];
  const good = `${of("good")} of ${plural(findings.length, "thing")} good`;
  if (bad > 0) {
    const missing =
      bad === 1 ? "1 thing that is needed is missing" : `${bad} things that are needed are missing`;
    return `${p.red("not well")}: ${missing}; ${good}`;
  }
  if (poor > 0) return `${p.yellow("well enough")}: nothing needed is missing; ${good}`;
  return `${p.green("well")}: ${good}`;
}

function findingLines(
  { name, state, said, cure }: Finding,
  names: number,
  p: Palette,
  width: number,
): string[] {
  const sign = SIGNS[state][p.unicode ? 0 : 1];
  const paint = { good: p.green, poor: p.yellow, bad: p.red }[state];
  const deep = names + 6;
  const lines = wrap(harmless(said), width - deep).map((line, i) =>
    i === 0 ? `  ${paint(sign)} ${name.padEnd(names)}  ${line}` : `${" ".repeat(deep)}${line}`,
  );
  if (state === "good" || cure === undefined) return lines;
  return [
    ...lines,
    ...wrap(`-> ${harmless(cure)}`, width - deep).map((line) => `${" ".repeat(deep)}${p.dim(line)}`),
  ];
}

const SIGNS: Record<Finding["state"], readonly [string, string]> = {
  good: ["✓", "+"],
  poor: ["!", "!"],
  bad: ["✗", "x"],
};
