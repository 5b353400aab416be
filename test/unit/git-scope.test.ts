// The scope decision, names and twins (S4, cases 32, 42, 45).

import assert from "node:assert/strict";
import { test } from "node:test";
import { gitLikePart, linkFault } from "../../bus/git/names.ts";
import type { CapturedChange } from "../../scheduler/capture.ts";
import { findTwins } from "../../scheduler/case-twins.ts";
import { inScope, type ScopeInput, scopeFaults } from "../../scheduler/scope.ts";
import { compilePathSet } from "../../schemas/globs.ts";

const OID = "1".repeat(40);

function changed(path: string, extra: Partial<CapturedChange> = {}): CapturedChange {
  const same = { oldMode: null, oldOid: null, mode: "100644", oid: OID, size: 1, kind: "added" as const };
  return { path, ...same, ...extra };
}

function input(extra: Partial<ScopeInput>): ScopeInput {
  const none = { changed: [], outside: [], refused: [], twins: [], submodules: [] };
  return { ...none, allowed: compilePathSet(["src/**"]), forbidden: compilePathSet([]), ...extra };
}

const brief = (i: Partial<ScopeInput>) => scopeFaults(input(i)).map((f) => `${f.path}: ${f.rule}`);

test("case 42 glob-table: a fault names file and rule; forbidden beats allowed", () => {
  assert.deepEqual(brief({ changed: [changed("src/a.ts"), changed("src/.env")] }), []);
  assert.deepEqual(brief({ outside: [{ path: ".github/workflows/ci.yml", kind: "modified" }] }), [
    ".github/workflows/ci.yml: allowed_files",
  ]);
  const sets = { allowed: compilePathSet(["**"]), forbidden: compilePathSet(["**/.env*"]) };
  assert.deepEqual(brief({ ...sets, outside: [{ path: "src/.env", kind: "modified" }] }), [
    "src/.env: forbidden_files: **/.env*",
  ]);
  const [fault] = scopeFaults(input({ ...sets, outside: [{ path: "src/.env", kind: "deleted" }] }));
  assert.match(fault!.why, /^src\/\.env was deleted, forbidden by "\*\*\/\.env\*"$/);
  assert.equal(inScope(sets)("src/.env"), false);
  assert.equal(inScope(sets)("src/env"), true);
});

test("issue 2.6: what the plan protects is said to be protected, not forbidden, whatever is allowed", () => {
  const sets = { allowed: compilePathSet(["test/**"]), protect: compilePathSet(["test/a.mjs"]) };
  const outside = [{ path: "test/a.mjs", kind: "modified" as const }];
  const [fault] = scopeFaults(input({ ...sets, outside }));
  assert.equal(fault?.rule, "protect: test/a.mjs");
  assert.match(
    fault?.why ?? "",
    /was changed, protected by the plan \("test\/a\.mjs"\): nobody may change it$/,
  );
});

test("contracts are read-only to a task that does not declare to change them", () => {
  const contracts = compilePathSet(["src/api.ts"]);
  assert.deepEqual(brief({ contracts, changed: [changed("src/api.ts")] }), [
    "src/api.ts: contracts: src/api.ts",
  ]);
  assert.deepEqual(brief({ contracts: null, changed: [changed("src/api.ts")] }), []);
});

test("case 45: links out of the repository are faults whatever the scope", () => {
  const link = (path: string, target: string) => changed(path, { mode: "120000", target });
  assert.deepEqual(
    brief({
      changed: [
        link("src/in", "a.ts"),
        link("src/up", "../README"),
        link("src/out", "../../x"),
        link("src/abs", "/tmp/x"),
      ],
    }),
    ["src/abs: link", "src/out: link"],
  );
  assert.equal(linkFault("a/b", "../c"), undefined);
  assert.equal(linkFault("a/b/c", ".././../d/e"), undefined);
  assert.match(linkFault("a/b", "../../d") ?? "", /leaves/);
  // `k/l/m/top` may be a link: what lies above it is not k/l/m.
  assert.match(linkFault("esc", "k/l/m/top/../../README.md") ?? "", /"\.\." may stand only at its beginning/);
  assert.match(linkFault("a/b", "../c/../d") ?? "", /behind a name/);
  assert.match(linkFault("l", ".git/config") ?? "", /\.git/);
  assert.match(linkFault("l", "") ?? "", /nowhere/);
});

test("what no change may hold is a fault: refused files, .gitmodules, submodules, names that differ in case", () => {
  const all = compilePathSet(["**"]);
  assert.deepEqual(brief({ allowed: all, changed: [changed(".gitmodules")] }), [".gitmodules: gitmodules"]);
  const named = compilePathSet([".gitmodules"]);
  assert.deepEqual(brief({ allowed: named, changed: [changed(".gitmodules")] }), []);
  assert.deepEqual(
    brief({
      allowed: all,
      refused: [{ path: "core", rule: "oversize", why: "has 30 bytes" }],
      twins: [{ path: "Readme", twin: "README" }],
      submodules: ["vendor/lib/x"],
    }),
    ["Readme: case", "core: oversize", "vendor/lib/x: submodule"],
  );
});

test("names that another file system takes for .git", () => {
  for (const path of [
    ".GIT/hooks/x",
    "a/.git",
    "git~1/x",
    ".git./x",
    ".git /x",
    ".g\u200cit/x",
    "a\\.git\\x",
    ".git::$INDEX_ALLOCATION/x",
  ])
    assert.notEqual(gitLikePart(path), undefined, path);
  for (const path of [
    ".github/x",
    ".gitignore",
    ".gitattributes",
    "a.git/x",
    "git/x",
    "back\\slash",
    ".gitmodules",
  ])
    assert.equal(gitLikePart(path), undefined, path);
});

test("paths that differ only in case are found at every level", () => {
  assert.deepEqual(findTwins(["Src/new.ts"], ["src", "Src", "Src/new.ts"]), [
    { path: "Src/new.ts", twin: "src" },
  ]);
  assert.deepEqual(findTwins(["a/Readme"], ["a", "a/README", "a/Readme"]), [
    { path: "a/Readme", twin: "a/README" },
  ]);
  assert.deepEqual(findTwins(["a/b"], ["a", "a/b", "a/c"]), []);
});
