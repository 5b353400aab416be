// Reading plans from disk: folders, includes, links, bounds (S1).

import assert from "node:assert/strict";
import { mkdirSync, readFileSync, symlinkSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { test } from "node:test";
import { fileURLToPath } from "node:url";
import { loadPlan } from "../../bus/ctl/plan-files.ts";
import { isCode } from "../../schemas/errors.ts";
import { parsePlan } from "../../schemas/plan/parse.ts";
import { checkFiles, diskIo } from "../helpers/plans.ts";
import { tempDir } from "../helpers/temp.ts";

const SESSION = fileURLToPath(new URL("../fixtures/plans/session", import.meta.url));

function files(dir: string, tree: Record<string, string>): void {
  for (const [name, text] of Object.entries(tree)) {
    mkdirSync(dirname(join(dir, name)), { recursive: true });
    writeFileSync(join(dir, name), text);
  }
}
const names = (dir: string, path: string): string[] => loadPlan(path, diskIo, dir).files.map((f) => f.name);

test("S1: a plan with its included task files, by file or by folder", () => {
  const expected = ["plan.yaml", "tasks/cache_headers.json", "tasks/cancel_order.md"];
  assert.deepEqual(names(SESSION, "plan.yaml"), expected);
  assert.deepEqual(names(SESSION, "."), expected);
  const { folder, name, problems, files } = loadPlan(SESSION, diskIo, SESSION);
  assert.deepEqual([folder, name, problems], [SESSION, "session", []]);
  assert.deepEqual(
    files.map((f) => f.kind),
    ["yaml", "json", "md"],
  );
});

test("S1: a folder of tasks without a plan loads as it is", () => {
  assert.deepEqual(names(SESSION, "tasks"), ["tasks/cache_headers.json", "tasks/cancel_order.md"]);
});

test("S1: a plan without tasks and include takes the task files beside it when its folder is named, else says how to name them", (t) => {
  const dir = tempDir(t, "beside");
  const page = "---\ncommand: 'true'\n---\n# A\n\n## Goal\nx\n\n## Allowed files\n- a.txt\n";
  files(dir, {
    "p/plan.yaml": "gate: none\n",
    "p/b.md": page,
    "p/a.yaml": "command: 'true'\nallowed_files: [b.txt]\n",
    "p/below/c.md": page,
    "full/plan.yaml": 'tasks: [{id: own, command: "true", allowed_files: [x]}]\n',
    "full/b.md": page,
    "empty/plan.yaml": "include: []\n",
    "empty/b.md": page,
  });
  assert.deepEqual(names(dir, "p"), ["p/plan.yaml", "p/a.yaml", "p/b.md"]);
  const { spec } = parsePlan(loadPlan("p", diskIo, dir).files);
  assert.deepEqual([spec?.gate, spec?.tasks.map((task) => task.spec.id)], ["none", ["a", "b"]]);
  assert.deepEqual(names(dir, "full"), ["full/plan.yaml"]);
  assert.deepEqual(names(dir, "empty"), ["empty/plan.yaml"]);
  assert.deepEqual(names(dir, "p/plan.yaml"), ["p/plan.yaml"]);
  const [fault] = parsePlan(loadPlan("p/plan.yaml", diskIo, dir).files).problems;
  assert.deepEqual(
    [fault?.code, fault?.hint],
    ["no_tasks", "write them under `tasks:`, or name their files: `include: tasks/*.md`"],
  );
});

test("S1: include patterns: each file once, by pattern and name, also above the plan; one that names nothing is said", (t) => {
  const dir = tempDir(t, "plan");
  files(dir, {
    "p/plan.yaml":
      "include: ['t/*.json', 't/**', '../shared/x.yaml', 'none/*.md', '/abs/*', 't/a.json', '../p/*.yaml']\n",
    "p/t/b.json": "{}",
    "p/t/a.json": "{}",
    "p/t/deep/c.md": "x",
    "p/t/notes.txt": "no",
    "p/t/node_modules/x.json": "no",
    "shared/x.yaml": "{}",
  });
  const loaded = loadPlan("p/plan.yaml", diskIo, dir);
  assert.deepEqual(
    loaded.files.map((f) => f.name),
    ["p/plan.yaml", "p/t/a.json", "p/t/b.json", "p/t/deep/c.md", "shared/x.yaml"],
  );
  assert.deepEqual(
    loaded.problems.map((p) => p.message),
    [
      'the include "none/*.md" names no task file',
      `the include "/abs/*" is absolute; name files from the plan's folder`,
    ],
  );
});

test("S1: a plan that includes itself by name, and includes that go on or round, are refused with the chain and the place", (t) => {
  const dir = tempDir(t, "chain");
  const task = (id: string) => `id: ${id}\ngoal: x\ncommand: "true"\nacceptance: ["true"]\n`;
  files(dir, {
    "p/plan.yaml": "include: [t/on.yaml, t/round.yaml,\n  ./plan.yaml]\n",
    "p/t/on.yaml": `${task("on")}include: [further.yaml]\n`,
    "p/t/round.yaml": `include: ../plan.yaml\ntasks: []\n`,
  });
  const { files: loaded, problems } = loadPlan("p/plan.yaml", diskIo, dir);
  const all = [...problems, ...parsePlan(loaded).problems].filter((p) => p.code === "include");
  assert.deepEqual(
    all.map((p) => [p.file, p.line, p.column, p.message]),
    [
      ["p/plan.yaml", 2, 3, "the plan includes itself: p/plan.yaml -> ./plan.yaml"],
      [
        "p/t/on.yaml",
        5,
        1,
        "an included file cannot include further files: p/plan.yaml -> p/t/on.yaml -> further.yaml",
      ],
      [
        "p/t/round.yaml",
        1,
        1,
        "the includes go round in a circle: p/plan.yaml -> p/t/round.yaml -> p/plan.yaml",
      ],
    ],
  );
  assert.match(all[1]?.hint ?? "", /name the files in p\/plan\.yaml/);
});

test("S1: links to folders are not followed, so loops end", (t) => {
  const dir = tempDir(t, "loop");
  files(dir, { "plan.yaml": "include: '**/*.json'\n", "t/a.json": "{}" });
  symlinkSync(dir, join(dir, "t", "again"));
  symlinkSync(join(dir, "t", "a.json"), join(dir, "t", "link.json"));
  assert.deepEqual(names(dir, "plan.yaml"), ["plan.yaml", "t/a.json", "t/link.json"]);
});

test("S1: what cannot be a plan is a typed error that names it", (t) => {
  const dir = tempDir(t, "bad");
  files(dir, { "notes.txt": "x", "empty/readme.txt": "x" });
  const rows: [string, "USAGE" | "BAD_PLAN", RegExp][] = [
    ["missing.yaml", "USAGE", /missing.yaml: no such file or folder/],
    ["notes.txt", "BAD_PLAN", /notes.txt: its name must end in/],
    ["empty", "BAD_PLAN", /empty: it holds no plan and no task files/],
  ];
  for (const [path, code, message] of rows)
    assert.throws(
      () => loadPlan(path, diskIo, dir),
      (error: unknown) => isCode(error, code) && message.test(error.message),
      path,
    );
});

test("S1: an unreadable file names itself and what was being done", (t) => {
  const dir = tempDir(t, "io");
  files(dir, { "plan.yaml": "tasks: []" });
  const broken = {
    ...diskIo,
    read: () => {
      throw Object.assign(new Error("no"), { code: "EACCES" });
    },
  };
  assert.throws(() => loadPlan("plan.yaml", broken, dir), /^BusbarError: reading .*plan.yaml: EACCES$/);
});

test("issue 2.1: the plan and the task that README shows are sound", () => {
  const page = readFileSync(new URL("../../README.md", import.meta.url), "utf8");
  const fenced = (kind: string, has: string): string =>
    [...page.matchAll(/^```(\w+)\n([\s\S]*?)^```$/gm)].find(
      (m) => m[1] === kind && m[2]?.includes(has),
    )?.[2] ?? "";
  const plan = fenced("yaml", "tasks:");
  const task = fenced("markdown", "## Goal");
  const { errors, warnings, spec } = checkFiles(
    [
      { name: "plan.yaml", text: plan, kind: "yaml" },
      { name: "tasks/cancel_order.md", text: task, kind: "md" },
    ],
    { gate: "written", profiles: ["mine"] },
  );
  assert.deepEqual([errors, warnings], [[], []]);
  assert.equal(spec?.tasks.length, 3);
});
