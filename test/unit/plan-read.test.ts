// Reading plan files: YAML and JSON with places, duplicates, aliases, odd beginnings and ends (S1, case 56).

import assert from "node:assert/strict";
import { test } from "node:test";
import { toValue } from "../../schemas/plan/nodes.ts";
import { parseYamlWithPositions } from "../../schemas/plan/yaml.ts";
import { check, codes, fixture } from "../helpers/plans.ts";

const read = (name: string) => check(fixture(`case-56/${name}`), { kind: "yaml" });
const DUPKEY =
  '{"tasks":[{"id":"a","command":"bash -c true","allowed_files":["**"],"acceptance":["false"],"acceptance":["true"]}]}';

test("case 56 duplicate-and-misspelt: typo.yaml names all four unknown keys in one go, with line and likely key", () => {
  assert.deepEqual(read("typo.yaml").errors, [
    'unknown_key p.yaml:2:55 unknown key "allowed_file" (did you mean "allowed_files"?)',
    'unknown_key p.yaml:3:63 unknown key "acceptence" (did you mean "acceptance"?)',
    'unknown_key p.yaml:4:81 unknown key "dependsOn" (did you mean "depends_on"?)',
    'unknown_key p.yaml:5:81 unknown key "Timeout" (did you mean "timeout"?)',
  ]);
});

test("case 56 duplicate-and-misspelt: dupkey.yaml and dupkey.json are refused with the place of both keys", () => {
  assert.deepEqual(read("dupkey.yaml").errors, [
    'duplicate_key p.yaml:7:3 the key "forbidden_files" is given twice; first at line 4, column 3 (keep one of them)',
  ]);
  assert.deepEqual(check(DUPKEY).errors, [
    'duplicate_key p.json:1:92 the key "acceptance" is given twice; first at line 1, column 69 (keep one of them)',
  ]);
});

test("case 56 duplicate-and-misspelt: dupid.yaml is refused with both positions", () => {
  assert.deepEqual(read("dupid.yaml").errors, [
    'duplicate_id p.yaml:3:8 the id "a" is given twice; first at p.yaml:2:8 (give one of them another id)',
  ]);
});

test("case 56 duplicate-and-misspelt: multi.yaml: a second document is refused", () => {
  assert.deepEqual(read("multi.yaml").errors, [
    "parse p.yaml:6:1 a second YAML document begins here; one file holds one document",
  ]);
});

test("case 56 duplicate-and-misspelt: a merge key gives the fields of what it names, own keys win", () => {
  const text = fixture("case-56/multi.yaml").replace(/---[\s\S]*/, "");
  const { spec, errors } = check(text, { kind: "yaml" });
  assert.deepEqual(errors, []);
  assert.deepEqual(
    spec?.tasks.map((t) => [t.spec.id, t.spec.command, t.spec.allowed_files]),
    [
      ["a", "bash -c true", ["**"]],
      ["b", "bash -c true", ["**"]],
    ],
  );
});

test("case 56 duplicate-and-misspelt: selfref.yaml and bomb.yaml are refused at once", () => {
  const start = process.cpuUsage().user;
  assert.deepEqual(read("selfref.yaml").errors, ["parse p.yaml:1:12 *x stands inside what it names"]);
  assert.deepEqual(read("bomb.yaml").errors, [
    "parse p.yaml:5:23 aliases multiply to more than 50000 values",
  ]);
  assert.ok(process.cpuUsage().user - start < 1_000_000);
});

test("case 56 duplicate-and-misspelt: empty.yaml and null.yaml have no tasks; bom.yaml is read like any other", () => {
  assert.deepEqual(read("empty.yaml").errors, ["no_tasks p.yaml:1:1 no tasks: the file is empty"]);
  for (const name of ["null.yaml", "bom.yaml"])
    assert.match(
      read(name).errors.join(),
      /^no_tasks p.yaml:1:1 no tasks: there is nothing to do \(write them under `tasks:`/,
    );
  const { spec, errors } = check(
    `\uFEFFtasks: [{id: a, command: "x", allowed_files: [a], acceptance: ["true"]}]`,
  );
  assert.deepEqual(errors, []);
  assert.equal(spec?.tasks.length, 1);
});

test("case 56 duplicate-and-misspelt: tab.yaml and cut.yaml are parse errors with line and column", () => {
  assert.deepEqual(read("tab.yaml").errors, [
    "parse p.yaml:2:1 not valid YAML: Tabs are not allowed as indentation",
  ]);
  assert.deepEqual(read("cut.yaml").errors, ['parse p.yaml:3:1 not valid YAML: Missing closing "quote']);
});

test("S1: every way of being wrong in JSON has its place", () => {
  const rows: [string, RegExp][] = [
    ['{"a":1,}', /1:8 .*key in double quotes/],
    ["[1 2]", /1:4 .*expected ',' or '\]', found "2"/],
    ['["abc', /1:2 .*does not end/],
    ['{"a" 1}', /1:6 .*expected ':'/],
    ["[1]x", /1:4 .*after the end/],
    ['["a\nb"]', /1:2 .*control character/],
    ['["\\x"]', /1:2 .*bad escape/],
    ["[01]", /1:3 .*expected ','/],
    ["[nul]", /1:2 .*expected a value/],
    ["[-]", /1:2 .*expected a value/],
    ["[\n\n  tru", /3:3 .*expected a value/],
    ["{", /1:2 .*end of the file/],
    ['{"a":', /1:6 .*end of the file/],
    ["// no\n[]", /1:1 .*expected a value/],
    ["[".repeat(100), /1:65 .*nested deeper/],
    ["[".repeat(1_000_000), /nested deeper/],
    ['{"__proto__":1}', /1:2 .*"__proto__" cannot be a key/],
  ];
  for (const [text, expected] of rows) {
    const { problems, root } = parseYamlWithPositions("f", text, "json");
    const [first] = problems.map((p) => `${p.line}:${p.column} ${p.message}`);
    assert.match(first ?? "nothing", expected, text.slice(0, 40));
    assert.equal(root, undefined);
  }
});

test("S1: every way of being wrong in YAML has its place, and nothing overflows", () => {
  const rows: [string, RegExp][] = [
    ["a: b: c\n", /1:4 /],
    ["a: !!js/function x", /1:4 .*tag/i],
    ["x: *q", /1:4 no anchor &q/],
    ["? [a]\n: b", /key must be plain text/],
    ["a: &a {<<: *a}", /stands inside what it names/],
    ["<<: 7", /merges a mapping/],
    ["[".repeat(100_000), /nested too deeply/],
    ["a: {b: 1, b: 2}", /1:11 .*given twice/],
    ["__proto__: 1", /cannot be a key/],
    ["a: 1\n--- \nb: 1\n", /3:1 a second/],
  ];
  for (const [text, expected] of rows) {
    const { problems, root } = parseYamlWithPositions("f", text);
    const found = problems.map((p) => `${p.line}:${p.column} ${p.message}`).join("\n");
    assert.match(found || "nothing", expected, text.slice(0, 40));
    assert.equal(root, undefined);
  }
});

test("S1: YAML and JSON give the same values; anchors are shared, odd keys are text", () => {
  const yaml = parseYamlWithPositions(
    "f",
    "a: &x [1, yes, ~, 'y']\nb: *x\n1: true\nc:\n  <<: [{p: 1, q: 1}, {p: 2, r: 2}]\n  q: 9\n",
  );
  const json = parseYamlWithPositions(
    "f",
    '{"a":[1,"yes",null,"y"],"b":[1,"yes",null,"y"],"1":true,"c":{"q":9,"p":1,"r":2}}',
    "json",
  );
  assert.deepEqual(yaml.problems, []);
  assert.deepEqual(toValue(yaml.root!), toValue(json.root!));
});

test("S1: two hundred tasks from one anchor are no bomb", () => {
  const tasks = Array.from({ length: 200 }, (_, i) => `- {<<: *t, id: t${i}}`).join("\n");
  const text = `tasks:\n- &t {id: first, command: "x", allowed_files: [a], acceptance: ["true"]}\n${tasks}\n`;
  const { errors, spec } = check(text);
  assert.deepEqual(errors, []);
  assert.equal(spec?.tasks.length, 201);
});

test("S1: a lone list, a mapping of tasks and a single task are plans; anything else is refused", () => {
  const task = '{"id":"a","command":"x","allowed_files":["a"],"acceptance":["true"]}';
  for (const text of [`[${task}]`, `{"tasks":[${task}]}`, task]) {
    const { spec, errors } = check(text);
    assert.deepEqual(errors, []);
    assert.equal(spec?.tasks[0]?.spec.id, "a");
  }
  assert.deepEqual(codes(check("just words").problems), ["wrong_type"]);
  assert.deepEqual(codes(check('{"tasks":{"a":{}}}').problems), ["wrong_type"]);
  assert.deepEqual(codes(check("[1]").problems), ["wrong_type"]);
});
