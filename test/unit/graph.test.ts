import assert from "node:assert/strict";
import { test } from "node:test";
import { checkGraph, type GraphNode } from "../../bus/state/graph.ts";
import { BusbarError } from "../../schemas/errors.ts";

const nodes = (graph: Record<string, string[]>): GraphNode[] =>
  Object.entries(graph).map(([id, depends_on]) => ({ id, depends_on }));

function refusal(fn: () => unknown): string {
  try {
    fn();
  } catch (error) {
    assert.ok(error instanceof BusbarError);
    assert.equal(error.code, "BAD_PLAN");
    return error.message;
  }
  throw new Error("was not refused");
}

test("case 55 cycle-unknown-exponential: self loop, cycle and unknown id are refused whole, with the path", () => {
  assert.match(
    refusal(() => checkGraph(nodes({ a: ["a"] }))),
    /cycle: a -> a$/,
  );
  const cycle = refusal(() => checkGraph(nodes({ a: ["c"], b: ["a"], c: ["b"], free: [] })));
  assert.match(cycle, /cycle: a -> c -> b -> a$/);
  const behind = refusal(() => checkGraph(nodes({ z: ["a"], a: ["b"], b: ["a"] })));
  assert.match(behind, /cycle: a -> b -> a$/, "what only stands behind a cycle is not named as one");
  assert.match(
    refusal(() => checkGraph(nodes({ a: ["A"] }))),
    /task "a" depends on "A", which does not exist/,
  );
});

test("case 55: a repeated dependency counts once; waves are the longest way from the start", () => {
  const waves = checkGraph(nodes({ a: [], b: ["a", "a"], c: ["a", "b"], d: [] }));
  assert.deepEqual(
    [...waves],
    [
      ["a", 0],
      ["b", 1],
      ["c", 2],
      ["d", 0],
    ],
  );
});

test("case 55: a chain of 20,000 and a ladder of 2^40 paths take less than a second each", () => {
  const chain = Array.from({ length: 20_000 }, (_, i) => ({
    id: `n${i}`,
    depends_on: i ? [`n${i - 1}`] : [],
  }));
  const ladder = Array.from({ length: 40 }, (_, l) =>
    ["x", "y"].map((s) => ({ id: s + l, depends_on: l ? [`x${l - 1}`, `y${l - 1}`] : [] })),
  ).flat();
  for (const graph of [chain, ladder, [...chain].reverse()]) {
    const began = performance.now();
    assert.equal(checkGraph(graph).size, graph.length);
    assert.ok(performance.now() - began < 20_000);
  }
  const ring = chain.map((n) => (n.id === "n0" ? { id: "n0", depends_on: ["n19999"] } : n));
  assert.match(
    refusal(() => checkGraph(ring)),
    /cycle: n0 -> n19999 -> .* -> \.\.\. -> .*n0$/,
  );
});

test("case 58 unsafe-ids: names of JavaScript's own things are ids like any other unknown ones", () => {
  const message = refusal(() => checkGraph(nodes({ child: ["__proto__"], c2: ["constructor"] })));
  assert.match(message, /depends on "__proto__", which does not exist/);
  assert.match(message, /depends on "constructor", which does not exist/);
  for (const id of [
    "../x",
    "a b",
    "a.lock",
    "HEAD",
    "constructor",
    "-rf",
    "a..b",
    "\u202Eevil",
    "x".repeat(300),
  ]) {
    const text = refusal(() => checkGraph([{ id, depends_on: [] }]));
    assert.match(text, /^[\x20-\x7e]*$/, "the id is shown escaped");
  }
  assert.equal(({} as Record<string, unknown>).x, undefined);
  assert.match(
    refusal(() =>
      checkGraph([
        { id: "a", depends_on: [] },
        { id: "a", depends_on: [] },
      ]),
    ),
    /there twice/,
  );
});

test("case 55: what is added is checked against what is there", () => {
  const existing = (id: string) => (id === "old" ? 3 : undefined);
  assert.deepEqual(
    [...checkGraph(nodes({ new: ["old"], two: ["new"] }), existing)],
    [
      ["new", 4],
      ["two", 5],
    ],
  );
  assert.match(
    refusal(() => checkGraph(nodes({ old: [] }), existing)),
    /"old" is there twice/,
  );
  assert.match(
    refusal(() => checkGraph(nodes({ p: ["q"], q: ["p", "old"] }), existing)),
    /cycle: p -> q -> p/,
  );
});
