// The plan check, rule by rule: errors stop the plan, warnings carry place and cure (S2, S4, G1).

import assert from "node:assert/strict";
import { test } from "node:test";
import { checkPlan } from "../../schemas/plan/check.ts";
import { parsePlan } from "../../schemas/plan/parse.ts";
import { check, checkFiles, codes, planOf } from "../helpers/plans.ts";

const LONG = "The refresh of a session moves from the handlers into one place. ".repeat(6); // 390 characters
const model = (more: Record<string, unknown>) =>
  planOf({ id: "a", command: undefined, agent: "codex", goal: LONG, allowed_files: ["a.ts"], ...more });

test("S2: a sound plan has no problems at all", () => {
  assert.deepEqual(codes(check(model({})).problems), []);
});

test("S2: an agent that nobody knows, and a command line taken for one", () => {
  assert.match(
    check(model({ agent: "codx" })).errors[0] ?? "",
    /there is no agent "codx" \(did you mean "codex"\?\)/,
  );
  assert.match(
    check(model({ agent: "bash run.sh" })).errors[0] ?? "",
    /write `command:` instead of `agent:`/,
  );
  assert.match(
    check(model({ agent: "zzzzzz" })).errors[0] ?? "",
    /known agents: codex, claude, gemini, command/,
  );
  assert.deepEqual(check(model({ agent: "mine" }), { profiles: ["mine"] }).errors, []);
});

test("S2: an unknown agent of the plan or its defaults is named once, where it is chosen", () => {
  const tasks = `tasks:\n${["a", "b"].map((id) => `- {id: ${id}, goal: ${LONG}, allowed_files: [${id}], acceptance: ["true"]}`).join("\n")}`;
  const ofPlan = check(`agent: nobody\n${tasks}`).errors;
  assert.equal(ofPlan.length, 1);
  assert.match(ofPlan[0] ?? "", /^agent p.yaml:1:8 there is no agent "nobody"/);
  const ofDefaults = check(`agent: codex\ndefaults: {agent: nobody}\n${tasks}`).errors;
  assert.equal(ofDefaults.length, 1);
  assert.match(ofDefaults[0] ?? "", /^agent p.yaml:2:19 /);
});

test("S2: a goal is needed by an agent, and best between 300 and 800 characters; a command reads none", () => {
  assert.match(check(model({ goal: undefined })).errors[0] ?? "", /missing .* goal is missing/);
  assert.match(check(model({ goal: "  " })).errors[0] ?? "", /goal is missing/);
  assert.match(
    check(model({ goal: "x".repeat(299) })).warnings[0] ?? "",
    /goal_length .* 299 characters; under 300/,
  );
  assert.match(
    check(model({ goal: "x".repeat(801) })).warnings[0] ?? "",
    /goal_length .* 801 characters; over 800/,
  );
  for (const n of [300, 800]) assert.deepEqual(codes(check(model({ goal: "x".repeat(n) })).problems), []);
  assert.deepEqual(codes(check(planOf({ id: "a", goal: "short" })).problems), []);
});

test("S2: vague verbs without acceptance, British and American; with acceptance they may stand", () => {
  for (const verb of [
    "Optimise",
    "optimize",
    "improve",
    "clean up",
    "Refactored",
    "enhance",
    "tidy",
    "make the code faster",
    "simplify",
  ]) {
    const goal = `${verb} the parser. ${LONG}`;
    const { warnings } = check(model({ goal, acceptance: [] }));
    assert.equal(warnings.length, 1, verb);
    assert.match(warnings[0] ?? "", new RegExp(`^vague .*"${verb}" names no end`));
    assert.deepEqual(codes(check(model({ goal })).problems), []);
  }
  assert.match(check(model({ acceptance: undefined })).warnings[0] ?? "", /^no_acceptance/);
});

test("S2: more than 3 files to change, more than 5 context files, over 500 lines", () => {
  const files = ["a.ts", "b.ts", "c.ts", "d.ts"];
  assert.deepEqual(codes(check(model({ allowed_files: files })).problems), ["many_files"]);
  assert.deepEqual(codes(check(model({ allowed_files: files.slice(1) })).problems), []);
  const context = Array.from({ length: 6 }, (_, i) => `c${i}.ts`);
  assert.deepEqual(codes(check(model({ context_files: context })).problems), ["many_context_files"]);
  assert.deepEqual(codes(check(model({ context_files: context.slice(1) })).problems), []);
  assert.deepEqual(codes(check(model({ expected_lines: 501 })).problems), ["large_change"]);
  assert.deepEqual(codes(check(model({ expected_lines: 500 })).problems), []);
});

test("case 42 glob-table: spec rows that are refused: no list, an empty one, '..', '!', a backslash", () => {
  const FILES = ["src/a.ts", "back\\slash/x.ts"];
  const run = (allowed: unknown) =>
    codes(check(model({ allowed_files: allowed }), { files: FILES }).problems);
  assert.deepEqual(run(undefined), ["missing"]);
  assert.deepEqual(run([]), ["bad_value"]);
  assert.deepEqual(run(["../**"]), ["bad_pattern"]);
  assert.deepEqual(run(["src/**", "!src/a.test.ts"]), ["bad_pattern"]);
  assert.deepEqual(run(["src\\a.ts"]), ["bad_pattern"]);
  assert.deepEqual(run(["back\\slash/x.ts"]), []);
  const { errors } = check(model({ allowed_files: ["src\\a.ts"] }), { files: FILES });
  assert.match(errors[0] ?? "", /holds a backslash.* \(write "src\/a.ts"\)/);
});

test("G1: bad patterns of the plan and of checks are named at their place", () => {
  const { errors } = check(
    `gate: {deep: [{run: x, inputs: ["a", "../b"]}], setup: [{run: y, key: [""]}]}
protect: ["../x"]
serial: ["!y"]
contracts: ["a/../b"]
tasks: [{id: a, command: "x", allowed_files: [a], forbidden_files: [""], acceptance: ["true"]}]`,
    { gate: "written" },
  );
  const places = errors.map((e) => e.split(" ").slice(0, 2).join(" "));
  assert.deepEqual(places, [
    "bad_pattern p.yaml:1:38",
    "bad_pattern p.yaml:1:72",
    "bad_pattern p.yaml:2:11",
    "bad_pattern p.yaml:3:10",
    "bad_pattern p.yaml:4:13",
    "bad_pattern p.yaml:5:69",
  ]);
});

test("case 42 glob-table: a pattern that matches nothing in the base names the nearest file", () => {
  const FILES = ["src/index.ts", "src/session/a.ts", "docs/session.md", "lib/tool.ts"];
  const warn = (allowed: string) => check(model({ allowed_files: [allowed] }), { files: FILES }).warnings;
  assert.match(
    warn("src/idnex.ts")[0] ?? "",
    /"src\/idnex.ts" matches no file of the base \(did you mean "src\/index.ts"\?\)/,
  );
  assert.match(warn("SRC/**")[0] ?? "", /did you mean "src"\?/);
  assert.match(warn("src/sesion/**")[0] ?? "", /did you mean "src\/session"\?/);
  assert.match(warn("elsewhere/**")[0] ?? "", /right, if the files are to be made/);
  for (const good of ["src/index.ts", "src", "src/**", "**/*.md", "src/brand-new-file.ts"])
    assert.deepEqual(warn(good), [], good);
});

test("S2: a context file that is not there is an error with the nearest name", () => {
  const FILES = ["src/handlers/login.ts", "src/types/session.ts"];
  const errors = (path: string) =>
    check(model({ context_files: [path], allowed_files: ["src/handlers/login.ts"] }), { files: FILES })
      .errors;
  assert.deepEqual(errors("src/types/session.ts"), []);
  assert.match(
    errors("src/types/sesion.ts")[0] ?? "",
    /not in the base \(did you mean "src\/types\/session.ts"\?\)/,
  );
  assert.match(errors("session.ts")[0] ?? "", /did you mean "src\/types\/session.ts"\?/);
  assert.match(errors("src/types")[0] ?? "", /is a directory \(name the files in it\)/);
});

test("G1: forbidden files that leave nothing are an error", () => {
  const scope = (allowed: string[], forbidden: string[]) =>
    codes(check(model({ allowed_files: allowed, forbidden_files: forbidden })).problems);
  assert.deepEqual(scope(["src/**"], ["**"]), ["scope"]);
  assert.deepEqual(scope(["src/a.ts"], ["src/"]), ["scope"]);
  assert.deepEqual(scope(["src/lib/**"], ["src"]), ["scope"]);
  assert.deepEqual(scope(["src/**"], ["src/**"]), ["scope"]);
  assert.deepEqual(scope(["src/**"], ["src/*"]), []);
  assert.deepEqual(scope(["src/**", "docs/"], ["src/**"]), []);
  assert.deepEqual(scope(["**"], ["src/**"]), []);
});

test("G8: a contract is read-only for tasks that do not declare to change it", () => {
  const plan = (more: string) =>
    check(
      `contracts: [src/types.ts]\ntasks: [{id: a, command: "x", allowed_files: [src/types.ts], acceptance: ["true"]${more}}]`,
    );
  assert.match(plan("").warnings[0] ?? "", /^scope .* src\/types.ts is a contract/);
  assert.deepEqual(plan(", changes_contracts: true").warnings, []);
});

test("issue 2.6: an allowed file that the plan protects is a warning; a pattern round it is none", () => {
  const plan = (allowed: string) =>
    check(
      `protect: [test/**]\ntasks: [{id: a, command: "x", allowed_files: [${allowed}], acceptance: ["true"]}]`,
    );
  assert.match(plan("src/**, test/a.ts").warnings[0] ?? "", /^scope .* test\/a.ts is protected by the plan/);
  assert.deepEqual(plan("'**'").warnings, []);
});

test("S4: tasks that may change the same files are one warning a group, unless a dependency orders them", () => {
  const same = (id: string, more = {}) => ({ id, allowed_files: ["src/**"], ...more });
  const three = check(planOf(same("a"), same("b"), same("c"), { id: "d" }));
  assert.equal(three.warnings.length, 1);
  assert.match(three.warnings[0] ?? "", /^overlap .* a, b and c may change the same files \("src\/\*\*"\)/);
  assert.deepEqual(
    three.report?.overlaps.map((o) => o.slice(0, 2).join("")),
    ["ab", "ac", "bc"],
  );
  const ordered = check(planOf(same("a"), { id: "m", depends_on: ["a"] }, same("b", { depends_on: ["m"] })));
  assert.deepEqual(ordered.warnings, [], "ordered, though not directly");
});

test("S4: serial files wanted by several tasks are one lane, and said so", () => {
  const { warnings } = check(`serial: [package.json]
tasks:
- {id: a, command: "x", allowed_files: [package.json], acceptance: ["true"]}
- {id: b, command: "x", allowed_files: ["*.json"], acceptance: ["true"], depends_on: [a]}
- {id: c, command: "x", allowed_files: [src], acceptance: ["true"]}`);
  assert.equal(warnings.length, 1);
  assert.match(warnings[0] ?? "", /^serial p.yaml:1:9 a and b may change serial files \("package.json"\)/);
});

test("S2: whether going parallel is worth it", () => {
  const free = (n: number) => Array.from({ length: n }, (_, i) => ({ id: `t${i}` }));
  const chain = free(5).map((t, i) => ({ ...t, depends_on: i > 0 ? [`t${i - 1}`] : [] }));
  const same = free(5).map((t) => ({ ...t, allowed_files: ["x"] }));
  const verdict = (tasks: Record<string, unknown>[]) => check(planOf(...tasks)).report?.worthIt;
  assert.deepEqual(verdict(free(5)), { yes: true, why: "at best 5.0 times as fast" });
  assert.match(verdict(free(2))?.why ?? "", /2 tasks: one agent does as well/);
  assert.match(verdict(free(1))?.why ?? "", /one task/);
  assert.match(verdict(chain)?.why ?? "", /nearly every task waits/);
  assert.match(verdict(same)?.why ?? "", /run one by one/);
});

test("S2: tokens are estimated for agents by the documented formula, and not for commands", () => {
  assert.equal(check(planOf({ id: "a" })).report?.tokens, null);
  const { report } = check(model({ goal: "x".repeat(400), acceptance: ["true"], context_files: ["c.ts"] }), {
    files: ["c.ts", "a.ts"],
  });
  assert.equal(report?.tokens, 12 * (3_000 + Math.ceil((400 + 4 + 100) / 4)) + 4_000);
});

test("S2: a fault in one file does not hide those of another, and a task with a fault is still a task", () => {
  const { errors } = checkFiles([
    {
      name: "plan.yaml",
      text: "tasks: [{id: a, command: x, allowed_files: [a], acceptence: [y]}]",
      kind: "yaml",
    },
    {
      name: "t/b.yaml",
      text: "id: b\ncommand: x\nallowed_files: [b]\ndepends_on: [a, q]\nacceptance: [y]\n",
      kind: "yaml",
    },
    { name: "t/c.json", text: "{", kind: "json" },
    { name: "t/d.yaml", text: "run: x\ntasks: []\n", kind: "yaml" },
  ]);
  const places = errors.map((e) => e.split(" ").slice(0, 2).join(" "));
  assert.deepEqual(places, ["parse t/c.json:1:2", "wrong_type t/d.yaml:1:1", "unknown_key plan.yaml:1:49"]);
  // `q` may be of the file that could not be read; once that can be, it is a fault.
  const { errors: then } = checkFiles([
    {
      name: "plan.yaml",
      text: "tasks: [{id: a, command: x, allowed_files: [a], acceptence: [y]}]",
      kind: "yaml",
    },
    {
      name: "t/b.yaml",
      text: "id: b\ncommand: x\nallowed_files: [b]\ndepends_on: [a, q]\nacceptance: [y]\n",
      kind: "yaml",
    },
  ]);
  assert.deepEqual(
    then.map((e) => e.split(" ").slice(0, 2).join(" ")),
    ["unknown_key plan.yaml:1:49", "unknown_dependency t/b.yaml:4:17"],
  );
});

test("case 59 failed-dependency: a plan that is added to a run may depend on what that run has", () => {
  const { spec } = parsePlan(
    [
      {
        name: "p.json",
        text: JSON.stringify({
          gate: "none",
          tasks: [
            { id: "late", command: "x", depends_on: ["good"], allowed_files: ["a"], acceptance: ["true"] },
          ],
        }),
        kind: "json",
      },
    ],
    { name: "p" },
  );
  assert.ok(spec);
  const errors = (known?: ReadonlySet<string>) =>
    checkPlan(spec, { profiles: [], ...(known ? { known } : {}) }).problems.filter(
      (one) => one.severity === "error",
    );
  assert.deepEqual(
    errors().map((one) => one.code),
    ["unknown_dependency"],
  );
  assert.deepEqual(errors(new Set(["good"])), []);
});

test("S2, issue 2.2: one round names every fault that does not hang on another one", () => {
  const { errors, warnings } = check(
    `run: bad
workerz: 3
gate: none
tasks:
  - id: a
    comand: "true"
    depends_on: [nobody]
    allowed_files: [src/f1.txt]
    context_files: [src/missing.txt]
    acceptance: ["true"]
  - id: b
    command: "true"
    depends_on: [c, a]
    allowed_files: ["../abs"]
    acceptance: ["true"]
    retries: many
  - id: c
    command: "true"
    depends_on: [b]
    allowed_files: [src/f2.txt]
    acceptance: ["true"]
`,
    { gate: "written", files: ["src/f1.txt", "src/f2.txt"] },
  );
  const found = errors.map((line) => line.split(" ").slice(0, 2).join(" "));
  assert.deepEqual(found.toSorted(), [
    "bad_pattern p.yaml:14:21",
    "cycle p.yaml:19:17",
    "no_such_file p.yaml:9:21",
    "unknown_dependency p.yaml:7:18",
    "unknown_key p.yaml:2:1",
    "unknown_key p.yaml:6:5",
    "wrong_type p.yaml:16:14",
  ]);
  assert.deepEqual(warnings, []);
});

test("S2, issue 2.2: nothing is said about what may stand in a part that could not be read", () => {
  const { errors } = check(
    `agnet: codex
gat: none
tasks:
  - {id: a, goal: "${"x".repeat(400)}", allowed_files: [a], acceptance: ["true"]}
  - {idd: b, command: "true", allowed_files: [b], acceptance: ["true"]}
  - {id: c, depends_on: [b], command: "true", allowd_files: [c], acceptance: ["true"]}
`,
    { gate: "written" },
  );
  assert.deepEqual(
    errors.map((line) => line.split(" ")[0]),
    ["unknown_key", "unknown_key", "unknown_key", "unknown_key"],
  );
});

test("S2: patterns that lead out of the repository or into a git directory are named with their line, in every list", () => {
  const lineOnly = (line: string) => line.replace(/ \(.*/, "").replace(/(p\.yaml:\d):\d+/, "$1");
  const plan = (allowed: string, more = "") =>
    `protect: [/etc/hosts]\n${more}tasks:\n- id: a\n  command: "true"\n  acceptance: ["true"]\n  forbidden_files: ["$HOME/x"]\n  allowed_files: [${allowed}]`;
  const { errors, warnings } = check(
    plan('/etc/passwd, "~/x", "~ann/**", ../x, .git/config, src/.GIT, /src, "$D/a"'),
    {
      files: ["src/a.ts"],
    },
  );
  assert.deepEqual(errors.map(lineOnly), [
    `bad_pattern p.yaml:7 the pattern "../x" holds '..'; patterns start at the top of the repository`,
    'bad_pattern p.yaml:7 ".git/config" lies in a git directory: nothing there is ever captured',
    'bad_pattern p.yaml:7 "src/.GIT" lies in a git directory: nothing there is ever captured',
  ]);
  assert.deepEqual(warnings.filter((line) => line.startsWith("outside")).map(lineOnly), [
    'outside p.yaml:1 the pattern "/etc/hosts" is read from the top of the repository, as "etc/hosts"',
    'outside p.yaml:7 the pattern "/etc/passwd" is read from the top of the repository, as "etc/passwd"',
    'outside p.yaml:7 the pattern "~/x" begins with "~", which is read letter by letter',
    'outside p.yaml:7 the pattern "~ann/**" begins with "~ann", which is read letter by letter',
    'outside p.yaml:7 the pattern "$D/a" begins with "$D", which is read letter by letter',
    'outside p.yaml:6 the pattern "$HOME/x" begins with "$HOME", which is read letter by letter',
  ]);
  assert.equal(
    warnings.some((line) => line.startsWith("matches_nothing")),
    false,
    "said once",
  );
  const there = check(plan('"~/x", /src/a.ts, .github/x'), {
    files: ["~/x", "src/a.ts", ".github/y", "$HOME/x", "etc/hosts"],
  });
  assert.deepEqual([...there.errors, ...there.warnings], []);
});
