// What a person sees of problems and of the report (S2), and the published schemas.

import assert from "node:assert/strict";
import { readdirSync, readFileSync } from "node:fs";
import { test } from "node:test";
import { wrap } from "../../bus/ctl/render/width.ts";
import { publishedSchemas } from "../../schemas/plan/published.ts";
import { NO_COLOUR, renderProblems, renderReport } from "../../schemas/plan/render.ts";
import { check, fixture, planOf } from "../helpers/plans.ts";

test("S2: problems in the order of the file, each with its line, a mark and the cure", () => {
  const text = fixture("case-56/typo.yaml");
  const { problems } = check(text, { kind: "yaml" });
  const shown = renderProblems(problems.toReversed(), NO_COLOUR, (_, n) => text.split("\n")[n - 1]);
  assert.equal(
    shown.split("\n").slice(-5).join("\n"),
    `p.yaml:5:81: error: unknown key "Timeout" [task d]
  5 | - {id: d, command: "bash -c true", allowed_files: ["**"], acceptance: ["true"], Timeout: 5}
    |                                                                                 ^ did you mean "timeout"?
4 errors
`,
  );
  assert.equal(renderProblems([]), "");
});

test("S2: long lines are cut round the place, control signs are not printed", () => {
  const place = { file: "f", line: 12, column: 201, severity: "warning" as const, code: "parse" as const };
  const line = `${"x".repeat(200)}HERE\u001b[31m${"y".repeat(200)}`;
  const [, excerpt, mark] = renderProblems([{ ...place, message: "m" }], NO_COLOUR, () => line).split("\n");
  assert.equal(excerpt?.indexOf("HERE"), mark?.indexOf("^"));
  assert.ok((excerpt?.length ?? 0) < 120);
  assert.ok(!excerpt?.includes("\u001b"));
  const wide = renderProblems([{ ...place, column: 999, message: "m", hint: "h" }], NO_COLOUR, () => "short");
  assert.match(wide, /\n {2}12 \| short\n {5}\| {6}\^ h\n/);
});

test("S2, issue 2.6: on a terminal nothing is wider than it, and no word is broken", () => {
  const ids = Array.from({ length: 8 }, (_, i) => `task_with_a_long_name_${i}`);
  const text = planOf(
    ...ids.map((id) => ({ id, allowed_files: ["src/the/same/file/of/all/tasks.ts", "/etc/x"] })),
  );
  const { problems, report } = check(text);
  for (const width of [40, 60, 80]) {
    const screen = { width, wrap };
    const shown = `${renderProblems(problems, NO_COLOUR, () => text, screen)}${renderReport(report!, NO_COLOUR, screen)}`;
    for (const line of shown.split("\n")) assert.ok(line.length <= width, `${width}: ${line}`);
    for (const id of ids) assert.match(shown, new RegExp(`\\b${id}\\b`));
  }
  const place = { file: "p.yaml", line: 7, column: 6, severity: "error", code: "parse", task: "a" } as const;
  const one = {
    ...place,
    message: "the key is not known here at all",
    hint: "did you mean another one, or none?",
  };
  assert.equal(
    renderProblems([one], NO_COLOUR, () => "  - x: [src, y]", { width: 40, wrap }),
    `p.yaml:7:6: error: the key is not
  known here at all [task a]
  7 |   - x: [src, y]
    |      ^
    | did you mean another one, or none?
1 error
`,
  );
});

test("S2: colours come in from outside and go round whole words", () => {
  const palette = { ...NO_COLOUR, red: (s: string) => `<${s}>` };
  assert.match(renderProblems(check("tasks:").problems, palette), /p.yaml:1:1: <error>: no tasks/);
});

test("S2: the report: waves, critical path, verdict", () => {
  const { report } = check(planOf({ id: "a" }, { id: "b", depends_on: ["a"] }, { id: "c" }, { id: "d" }));
  assert.equal(
    renderReport(report!),
    `4 tasks in 2 waves
  wave 1  a, c, d
  wave 2  b
critical path  2 tasks: a -> b
parallel       worth it; at best 2.0 times as fast
`,
  );
  const many = check(
    planOf(
      ...Array.from({ length: 60 }, (_, i) => ({ id: `t${i}`, depends_on: i > 20 ? [`t${i - 1}`] : [] })),
    ),
  );
  const text = renderReport(many.report!);
  assert.match(text, /wave {2}1 {2}t0, t1, .*t9 and 11 more\n/);
  assert.match(text, /\.\.\. 28 more waves\n/);
  assert.ok(text.split("\n").every((line) => line.length < 160));
});

test("S1: the published schemas are what the generator writes (npx tsx scripts/generate-schemas.ts)", () => {
  const folder = new URL("../../schemas/json/", import.meta.url);
  const written = publishedSchemas();
  assert.deepEqual(readdirSync(folder).sort(), [...written.keys()].sort());
  for (const [name, text] of written) assert.equal(readFileSync(new URL(name, folder), "utf8"), text, name);
});

test("S1: every key of the published schemas is explained", () => {
  const silent: string[] = [];
  const walk = (node: unknown, path: string): void => {
    if (typeof node !== "object" || node === null) return;
    const { properties } = node as { properties?: Record<string, { description?: string }> };
    for (const [key, value] of Object.entries(properties ?? {})) {
      if (!value.description) silent.push(`${path}.${key}`);
    }
    for (const [key, value] of Object.entries(node)) walk(value, `${path}.${key}`);
  };
  for (const name of ["plan.schema.json", "task.schema.json"])
    walk(JSON.parse(publishedSchemas().get(name) ?? "null"), name);
  assert.deepEqual(silent, []);
});
