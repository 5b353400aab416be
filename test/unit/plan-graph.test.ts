// Dependencies: cycles, unknown ids, shapes, and graphs that make a naive check exponential (S2, S4, case 55).

import assert from "node:assert/strict";
import { test } from "node:test";
import { buildGraph, criticalPath, findCycles, unorderedPairs, waves } from "../../schemas/plan/graph.ts";
import { check, planOf } from "../helpers/plans.ts";

const graphOf = (needs: Record<string, string[]>) =>
  buildGraph(Object.entries(needs).map(([id, depends_on]) => ({ id, depends_on })));

/** CPU time, not wall time: the machine of a test run has other things to do. */
function cpuMs(work: () => void): number {
  const start = process.cpuUsage().user;
  work();
  return (process.cpuUsage().user - start) / 1000;
}

test("case 55 cycle-unknown-exponential: self.json and cycle.json are refused, the path is printed", () => {
  const self = check(planOf({ id: "a", depends_on: ["a"] }));
  assert.match(self.errors.join("\n"), /^cycle .* these tasks wait for each other: a -> a /);
  const cycle = check(
    planOf(
      { id: "a", depends_on: ["c"] },
      { id: "b", depends_on: ["a"] },
      { id: "c", depends_on: ["b"] },
      { id: "free" },
    ),
  );
  assert.equal(cycle.errors.length, 1);
  assert.match(cycle.errors[0] ?? "", /: a -> c -> b -> a \(/);
  assert.deepEqual(cycle.report?.waves, [["free"]]);
});

test("case 55 cycle-unknown-exponential: unknown.json names task, missing id and the near miss", () => {
  const { errors } = check(planOf({ id: "a", depends_on: ["A"] }, { id: "b", depends_on: ["a "] }));
  assert.equal(errors.length, 2);
  assert.match(errors[0] ?? "", /task a depends on "A", which is no task \(did you mean "a"\?\)/);
  assert.match(errors[1] ?? "", /task b depends on "a ", which is no task \(did you mean "a"\?\)/);
});

test("case 55 cycle-unknown-exponential: shapes.json: twice counts once; text or null is no list", () => {
  const twice = check(planOf({ id: "a" }, { id: "b", depends_on: ["a", "a"] }));
  assert.deepEqual(twice.errors, []);
  assert.deepEqual(twice.spec?.tasks[1]?.spec.depends_on, ["a"]);
  const { errors } = check(planOf({ id: "c", depends_on: "a" }, { id: "d", depends_on: null }));
  assert.match(errors[0] ?? "", /depends_on must be a list, not the text "a" \(write \["a"\]\)/);
  assert.match(
    errors[1] ?? "",
    /depends_on must be a list, not nothing \(leave the key out, or write \[\]\)/,
  );
});

test("case 55 cycle-unknown-exponential: ladder.json with 2^40 paths and chain.json with 20,000 tasks are quick", () => {
  const ladder = Array.from({ length: 40 }, (_, l) =>
    ["x", "y"].map((s) => ({
      id: s + l,
      allowed_files: ["**"],
      depends_on: l > 0 ? [`x${l - 1}`, `y${l - 1}`] : [],
    })),
  ).flat();
  const chain = Array.from({ length: 20_000 }, (_, i) => ({
    id: `n${i}`,
    allowed_files: ["**"],
    depends_on: i > 0 ? [`n${i - 1}`] : [],
  }));
  for (const tasks of [ladder, chain]) {
    const text = planOf(...tasks);
    const ms = cpuMs(() => {
      const { errors, report } = check(text);
      assert.deepEqual(errors, []);
      assert.equal(report?.criticalPath.length, tasks === ladder ? 40 : 20_000);
    });
    // under 1 s on a machine at rest; other processes on the same cores cost CPU time too
    assert.ok(ms < 3_000, `${tasks.length} tasks took ${Math.round(ms)} ms of CPU`);
  }
});

test("case 55 cycle-unknown-exponential: a cycle of 20,000 tasks is named in short", () => {
  const tasks = Array.from({ length: 20_000 }, (_, i) => ({
    id: `n${i}`,
    depends_on: [`n${(i + 1) % 20_000}`],
  }));
  const { errors } = check(planOf(...tasks));
  assert.equal(errors.length, 1);
  assert.match(errors[0] ?? "", /: n0 -> n1 -> .* \(19973 more\) .* -> n0 /);
});

test("S2: cycles without a common task are all named; what is behind one is not called a cycle", () => {
  const graph = graphOf({ a: ["b"], b: ["a"], c: ["a"], d: ["e"], e: ["f"], f: ["d"], g: [] });
  const cycles = findCycles(graph).map((c) => c.map((i) => graph.ids[i]).join(" -> "));
  assert.deepEqual(cycles, ["a -> b -> a", "d -> e -> f -> d"]);
  assert.deepEqual(waves(graph), [["g"]]);
});

test("S4: waves, the critical path, and who may run together", () => {
  const graph = graphOf({ a: [], b: ["a"], c: ["a"], d: ["b", "c"], e: [] });
  assert.deepEqual(waves(graph), [["a", "e"], ["b", "c"], ["d"]]);
  assert.deepEqual(criticalPath(graph), ["a", "b", "d"]);
  const pairs = [...unorderedPairs(graph)].map((p) => p.map((i) => graph.ids[i]).join(""));
  assert.deepEqual(pairs, ["ae", "bc", "be", "ce", "de"]);
  assert.deepEqual(criticalPath(graphOf({})), []);
  assert.deepEqual(criticalPath(graphOf({ a: ["a"] })), []);
});

test("case 58 unsafe-ids: dependencies with names of inherited members are unknown, and nothing is polluted", () => {
  const { errors } = check(
    planOf({ id: "child", depends_on: ["__proto__"] }, { id: "c2", depends_on: ["constructor"] }),
  );
  assert.match(errors[0] ?? "", /depends on "__proto__", which is no task/);
  assert.match(errors[1] ?? "", /depends on "constructor", which is no task/);
  assert.equal(({} as Record<string, unknown>).x, undefined);
});
