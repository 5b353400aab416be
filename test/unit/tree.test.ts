// scripts/check-tree.ts: each rule is shown a small tree that breaks it, and one that does not.

import assert from "node:assert/strict";
import { mkdirSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { type TestContext, test } from "node:test";
import { checkTree, type Fault, measure } from "../../scripts/tree/check.ts";
import { readTree } from "../../scripts/tree/source.ts";
import { tempDir } from "../helpers/temp.ts";

/** Faults of a tree made of these files, as `file:line rule`. */
function faultsOf(t: TestContext, files: Record<string, string>): Fault[] {
  const root = tempDir(t, "tree");
  for (const [path, text] of Object.entries(files)) {
    mkdirSync(dirname(join(root, path)), { recursive: true });
    writeFileSync(join(root, path), text);
  }
  return checkTree(readTree(root));
}
const places = (faults: Fault[]) => faults.map(({ file, line, rule }) => `${file}:${line} ${rule}`);

test("a clean tree has no fault", (t) => {
  const faults = faultsOf(t, {
    "schemas/ids.ts": 'import { z } from "zod";\nexport const Id = z.string();\n',
    "bus/client/client.ts": 'import { Id } from "../../schemas/ids.ts";\nexport const x = Id;\n',
    "shim/bus-shim.ts": 'import { x } from "../bus/client/client.ts";\nexport const y = x;\n',
    "test/unit/a.test.ts": 'import { y } from "../../shim/bus-shim.ts";\nexport const z = y;\n',
    "README.md": "See `bus/client/client.ts` and `bus/`.\n",
  });
  assert.deepEqual(faults, []);
});

test("arrow: a folder imports what it must not", (t) => {
  const faults = faultsOf(t, {
    "bus/state/store.ts": "export const store = 1;\n",
    "scheduler/main.ts": "export const main = 1;\n",
    "schemas/a.ts": '\nexport * from "../bus/state/store.ts";\n',
    "shim/b.ts": 'import type { main } from "../scheduler/main.ts";\nexport type M = typeof main;\n',
    "bus/ctl/c.ts": 'export const c = await import("../state/store.ts");\n',
    "bus/busd.ts": 'export type C = import("./ctl/c.ts").C;\n',
    "scheduler/d.ts": 'import { t } from "../test/helpers/t.ts";\nexport const d = t;\n',
    "test/helpers/t.ts": "export const t = 1;\n",
  });
  assert.deepEqual(places(faults), [
    "bus/busd.ts:1 arrow",
    "bus/ctl/c.ts:1 arrow",
    "scheduler/d.ts:1 arrow",
    "schemas/a.ts:2 arrow",
    "shim/b.ts:1 arrow",
  ]);
});

test("cycle: two files import each other by way of a third", (t) => {
  const faults = faultsOf(t, {
    "bus/a.ts": 'import "./b.ts";\n',
    "bus/b.ts": 'import "./c.ts";\nexport const later = () => import("./a.ts");\n',
    "bus/c.ts": '\nimport type { A } from "./a.ts";\nexport type B = A;\n',
  });
  assert.deepEqual(places(faults), ["bus/c.ts:2 cycle"]);
  assert.match(faults[0]?.message ?? "", /bus\/a\.ts -> bus\/b\.ts -> bus\/c\.ts -> bus\/a\.ts/);
});

test("package: outside its home, or in no table; a test may look with it", (t) => {
  const faults = faultsOf(t, {
    "scheduler/a.ts": 'import { z } from "zod";\nexport const a = z;\n',
    "bus/ctl/b.ts": 'import yargs from "yargs/yargs";\nexport const b = yargs;\n',
    "bus/c.ts": 'import leftpad from "@pad/left";\nexport const c = leftpad;\n',
    "test/unit/d.test.ts": 'import { z } from "zod";\nexport const d = z;\n',
  });
  assert.deepEqual(places(faults), ["bus/c.ts:1 package", "scheduler/a.ts:1 package"]);
  assert.match(faults[0]?.message ?? "", /@pad\/left is not in the table/);
});

const longFunction = (name: string, lines: number) =>
  `export function ${name}() {\n${"  void 0;\n".repeat(lines - 2)}}\n`;

test("size: a file and a function that are too long; exactly as long as allowed is not", (t) => {
  const faults = faultsOf(t, {
    "bus/long.ts": "// x\n".repeat(401),
    "bus/fits.ts": "// x\n".repeat(400),
    "test/unit/f.test.ts": `// x\n${longFunction("f", 81)}`,
    "test/unit/g.test.ts": longFunction("g", 80),
  });
  assert.deepEqual(places(faults), ["bus/long.ts:401 size", "test/unit/f.test.ts:2 size"]);
});

test("size: more than one function in ten is long", (t) => {
  const many = Array.from({ length: 8 }, (_, i) => `export const s${i} = () => 1;\n`).join("");
  const faults = faultsOf(t, { "bus/a.ts": longFunction("f", 60) + longFunction("g", 60) + many });
  assert.deepEqual(places(faults), [".:1 size"]);
});

test("size: the body of describe is a chapter, its tests are measured", (t) => {
  const body = `  test("a", () => {\n${"    void 0;\n".repeat(50)}  });\n`.repeat(2);
  const faults = faultsOf(t, { "test/unit/a.test.ts": `describe("d", () => {\n${body}});\n` });
  assert.deepEqual(faults, []);
});

test("tests: a test file stands one folder deep in a known kind", (t) => {
  const faults = faultsOf(t, {
    "test/unit/deep/a.test.ts": "",
    "test/b.test.ts": "",
    "test/odd/c.test.ts": "",
    "bus/d.test.ts": "",
    "test/unit/e.spec.ts": "",
    "test/fault/f.test.ts": "",
  });
  assert.deepEqual(
    faults.map(({ file, rule }) => `${file} ${rule}`),
    [
      "bus/d.test.ts",
      "test/b.test.ts",
      "test/odd/c.test.ts",
      "test/unit/deep/a.test.ts",
      "test/unit/e.spec.ts",
    ].map((file) => `${file} tests`),
  );
});

test("word: unfinished work, a test that shuts out others, an assertion that cannot fail", (t) => {
  const faults = faultsOf(t, {
    "bus/a.ts": `// ${"TO"}DO later\n`,
    "README.md": `\n${"FIX"}ME\n`,
    "test/unit/b.test.ts": `test.${"only"}("x", () => {});\nassert.ok(${"true"});\nassert(${"true"});\n`,
    "bus/c.ts": "export const TODOS = [];\n",
  });
  assert.deepEqual(places(faults), [
    "bus/a.ts:1 word",
    "test/unit/b.test.ts:1 word",
    "test/unit/b.test.ts:2 word",
    "test/unit/b.test.ts:3 word",
    "README.md:2 word",
  ]);
});

test("document: names a file or an npm script that is not there", (t) => {
  const faults = faultsOf(t, {
    "package.json": '{ "scripts": { "demo": "x" } }',
    "bus/a.ts": "",
    "README.md":
      "`bus/a.ts` [a](bus/a.ts) [web](https://example.org/x) `npm run demo`\n`bus/gone.ts`\n[b](bus/b.ts)\n`npm run nope`\n",
    "NOTES.md": "`bus/gone.ts`\n",
  });
  assert.deepEqual(places(faults), ["README.md:2 document", "README.md:3 document", "README.md:4 document"]);
});

test("measures count the product alone", (t) => {
  const root = tempDir(t, "tree");
  mkdirSync(join(root, "bus"));
  mkdirSync(join(root, "scripts"));
  writeFileSync(join(root, "bus", "a.ts"), "export const f = () => {\n  return 1;\n};\n");
  writeFileSync(join(root, "scripts", "b.ts"), longFunction("g", 70));
  assert.deepEqual(measure(readTree(root)), {
    files: 1,
    fileMedian: 3,
    fileP90: 3,
    functions: 1,
    functionMedian: 3,
    functionP90: 3,
  });
});
