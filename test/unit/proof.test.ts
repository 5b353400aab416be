// Nothing lands unproven (G6): the bus refuses a landing whose checks it has not seen pass on that very tree.

import assert from "node:assert/strict";
import { test } from "node:test";
import { recordVerdict } from "../../bus/state/decide-attempt.ts";
import { land } from "../../bus/state/decide-settle.ts";
import { isCode } from "../../schemas/errors.ts";
import type { Verdict } from "../../schemas/task.ts";
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
