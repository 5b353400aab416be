// Tasks as Markdown pages (S1).

import assert from "node:assert/strict";
import { test } from "node:test";
import { checkFiles, fixture } from "../helpers/plans.ts";

const page = (text: string, name = "tasks/my task.md") => checkFiles([{ name, text, kind: "md" }]);
const spec = (text: string) => page(text).spec?.tasks[0]?.spec;

const HEAD = "---\nagent: codex\n---\n# Title\n\n";
const GOAL = "## Goal\nDo it.\n";
const FILES = "## Allowed files\n- a.ts\n";

test("S1: the example page: front matter, title, sections", () => {
  const text = fixture("session/tasks/cancel_order.md").replace(
    "depends_on: [session_service]",
    "agent: codex",
  );
  const { errors, spec } = page(text);
  assert.deepEqual(errors, []);
  const task = spec?.tasks[0]?.spec;
  assert.equal(task?.id, "cancel_order");
  assert.match(task?.goal ?? "", /^An order can be cancelled until it is shipped\n\nA person can cancel/);
  assert.match(task?.interface ?? "", /^- `POST \/orders\/\{id\}\/cancel`/);
  assert.deepEqual(task?.acceptance[0], { run: "npx eslint src/orders" });
});

test("S1: the id comes from the file's name when the front matter gives none", () => {
  assert.equal(spec(HEAD + GOAL + FILES)?.id, "my-task");
});

test("S1: headings in any case and spelling of spaces; items of all kinds, continued, in backticks", () => {
  const task = spec(
    `${HEAD}## GOAL:\nDo it.\n### Detail\n\n\`\`\`md\n## Not a section\n\`\`\`\n## allowed_files\n* \`a.ts\`\n+ b/\n1. c.ts\n2) d.ts\n## Prohibited Actions\n- change the\n  base image\n## acceptance ##\n- reads well\n- it works: \`\`npm \`x\` test\`\`\n`,
  );
  assert.equal(task?.goal, "Title\n\nDo it.\n### Detail\n\n```md\n## Not a section\n```");
  assert.deepEqual(task?.allowed_files, ["a.ts", "b/", "c.ts", "d.ts"]);
  assert.deepEqual(task?.prohibited_actions, ["change the base image"]);
  assert.deepEqual(task?.acceptance, [{ text: "reads well" }, { text: "it works", run: "npm `x` test" }]);
});

test("S1: Windows line ends and a byte order mark change nothing", () => {
  const text = HEAD + GOAL + FILES;
  assert.deepEqual(spec(`\uFEFF${text.replaceAll("\n", "\r\n")}`), spec(text));
});

test("S1: faults of a page have their line", () => {
  const rows: [string, RegExp][] = [
    [
      `${HEAD}${GOAL}## Alowed files\n- a\n`,
      /unknown_key .*:8:1 unknown section "Alowed files" \(did you mean "allowed files"\?\)/,
    ],
    [`${HEAD}${GOAL}${FILES}## Goal\nAgain\n`, /duplicate_key .*:10:1 goal is given twice; first at line 6/],
    [
      `---\nagent: codex\ngoal: x\n---\n${GOAL}${FILES}`,
      /duplicate_key .*:5:1 goal is given twice; first at line 3/,
    ],
    [
      `---\nagent: codex\nprioritty: 3\n---\n${GOAL}${FILES}`,
      /unknown_key .*:3:1 unknown key "prioritty" \(did you mean "priority"\?\)/,
    ],
    [`---\nagent: [\n---\n${GOAL}${FILES}`, /parse .*:[23]:\d+ not valid YAML/],
    [`---\n- a\n---\n${GOAL}${FILES}`, /wrong_type .*:2:1 the front matter must be a mapping/],
    [
      `${HEAD}${GOAL}## Allowed files\nsrc/a.ts\n`,
      /parse .*:9:1 "Allowed files" is a list; this is no item of it/,
    ],
    [`${HEAD}loose words\n${GOAL}${FILES}`, /parse .*:6:1 text stands outside of every section/],
    [
      `${HEAD}${GOAL}${FILES}## Acceptance\n- \`a\` and \`b\`\n`,
      /bad_value .*:11:3 holds more than one command/,
    ],
    [`${HEAD}${GOAL}`, /missing .* allowed_files is missing/],
    [`${HEAD}${GOAL}## Allowed files\n`, /bad_value .*:8:1 allowed_files is an empty list/],
    ["", /no_tasks .* the file is empty/],
    ["---\nid: a\n", /parse .*:1:1 text stands outside/],
  ];
  for (const [text, expected] of rows) assert.match(page(text).errors.join("\n"), expected, text);
});
