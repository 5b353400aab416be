// The reading of file patterns, row by row (G1, case 42 glob-table, case 10 monorepo-subdir).

import assert from "node:assert/strict";
import { test } from "node:test";
import { isCode } from "../../schemas/errors.ts";
import {
  compilePathSet,
  fixedPrefix,
  globFault,
  isTreeWide,
  literalPath,
  mayOverlap,
  overlap,
} from "../../schemas/globs.ts";
import { MAX_PATTERN_CHARS } from "../../schemas/limits.ts";
import { GLOB_TABLE } from "../helpers/case-tables.ts";

const FILES = [
  "app/[slug]/(group)/page.tsx",
  "app/s/page.tsx",
  "src/a.ts",
  "src/a.test.ts",
  "src/.env",
  "src/.hidden/x.ts",
  "docs/README.md",
  ".github/workflows/ci.yml",
  "we{ird}/x.ts",
  "back\\slash/x.ts",
  "plus+sign!/x.ts",
  "package.json",
  "Makefile",
];
const exists = (path: string): boolean => FILES.some((f) => f === path || f.startsWith(`${path}/`));

function outcome(allowed: string[], forbidden: string[], file: string): string {
  try {
    const yes = compilePathSet(allowed, exists);
    const no = compilePathSet(forbidden, exists);
    if (no.matches(file)) return "forbidden";
    return yes.matches(file) ? "ok" : "out";
  } catch (error) {
    if (isCode(error, "BAD_PLAN")) return "error";
    throw error;
  }
}

for (const [allowed, forbidden, file, expected] of GLOB_TABLE) {
  const name = `${allowed.join(" ")} | ${forbidden.join(" ") || "-"} | ${file} -> ${expected}`;
  test(`case 42 glob-table: ${name}`, () => assert.equal(outcome(allowed, forbidden, file), expected));
}

test("case 42 glob-table: a set of no patterns covers nothing", () => {
  const none = compilePathSet([]);
  for (const file of FILES) assert.equal(none.matches(file), false);
});

test("case 42 glob-table: every file of the repository matches itself", () => {
  for (const file of FILES) assert.equal(compilePathSet([file], exists).rule(file), file);
});

test("G1: more readings than the table has", () => {
  const rows: [string, string, boolean][] = [
    ["src", "src", true],
    ["src", "srcx", false],
    ["src/", "src", false],
    ["src/**", "src", false],
    ["src/*/", "src/lib/a/b", true],
    ["src/*/", "src/a.ts", false],
    ["**/node_modules", "a/node_modules/b/c.js", true],
    ["**/node_modules", "node_modules", true],
    ["a/**/z.ts", "a/z.ts", true],
    ["a/**/z.ts", "a/b/c/z.ts", true],
    ["a/**/z.ts", "a/b/c/z.tsx", false],
    ["a/**/b/**/c", "a/b/x/b/c", true],
    ["src/{lib,test}", "src/test/deep/x.ts", true],
    ["{a,b}/{c,d}.ts", "b/c.ts", true],
    ["{a,{b,c}}/x", "c/x", true],
    ["{a}/x", "{a}/x", true],
    ["{a}/x", "a/x", false],
    ["{a,b}/x", "{a,b}/x", true],
    ["x{,.bak}", "x.bak", true],
    ["x{a,b", "x{a,b", true],
    ["a,b", "a,b", true],
    ["?.ts", "é.ts", true],
    ["?.ts", "😀.ts", true],
    ["?.ts", "ab.ts", false],
    ["a**b.ts", "axxb.ts", true],
    ["a**b.ts", "ax/xb.ts", false],
    ["*", ".env", true],
    ["*", "a/b", false],
    ["a//b/./c", "a/b/c", true],
    ["a|b", "a", false],
    ["@(a|b)", "@(a|b)", true],
    ["constructor", "__proto__", false],
    ["a$", "a$", true],
    ["^a.b", "^a.b", true],
  ];
  for (const [pattern, path, expected] of rows) {
    assert.equal(compilePathSet([pattern]).matches(path), expected, `${pattern} on ${path}`);
  }
});

test("G1: all bad patterns of a list are named at once", () => {
  assert.throws(
    () => compilePathSet(["ok", "", "../x", "!y", "/", "a/{..,b}", "x\0", "{a,b}".repeat(9)]),
    (error: unknown) => {
      assert.ok(isCode(error, "BAD_PLAN"));
      const faults = error.data.faults as { index: number }[];
      assert.deepEqual(
        faults.map((f) => f.index),
        [1, 2, 3, 4, 5, 6, 7],
      );
      return true;
    },
  );
  assert.match(globFault("x".repeat(MAX_PATTERN_CHARS + 1)) ?? "", /longer/);
  assert.match(globFault(7) ?? "", /string/);
});

test("case 42 glob-table: a backslash is a name only where that name is there", () => {
  assert.equal(globFault("back\\slash/**", exists), undefined);
  assert.equal(globFault("back\\slash", exists), undefined);
  assert.match(globFault("src/\\*.ts", exists) ?? "", /backslash/);
  assert.match(globFault("src\\*", exists) ?? "", /backslash/);
  assert.equal(globFault("src\\*"), undefined, "without a list of files nobody can tell");
});

test("S4: which pairs of patterns can meet", () => {
  const meet: [string, string, boolean][] = [
    ["src/**", "src/a.ts", true],
    ["src/*.ts", "src/a*", true],
    ["src/*.ts", "src/*.js", false],
    ["src", "src/deep/x", true],
    ["src", "srcx", false],
    ["**/*.ts", "docs/**", true],
    ["docs/*.md", "**/*.ts", false],
    ["a/**/z", "**/b/z", true],
    ["a/*/z", "a/b/c/z", false],
    ["{a,b}/x", "{b,c}/x", true],
    ["{a,b}/x", "{c,d}/x", false],
    ["src/a?.ts", "src/?b.ts", true],
    ["src/a?.ts", "src/b?.ts", false],
    ["src/", "src", true],
    ["package.json", "package.json", true],
    ["package.json", "package-lock.json", false],
    ["*", "a/b", false],
    ["a*c", "*b*", true],
    ["SRC/**", "src/**", false],
  ];
  for (const [a, b, expected] of meet) {
    assert.equal(mayOverlap([a], [b]), expected, `${a} with ${b}`);
    assert.equal(mayOverlap([b], [a]), expected, `${b} with ${a}`);
  }
  assert.deepEqual(overlap(["x", "src/**"], ["y", "src/a.ts"]), ["src/**", "src/a.ts"]);
  assert.equal(mayOverlap([], ["**"]), false);
});

test("S2: what is as wide as the tree, what is one path, what is fixed", () => {
  for (const wide of ["**", "**/*", "*/**", "./**", "**/*.*", "{**,a}"]) assert.ok(isTreeWide(wide), wide);
  for (const not of ["*", "src/**", "**/*.ts", "*/*", "**/.env*", "../**"]) assert.ok(!isTreeWide(not), not);
  assert.equal(literalPath("./src//a.ts"), "src/a.ts");
  assert.equal(literalPath("app/[slug]/page.tsx"), "app/[slug]/page.tsx");
  assert.equal(literalPath("src/"), undefined);
  assert.equal(literalPath("src/*"), undefined);
  assert.equal(fixedPrefix("src/lib/*.ts"), "src/lib");
  assert.equal(fixedPrefix("src/{a,b}/c"), "src");
});
