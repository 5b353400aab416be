// Issue 5.5: the same key, the same verdict. What decides a check is in its key, and what does not is not.

import assert from "node:assert/strict";
import { test } from "node:test";
import { isSample, standing, toRun, type VerdictInput, verdictKey } from "../../scheduler/verdict-key.ts";
import { gateFileKind } from "../../schemas/gate-files.ts";
import { VERDICT_SAMPLE } from "../../schemas/limits.ts";

const file = (path: string, digit = "a", mode = "100644") => ({ path, mode, oid: digit.repeat(40) });
const FILES = [file("docs/a.md"), file("lock"), file("package.json"), file("src/a.ts")];
const input: VerdictInput = {
  inputs: ["src/**"],
  setup: [{ run: "npm ci", key: ["lock"] }],
  whole: "t".repeat(40),
  files: () => FILES,
  job: { argv: ["sh", "-c", "npm test"], env: { PATH: "/bin" }, limits: {} },
  sandbox: ["auto"],
  machine: ["v20", "git 2"],
};
const keyOf = (more: Partial<VerdictInput>) => verdictKey({ ...input, ...more });
const withFile = (changed: ReturnType<typeof file>) => ({
  files: () => FILES.map((one) => (one.path === changed.path ? changed : one)),
  whole: "u".repeat(40),
});

test("issue 5.5: whatever decides a check changes its key", () => {
  const others: Partial<VerdictInput>[] = [
    { inputs: undefined },
    { inputs: ["src/**", "docs/**"] },
    withFile(file("src/a.ts", "b")),
    withFile(file("src/a.ts", "a", "100755")),
    { files: () => [...FILES, file("src/b.ts")] },
    // Key files of the set-up, and what decides how any check runs, count whatever is declared.
    withFile(file("lock", "b")),
    withFile(file("package.json", "b")),
    { files: () => [...FILES, file("src/.gitattributes")] },
    { setup: [{ run: "npm i", key: ["lock"] }] },
    { setup: [{ run: "npm ci", key: [] }] },
    { job: { argv: ["sh", "-c", "true"], env: { PATH: "/bin" }, limits: {} } },
    { job: { argv: ["sh", "-c", "npm test"], env: { PATH: "/opt" }, limits: {} } },
    { job: { argv: ["sh", "-c", "npm test"], env: { PATH: "/bin" }, limits: { memory: 1 } } },
    { sandbox: ["off"] },
    { machine: ["v22", "git 2"] },
  ];
  const keys = [input, ...others.map((more) => ({ ...input, ...more }))].map(verdictKey);
  assert.ok(keys.every((key) => /^[0-9a-f]{64}$/.test(key ?? "")));
  assert.equal(new Set(keys).size, keys.length);
});

test("issue 5.5: a file that no declared input names changes no key; without a declaration every file counts", () => {
  const docs = withFile(file("docs/a.md", "b"));
  assert.equal(keyOf(docs), keyOf({}));
  assert.notEqual(keyOf({ ...docs, inputs: undefined }), keyOf({ inputs: undefined }));
  assert.notEqual(
    keyOf({ ...docs, setup: [{ run: "make", key: [] }] }),
    keyOf({ setup: [{ run: "make", key: [] }] }),
  );
  assert.equal(keyOf({ inputs: ["no/such"] }), undefined, "inputs that name no file decide nothing");
});

test("issue 5.5: protected files count as they stand for the check, from the base", () => {
  const own = [file("src/a.ts", "b"), file("test/a.ts", "b"), file("test/new.ts")];
  const base = [file("src/a.ts"), file("test/a.ts"), file("test/gone.ts")];
  const isTest = (path: string) => path.startsWith("test/");
  assert.deepEqual(standing(own, base, isTest), [
    file("src/a.ts", "b"),
    file("test/a.ts"),
    file("test/gone.ts"),
  ]);
});

test("issue 5.5: what runs finds what the checks before it leave, but for one that declares its inputs", () => {
  const plan = (...checks: string[]) =>
    toRun(checks.map((one) => ({ inputs: one.includes("i"), known: one.includes("k") })))
      .map((runs) => (runs ? "x" : "-"))
      .join("");
  assert.equal(plan("k", "k", "k"), "---");
  assert.equal(plan("k", "", "k"), "xx-");
  assert.equal(plan("k", "i", "k"), "-x-");
  assert.equal(plan("ki", "", "ki", "i"), "xx-x");
});

test("issue 5.5: about one use in so many is a run of the check; which is decided by key and count", () => {
  const key = keyOf({}) ?? "";
  const uses = Array.from({ length: 4_000 }, (_, n) => isSample(key, n));
  const share = uses.filter((one) => one).length / uses.length;
  assert.ok(share > 0.5 / VERDICT_SAMPLE && share < 2 / VERDICT_SAMPLE, String(share));
  assert.deepEqual(
    uses,
    uses.map((_, n) => isSample(key, n)),
  );
});

test("case 44 gate-tampering: files that decide what a check does are known by their names, wherever they lie", () => {
  const kinds = {
    ci: [".github/workflows/ci.yml", ".gitlab-ci.yml", "Jenkinsfile", "Dockerfile"],
    lock: ["package-lock.json", "app/pnpm-lock.yaml", "Cargo.lock", "go.sum", "uv.lock"],
    build: [
      ".npmrc",
      "package.json",
      "a/tsconfig.build.json",
      "Makefile",
      "vitest.config.ts",
      "conftest.py",
      "jest.config.js",
      "Cargo.toml",
      "pyproject.toml",
      ".mocharc.yml",
      ".env",
    ],
    lint: ["biome.json", ".eslintrc.cjs", "eslint.config.mjs", ".husky/pre-commit"],
    git: [".gitattributes", "a/.gitignore"],
    busbar: [".busbar/plan.yaml", "plan.yaml"],
  };
  for (const [kind, paths] of Object.entries(kinds))
    for (const path of paths) assert.equal(gateFileKind(path), kind, path);
  for (const path of [
    "src/build.ts",
    "src/package.json.ts",
    "docs/ci.md",
    "src/jest.ts/x",
    "lib/lock.ts",
    "src/testing.ts",
  ])
    assert.equal(gateFileKind(path), undefined, path);
});
