// From what a person writes to specs: types, units, shorthands, defaults, and what is not enforced yet (S1).

import assert from "node:assert/strict";
import { test } from "node:test";
import { LIMIT_PRESETS } from "../../schemas/limits.ts";
import { toRunSpec } from "../../schemas/plan/draft.ts";
import { distance, nearest } from "../../schemas/plan/nearest.ts";
import { count, durationSeconds, money, sizeBytes } from "../../schemas/plan/units.ts";
import { RunSpec } from "../../schemas/task.ts";
import { check, checkFiles, codes, fixture, planOf } from "../helpers/plans.ts";

const TASK = `tasks: [{id: a, command: "x", allowed_files: [a], acceptance: ["true"]}]`;

test("S1: the example plan with its task files loads as it is and gives a sound run", () => {
  const { spec, errors, problems } = checkFiles(
    [
      { name: "plan.yaml", text: fixture("session/plan.yaml"), kind: "yaml" },
      { name: "tasks/cache_headers.json", text: fixture("session/tasks/cache_headers.json"), kind: "json" },
      { name: "tasks/cancel_order.md", text: fixture("session/tasks/cancel_order.md"), kind: "md" },
    ],
    { gate: "written" },
  );
  assert.deepEqual(errors, []);
  assert.equal(
    codes(problems).filter((c) => c === "not_enforced").length,
    2,
    "budget and review are said not to be enforced",
  );
  const run = toRunSpec(spec!, { repo: "/r/.git", base: "a".repeat(40), base_name: "main", workers: 4 });
  assert.deepEqual(RunSpec.parse(run), run, "the draft is normalised in full");
  assert.equal(run.workers, 12);
  const [service, tests, docs, cache, cancel] = run.tasks;
  assert.deepEqual(service?.agent, { use: "codex", model: "gpt-5.5", args: [] });
  assert.deepEqual(docs?.agent, { use: "gemini", args: [] });
  assert.deepEqual(service?.limits, { ...LIMIT_PRESETS.medium, pids: 128 });
  assert.deepEqual(tests?.acceptance, [{ run: "npx tsx --test 'test/session/*.test.ts'" }]);
  assert.deepEqual(
    [cache?.agent.use, cache?.command, cache?.timeout_s],
    ["command", "node tools/set-cache-headers.mjs --max-age 300", 120],
  );
  assert.deepEqual(cancel?.acceptance[2], {
    text: "Creating and listing orders behave as before",
    run: "npx tsx --test test/orders/basic.test.ts",
  });
  assert.deepEqual(cancel?.forbidden_files, ["src/shared/**", "migrations/**"]);
  assert.equal(run.gate !== "none" && run.gate.deep[0]?.timeout_s, 600);
});

test("S1: units", () => {
  const durations: [string | number, number | undefined][] = [
    [90, 90],
    ["90s", 90],
    ["10m", 600],
    ["1h30m", 5400],
    ["1.5h", 5400],
    ["10", undefined],
    ["10 m", undefined],
    ["", undefined],
    ["m", undefined],
  ];
  for (const [text, seconds] of durations) assert.equal(durationSeconds(text), seconds, String(text));
  assert.equal(sizeBytes("1G"), 1024 ** 3);
  assert.equal(sizeBytes("512 MiB"), 512 * 1024 ** 2);
  assert.equal(sizeBytes("1x"), undefined);
  assert.equal(count("5M"), 5_000_000);
  assert.equal(count("200k"), 200_000);
  assert.deepEqual(money("20 USD"), { amount: 20, currency: "USD" });
  assert.equal(money("20"), undefined);
});

test("S1: wrong types and values are named with what is expected", () => {
  const rows: [Record<string, unknown>, RegExp][] = [
    [{ allowed_files: "src" }, /allowed_files must be a list, not the text "src" \(write \["src"\]\)/],
    [{ allowed_files: [] }, /allowed_files is an empty list/],
    [{ allowed_files: [1] }, /allowed_files\[1\] must be text, not the number 1/],
    [{ allowed_files: undefined }, /allowed_files is missing/],
    [{ priority: "high" }, /priority must be a number, not the text "high"/],
    [{ priority: 1.5 }, /priority must be a whole number, not the number 1.5/],
    [{ retries: -1 }, /retries must be at least 0/],
    [{ retries: 1000 }, /retries must be at most 100/],
    [{ timeout: "5 minutes" }, /timeout "5 minutes" is not a duration; write 90, 90s, 10m or 1h30m/],
    [{ timeout: 0 }, /timeout is less than 1s, .*write 1s or more/],
    [{ timeout: 0.0001 }, /timeout is less than 1s/],
    [{ timeout: -5 }, /timeout is less than 1s/],
    [{ timeout: "0.5s" }, /timeout "0.5s" is less than 1s/],
    [{ limits: { cpu: "0s" } }, /limits.cpu "0s" is less than 1s/],
    [{ timeout: "48h" }, /timeout "48h" is more than 24h/],
    [{ timeout: true }, /timeout must be a number or text, not true/],
    [{ limits: { memory: "much" } }, /limits.memory "much" is not a size/],
    [
      { limits: { preset: "meduim" } },
      /limits.preset must be small or medium or large, .*did you mean "medium"/,
    ],
    [{ limits: { mem: "1G" } }, /unknown key "mem" in limits \(did you mean "memory"\?\)/],
    [{ checkout: "sparce" }, /checkout must be full or sparse, .*\(did you mean "sparse"\?\)/],
    [{ review: "yes" }, /review must be true or false, not the text "yes"/],
    [{ acceptance: "true" }, /acceptance must be a list/],
    [{ acceptance: [""] }, /acceptance\[1\] "" is empty/],
    [{ acceptance: [{}] }, /this acceptance says nothing/],
    [{ acceptance: ["`a` and `b`"] }, /more than one command in backticks/],
    [{ acceptance: [{ cmd: "x" }] }, /unknown key "cmd" in acceptance\[1\]/],
    [{ context_files: ["../x"] }, /context_files\[1\] "..\/x" holds '..'/],
    [{ command: " " }, /command " " is empty/],
    [{ command: undefined }, /neither command nor agent says who does the work/],
    [{ agent: "codex" }, /both command and agent are given/],
    [{ model: "m" }, /a command has no model/],
    [{ command: undefined, agent: { uze: "codex" } }, /unknown key "uze" in agent \(did you mean "use"\?\)/],
    [{ command: undefined, agent: { use: "command" }, goal: "g" }, /needs a command line/],
    [{ command: undefined, agent: 7 }, /agent must be text or a mapping, not the number 7/],
    [{ env: { set: { "A-B": "x" } } }, /env.set.A-B is no good name/],
    [{ env: { set: { A: 1 } } }, /env.set.A must be text, not the number 1/],
  ];
  for (const [keys, expected] of rows) {
    const { errors } = check(planOf({ id: "a", ...keys }));
    assert.equal(errors.length >= 1, true, JSON.stringify(keys));
    assert.match(errors.join("\n"), expected);
  }
});

test("S1: acceptance as a line: a command, or words with a command in backticks", () => {
  const { spec } = check(
    planOf({
      id: "a",
      acceptance: ["npm test", "Orders stay: `npm run orders`", "`make`", { text: "readable" }],
    }),
  );
  assert.deepEqual(spec?.tasks[0]?.spec.acceptance, [
    { run: "npm test" },
    { text: "Orders stay", run: "npm run orders" },
    { run: "make" },
    { text: "readable" },
  ]);
});

test("S1: defaults: lists and env are added to, a preset replaces limits, all else is replaced", () => {
  const { spec, errors } = check(`
agent: {use: codex, model: big}
defaults:
  timeout: 5m
  retries: 1
  limits: {memory: 2G, pids: 9}
  forbidden_files: [secrets/]
  tags: [x]
  env: {pass: [A], set: {B: one, C: one}}
tasks:
- {id: a, goal: g, allowed_files: [a], acceptance: ["true"], model: small, timeout: 7, limits: {pids: 3}, forbidden_files: [b]}
- {id: b, command: "x", allowed_files: [b], acceptance: ["true"], limits: {preset: small, nofile: 99}, env: {set: {C: two}}}
`);
  assert.deepEqual(errors, []);
  const [a, b] = (spec?.tasks ?? []).map((t) => t.spec);
  assert.deepEqual(a?.agent, { use: "codex", model: "small", args: [] });
  assert.deepEqual([a?.timeout_s, a?.retries, a?.tags], [7, 1, ["x"]]);
  assert.deepEqual(a?.limits, { memory: 2 * 1024 ** 3, pids: 3 });
  assert.deepEqual(a?.forbidden_files, ["secrets/", "b"]);
  assert.deepEqual(b?.limits, { ...LIMIT_PRESETS.small, nofile: 99 });
  assert.deepEqual(b?.env, { pass: ["A"], set: { B: "one", C: "two" }, secret: [] });
});

test("issue 4.4, L6: secrets by reference, for tasks and for one check; a value in the plan is refused", () => {
  const plan = (env: string) => `tasks:
  - {id: a, command: x, allowed_files: [a], env: ${env}}
gate:
  deep: [{run: d, env: {secrets: {DEPLOY: "env:D"}}}, e]
`;
  const good = check(plan('{secrets: {KEY: "cmd:pass show key"}}'), { gate: "written" });
  assert.deepEqual(good.errors, []);
  assert.deepEqual(good.spec?.tasks[0]?.spec.env.secrets, { KEY: "cmd:pass show key" });
  const gate = good.spec?.gate;
  assert.ok(gate && gate !== "none");
  assert.deepEqual(gate.deep[0]?.env?.secrets, { DEPLOY: "env:D" });
  assert.equal(gate.deep[1]?.env, undefined);
  const bad = check(plan('{set: {KEY: "abc"}, secret: [KEY], secrets: {OTHER: "vault:x"}}'), {
    gate: "written",
  });
  assert.equal(bad.errors.length, 2, bad.errors.join("\n"));
  assert.match(
    bad.errors.join("\n"),
    /KEY would stand in the plan and in the audit log; write `secrets: \{KEY: env:KEY\}`/,
  );
  assert.match(bad.errors.join("\n"), /must be env:NAME, file:\/PATH, file:~\/PATH or cmd:COMMAND/);
});

test("S1: the gate: short forms, names of their own, none, nothing", () => {
  const gate = (text: string) => check(`gate: ${text}\n${TASK}`, { gate: "written" });
  assert.deepEqual(gate("none").errors, []);
  const { spec } = gate(
    "{setup: [npm ci], middle: [npm run lint, {run: npm run lint}, {name: t, run: npm test, timeout: 1m}]}",
  );
  assert.ok(spec?.gate && spec.gate !== "none");
  assert.deepEqual(
    spec.gate.middle.map((c) => [c.name, c.timeout_s]),
    [
      ["npm run lint", 600],
      ["npm run lint (2)", 600],
      ["t", 60],
    ],
  );
  assert.match(
    gate("{deep: [{name: t, run: x}, {name: t, run: y}]}").errors[0] ?? "",
    /two checks are named "t"/,
  );
  assert.match(
    gate("{deep: [{name: t, run: x, timeout: 0.2}]}").errors[0] ?? "",
    /p.yaml:1:42 .*timeout is less than 1s, .*write 1s or more/,
  );
  assert.match(gate("{}").errors[0] ?? "", /no_gate p.yaml:1:7 the gate holds no check/);
  assert.match(gate("{setup: [npm ci]}").errors[0] ?? "", /the gate holds no check/);
  assert.match(gate("non").errors[0] ?? "", /gate must be a mapping or the word none, .*did you mean "none"/);
  assert.match(check(TASK, { gate: "written" }).errors[0] ?? "", /the plan has no gate \(add `gate:`/);
});

test("S1: what this version does not do is said: a gateway, budget, rules for review", () => {
  const { errors, warnings } = check(
    `sandbox: {network: gateway}\nbudget: {tokens: 5M}\nreview: {when: {risk: high}}\n${TASK}`,
  );
  for (const sandbox of ["auto", "required", "{mode: off, network: none, read: [~/x]}"])
    assert.deepEqual(codes(check(`sandbox: ${sandbox}\n${TASK}`).problems), []);
  assert.match(errors[0] ?? "", /not_available p.yaml:1:20 network: gateway is not available/);
  assert.match(
    check(`sandbox: {read: [/]}\n${TASK}`).errors[0] ?? "",
    /sandbox.read\[1\] "\/" must be a path below/,
  );
  assert.match(warnings.join("\n"), /2:1 the budget is read, .* enforce it yet/);
  assert.match(warnings.join("\n"), /3:1 the plan's rules for review are read, .* enforce them yet/);
  assert.match(check(`budget: {money: 20}\n${TASK}`).errors[0] ?? "", /budget.money must be text/);
});

test("S1: the nearest word", () => {
  assert.equal(distance("ab", "ba"), 1, "a swap is one edit");
  assert.equal(distance("kitten", "sitting"), 3);
  assert.equal(nearest("dependsOn", ["goal", "depends_on"]), "depends_on");
  assert.equal(nearest("Allowed-Files", ["allowed_files"]), "allowed_files");
  assert.equal(nearest("zzz", ["goal", "id"]), undefined);
  assert.equal(nearest("x".repeat(10_000), ["goal"]), undefined);
});
