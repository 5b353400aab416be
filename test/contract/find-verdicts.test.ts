// Issue 5.5: which passes the bus gives out: made anew from the state after a start, bounded, and never what was red.

import assert from "node:assert/strict";
import { test } from "node:test";
import { ProvenInputs } from "../../bus/state/proven-inputs.ts";
import { VERDICT_AGE_MS } from "../../schemas/limits.ts";
import type { Verdict } from "../../schemas/verdict.ts";
import { bus, ref } from "../helpers/handlers.ts";
import { oid } from "../helpers/state.ts";

const AT = "2026-01-02T03:04:05.000Z";
const NOW = Date.parse(AT);
const key = (digit: string) => digit.repeat(64);

test("issue 5.5: a pass is found until its key is red, is too old, or was forgotten; a start finds the same again", async (t) => {
  const b = await bus(t);
  const a = ref(await b.claim("a"));
  const said = (tree: number, more: Partial<Verdict>): Promise<unknown> => {
    const verdict = {
      check: "types",
      tier: "shallow",
      tree: oid(tree),
      verdict: "pass",
      exit: 0,
      duration_ms: 7,
      command: "c",
      summary: "",
      key: key("1"),
      at: AT,
      ...more,
    } as const;
    return b.call("scheduler", "record_verdict", { ...a, verdict });
  };
  const proven = new ProvenInputs(b.store);
  const find = (digit: string, of = proven, now = NOW) => of.find([key(digit)], now);
  assert.deepEqual(find("1"), []);
  await said(1, {});
  const earlier = { ...a, tree: oid(1), at: AT, duration_ms: 7 };
  assert.deepEqual(find("1"), [{ key: key("1"), uses: 1, earlier }]);
  const answer = await b.call("scheduler", "find_verdicts", { ...a, keys: [key("1"), key("9")] });
  assert.ok(answer.found.length <= 1, "the bus goes by its own clock");
  await said(2, { cached: earlier });
  assert.deepEqual(find("1"), [{ key: key("1"), uses: 2, earlier }], "a cached one refers to the run itself");
  assert.deepEqual(new ProvenInputs(b.store).find([key("1")], NOW), [{ key: key("1"), uses: 2, earlier }]);
  assert.deepEqual(find("1", proven, NOW + VERDICT_AGE_MS + 1), [], "too old");
  await said(3, { key: key("2"), verdict: "infra", exit: null });
  assert.deepEqual(find("2"), [], "trouble says nothing");
  await said(4, { verdict: "fail", exit: 1 });
  await said(5, {});
  for (const of of [proven, new ProvenInputs(b.store)])
    assert.deepEqual(find("1", of), [], "its input was red once: that does not decide it alone");
  await said(6, { key: key("3") });
  const small = new ProvenInputs(b.store, 1);
  await said(7, { key: key("4") });
  assert.deepEqual([find("3", small), find("4", small).length], [[], 1], "the oldest key is forgotten");
});
