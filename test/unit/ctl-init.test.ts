// `busctl init`: the gate it proposes, and that what it writes is a sound plan.

import assert from "node:assert/strict";
import { test } from "node:test";
import { hasChecks, proposeGate } from "../../bus/ctl/init-gate.ts";
import { EXAMPLE_TASK, planText } from "../../bus/ctl/init-text.ts";
import { checkPlan } from "../../schemas/plan/check.ts";
import { parsePlan } from "../../schemas/plan/parse.ts";

function found(files: Record<string, string>) {
  const all = new Map(Object.entries(files));
  return { names: new Set(all.keys()), text: (name: string) => all.get(name) };
}

const NODE = found({
  "package.json": JSON.stringify({
    scripts: { test: "node --test", lint: "biome check", typecheck: "tsc", start: "x" },
  }),
  "package-lock.json": "{}",
  ".github": "",
});

test("init: package.json scripts become the gate, by tier", () => {
  const gate = proposeGate(NODE);
  assert.deepEqual(gate.setup, [{ run: "npm ci", key: ["package-lock.json"] }]);
  assert.deepEqual(gate.shallow, [{ name: "typecheck", run: "npm run typecheck" }]);
  assert.deepEqual(gate.middle, [{ name: "lint", run: "npm run lint" }]);
  assert.deepEqual(gate.deep, [{ name: "test", run: "npm test" }]);
  assert.deepEqual(gate.serial, ["package.json", "package-lock.json"]);
  assert.deepEqual(gate.protect, [".github/**"]);
});

test("init: npm's placeholder test, broken JSON and an empty repository give no checks", () => {
  const placeholder = { scripts: { test: 'echo "Error: no test specified" && exit 1' } };
  assert.equal(hasChecks(proposeGate(found({ "package.json": JSON.stringify(placeholder) }))), false);
  assert.equal(hasChecks(proposeGate(found({ "package.json": "{oops" }))), false);
  assert.equal(hasChecks(proposeGate(found({ "package.json": '{"scripts": ["test"]}' }))), false);
  assert.equal(hasChecks(proposeGate(found({}))), false);
});

test("init: Python, Rust, Go and make are known; make only where nothing else is", () => {
  const python = proposeGate(found({ "pyproject.toml": "[tool.ruff]\n[tool.pytest.ini_options]\n" }));
  assert.deepEqual([python.middle[0]?.run, python.deep[0]?.run], ["ruff check .", "python -m pytest -q"]);
  assert.equal(proposeGate(found({ "Cargo.toml": "" })).deep[0]?.run, "cargo test");
  assert.equal(proposeGate(found({ "go.mod": "" })).deep[0]?.run, "go test ./...");
  const make = "CC := gcc\nlint: x\n\techo\ntest:\n\ttrue\n";
  assert.deepEqual(proposeGate(found({ Makefile: make })).deep, [{ name: "test", run: "make test" }]);
  assert.equal(proposeGate(found({ Makefile: make, "go.mod": "" })).deep.length, 1);
});

for (const [what, files] of [
  ["with checks", NODE],
  ["without", found({})],
] as const) {
  test(`S1, S2: the plan that init writes has no error and no warning (${what})`, () => {
    const { spec, problems } = parsePlan([
      { name: "plan.yaml", text: planText("my-repo", proposeGate(files)), kind: "yaml" },
      { name: "tasks/example.yaml", text: EXAMPLE_TASK, kind: "yaml" },
    ]);
    assert.deepEqual(problems, []);
    assert.ok(spec);
    assert.equal(spec.run, "my-repo");
    assert.deepEqual(checkPlan(spec, { profiles: [] }).problems, []);
  });
}
