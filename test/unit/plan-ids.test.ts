// Ids in plan files: one grammar, each bad id refused with its reason and shown escaped (case 58).

import assert from "node:assert/strict";
import { test } from "node:test";
import { idFromFile } from "../../schemas/plan/parse.ts";
import { BAD_IDS } from "../helpers/case-tables.ts";
import { check, codes, planOf } from "../helpers/plans.ts";

for (const id of BAD_IDS)
  test(`case 58 unsafe-ids: ${JSON.stringify(id.slice(0, 20))} is refused with a reason`, () => {
    const { problems } = check(planOf({ id, allowed_files: ["out.txt"] }));
    assert.deepEqual(codes(problems), ["bad_id"]);
    const message = problems[0]?.message ?? "";
    assert.match(message, /^id "/);
    assert.match(message, /^[\x20-\x7e]*$/, "shown escaped");
    assert.ok(message.length < 260, "shown in short");
  });

test("case 58 unsafe-ids: a task may be called main: its names are never those of a branch", () => {
  assert.deepEqual(check(planOf({ id: "main" })).errors, []);
});

test("case 58 unsafe-ids: collide.json: ids that differ only a little are tasks of their own; in case only, or too long, refused", () => {
  const { spec, errors } = check(planOf(...["a_b", "a-b", "a.b"].map((id) => ({ id }))));
  assert.deepEqual(errors, []);
  assert.equal(spec?.tasks.length, 3);
  const twins = check(planOf({ id: "a-b" }, { id: "A-B" }));
  assert.match(twins.errors[0] ?? "", /"A-B" differs from "a-b" .* in case only/);
  const long = check(planOf({ id: `${"x".repeat(70)}1` }, { id: `${"x".repeat(70)}2` }));
  assert.deepEqual(codes(long.problems), ["bad_id", "bad_id"]);
});

test("case 58 unsafe-ids: the name of a run keeps the same grammar; a number wants quotes", () => {
  const head = (run: string) =>
    check(`run: ${run}\ntasks: [{id: a, command: x, allowed_files: [a], acceptance: ["true"]}]`);
  assert.match(head("a/b").errors[0] ?? "", /^bad_value p.yaml:1:6 run "a\/b" may hold only letters/);
  assert.match(head("7").errors[0] ?? "", /run must be text, not the number 7 \(write it in quotes: "7"\)/);
  assert.match(check(planOf({ id: 7 })).errors[0] ?? "", /id must be text, not the number 7/);
});

test("S1: a name from a file's name is always a good id", () => {
  assert.equal(idFromFile("tasks/Cancel order.md"), "Cancel-order");
  assert.equal(idFromFile("x/sessions.v2.yaml"), "sessions.v2");
  assert.equal(idFromFile("-rf.json"), "rf");
  assert.equal(idFromFile("é.md"), "plan");
  assert.equal(idFromFile("HEAD.md"), "plan");
  assert.equal(idFromFile(`${"x".repeat(100)}.md`).length, 64);
});
