// W8: when a set-up may be taken for done.

import assert from "node:assert/strict";
import { test } from "node:test";
import { leftOutside, type SetupInput, setupKey, treeFiles } from "../../scheduler/setup-key.ts";
import { NO_ENV } from "../../schemas/task.ts";

const OID = "a".repeat(40);
const input: SetupInput = {
  steps: [{ run: "npm ci", key: ["package-lock.json"] }],
  files: [
    { path: "package-lock.json", mode: "100644", oid: OID },
    { path: "src/a.ts", mode: "100644", oid: OID },
  ],
  specs: [NO_ENV],
  host: { PATH: "/usr/bin", MODE: "x" },
  machine: ["v20"],
};

test("W8: the same input has the same key; whatever decides changes it", () => {
  const key = setupKey(input);
  assert.match(key ?? "", /^[0-9a-f]{32}$/);
  assert.equal(setupKey({ ...input, files: [...input.files, { path: "b", mode: "100644", oid: OID }] }), key);
  const other: Partial<SetupInput>[] = [
    { steps: [{ run: "npm ci --x", key: ["package-lock.json"] }] },
    { steps: [...input.steps, { run: "make", key: ["src/"] }] },
    { files: [{ path: "package-lock.json", mode: "100644", oid: "b".repeat(40) }] },
    { files: [{ path: "package-lock.json", mode: "100755", oid: OID }] },
    { specs: [{ ...NO_ENV, set: { NODE_ENV: "production" } }] },
    { specs: [{ ...NO_ENV, pass: ["MODE"] }] },
    { host: { PATH: "/opt/bin:/usr/bin" } },
    { machine: ["v22"] },
  ];
  const keys = other.map((more) => setupKey({ ...input, ...more }));
  assert.equal(new Set([key, ...keys]).size, other.length + 1);
  const passes = { ...input, specs: [{ ...NO_ENV, pass: ["MODE"] }] };
  assert.notEqual(setupKey(passes), setupKey({ ...passes, host: { ...input.host, MODE: "y" } }));
});

test("W8: a step without key files, or whose list finds none, runs every time", () => {
  assert.equal(setupKey({ ...input, steps: [] }), undefined);
  assert.equal(setupKey({ ...input, steps: [...input.steps, { run: "make", key: [] }] }), undefined);
  assert.equal(setupKey({ ...input, steps: [{ run: "x", key: ["yarn.lock"] }] }), undefined);
});

test("W8: names of any kind in a tree; what may lie in a home", () => {
  assert.deepEqual(treeFiles(`100644 blob ${OID}\ta b\n\tc\x00120000 blob ${OID}\tl\x00`), [
    { mode: "100644", oid: OID, path: "a b\n\tc" },
    { mode: "120000", oid: OID, path: "l" },
  ]);
  const left = leftOutside({ home: [".gitconfig", ".cargo"], cache: ["npm", "ms-playwright"], data: ["x"] });
  assert.deepEqual(left, ["home/.cargo", "cache/ms-playwright", "data/x"]);
});
