// Nothing lands unproven (G6): the bus refuses a landing whose checks it has not seen pass on that very tree.

import assert from "node:assert/strict";
import { test } from "node:test";
import { recordVerdict } from "../../bus/state/decide-attempt.ts";
import { land } from "../../bus/state/decide-settle.ts";
import { isCode } from "../../schemas/errors.ts";
import type { Verdict } from "../../schemas/verdict.ts";
import { go, moved } from "../helpers/decide.ts";
import { BASE, draftWith, oid, runSpec, taskSpec } from "../helpers/state.ts";

const TREE = oid(2);
const check = (name: string) => ({ name, run: name, inputs: [], timeout_s: 9, limits: {} });
const gate = runSpec("r", [taskSpec("a")], {
  gate: { setup: [], shallow: [check("types")], middle: [], deep: [check("tests")] },
}).gate;
const verdict = (tier: Verdict["tier"], name: string, value: Verdict["verdict"], tree = TREE): Verdict => ({
  check: name,
  tier,
  tree,
  verdict: value,
  exit: 0,
  duration_ms: 1,
  command: name,
  summary: "",
});

test("G6: a landing needs a pass of acceptance, shallow, middle and deep on exactly its tree", () => {
  const d = draftWith([taskSpec("a", { acceptance: [{ run: "x" }, { text: "reads well" }] })], { gate });
  const ref = go(d, "a");
  moved(d, ref);
  const landing = { ...ref, old_head: BASE, commit: oid(1), tree: TREE };
  const refused = (...missing: string[]) =>
    assert.throws(
      () => land(d, landing),
      (error) => {
        assert.ok(isCode(error, "UNPROVEN"), String(error));
        assert.deepEqual(error.data.missing, missing);
        return true;
      },
    );
  refused("acceptance-1", "types", "tests");
  recordVerdict(d, { ...ref, verdict: verdict("acceptance", "acceptance-1", "pass") });
  recordVerdict(d, { ...ref, verdict: verdict("shallow", "types", "pass", oid(3)) });
  refused("types", "tests");
  recordVerdict(d, { ...ref, verdict: verdict("shallow", "types", "pass") });
  recordVerdict(d, { ...ref, verdict: verdict("deep", "tests", "fail") });
  refused("tests");
  assert.equal(d.mustRun("r").head, BASE, "a refused landing moves nothing");
  recordVerdict(d, { ...ref, verdict: verdict("deep", "tests", "pass") });
  land(d, landing);
  assert.equal(d.mustRun("r").head, oid(1));
});

test("issue 5.5: a cached verdict stands only for a pass of the same input that the state holds, by a run of its own", () => {
  const d = draftWith([taskSpec("a"), taskSpec("b")], { gate });
  const first = go(d, "a");
  const key = "1".repeat(64);
  const at = "2026-01-02T03:04:05.000Z";
  const ran = { ...verdict("shallow", "types", "pass", oid(3)), key, at };
  recordVerdict(d, { ...first, verdict: ran });
  recordVerdict(d, {
    ...first,
    verdict: { ...verdict("deep", "tests", "fail", oid(3)), key: "2".repeat(64), at },
  });
  const ref = go(d, "b");
  const earlier = { ...first, tree: oid(3), at, duration_ms: 1 };
  const cached = { ...verdict("shallow", "types", "pass"), key, at, cached: earlier };
  const wrong: Verdict[] = [
    { ...cached, key: "3".repeat(64) },
    { ...cached, command: "another" },
    { ...cached, verdict: "fail" },
    { ...cached, cached: { ...earlier, tree: oid(4) } },
    { ...cached, cached: { ...earlier, run: "other" } },
    { ...cached, cached: { ...earlier, attempt: 2 } },
    { ...cached, cached: { ...earlier, at: "2026-01-02T03:04:06.000Z" } },
    { ...verdict("deep", "tests", "pass"), key: "2".repeat(64), at, cached: earlier },
  ];
  for (const one of wrong)
    assert.throws(
      () => recordVerdict(d, { ...ref, verdict: one }),
      (error) => isCode(error, "UNPROVEN"),
      JSON.stringify(one),
    );
  recordVerdict(d, { ...ref, verdict: cached });
  recordVerdict(d, { ...ref, verdict: cached });
  assert.equal(d.mustTask("r", "b").attempts[0]?.verdicts.length, 1, "told twice it is one");
  // One that stands by another's word stands for nobody.
  const again = {
    ...verdict("shallow", "types", "pass", oid(5)),
    key,
    at,
    cached: { ...ref, tree: TREE, at, duration_ms: 1 },
  };
  assert.throws(
    () => recordVerdict(d, { ...ref, verdict: again }),
    (error) => isCode(error, "UNPROVEN"),
  );
  moved(d, ref);
  const landing = { ...ref, old_head: BASE, commit: oid(1), tree: TREE };
  assert.throws(
    () => land(d, landing),
    (error) => isCode(error, "UNPROVEN"),
  );
  recordVerdict(d, { ...ref, verdict: verdict("deep", "tests", "pass") });
  land(d, landing);
  assert.equal(d.mustRun("r").head, oid(1));
});
