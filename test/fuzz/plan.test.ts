// Properties of plan reading: nothing that comes in makes it throw, every problem has a place inside its file, JSON is
// read as JSON.parse reads it, waves keep every dependency.

import assert from "node:assert/strict";
import { test } from "node:test";
import fc from "fast-check";
import { checkPlan } from "../../schemas/plan/check.ts";
import { buildGraph, findCycles, unorderedPairs } from "../../schemas/plan/graph.ts";
import { type Node, type Problem, toValue } from "../../schemas/plan/nodes.ts";
import { parsePlan } from "../../schemas/plan/parse.ts";
import { NO_COLOUR, renderProblems, renderReport } from "../../schemas/plan/render.ts";
import { parseYamlWithPositions } from "../../schemas/plan/yaml.ts";
import { fixture } from "../helpers/plans.ts";

/** Everything that a plan goes through before it is submitted. */
function throughAll(name: string, text: string, kind: "yaml" | "json" | "md"): Problem[] {
  const { spec, problems } = parsePlan([{ name, text, kind }]);
  const report = spec && checkPlan(spec, { profiles: ["codex"], baseFiles: [{ path: "src/a.ts" }] });
  const all = [...problems, ...(report?.problems ?? [])];
  renderProblems(all, NO_COLOUR, (_, n) => text.split("\n")[n - 1]);
  if (report) renderReport(report);
  return all;
}

const piece = fc.constantFrom(
  ..."tasks:|- |id|: |a|b|{|}|[|]|,|\n|\n  |\"|'|&x |*x|<<|---\n|allowed_files|acceptance|depends_on|goal|gate|none|agent|command|#|\t|null|1|~|**|## |`|__proto__|\\|!|\u0000|\uFEFF|é|>".split(
    "|",
  ),
);
const soup = fc.array(piece, { maxLength: 40 }).map((parts) => parts.join(""));

for (const kind of ["yaml", "json", "md"] as const)
  test(`S1: no ${kind} text makes the reader throw, and a problem lies inside its file`, () => {
    fc.assert(
      fc.property(fc.oneof(soup, fc.string({ unit: "binary" })), (text) => {
        const lines = text.split("\n").length;
        for (const p of throughAll("f", text, kind)) {
          assert.ok(p.line >= 1 && p.line <= lines, `line ${p.line} of ${lines}`);
          assert.ok(p.column >= 1 && p.message.length > 0 && p.message.length < 2_000);
        }
      }),
      { numRuns: 400 },
    );
  });

test("S1: a sound file cut or changed anywhere gives problems or a plan, never an exception", () => {
  const files = [
    ["yaml", fixture("session/plan.yaml")],
    ["json", fixture("session/tasks/cache_headers.json")],
    ["md", fixture("session/tasks/cancel_order.md")],
  ] as const;
  for (const [kind, text] of files)
    fc.assert(
      fc.property(fc.nat(text.length), fc.nat(5), piece, (at, gone, put) => {
        throughAll("f", text.slice(0, at), kind);
        throughAll("f", text.slice(0, at) + put + text.slice(at + gone), kind);
      }),
      { numRuns: 60 },
    );
});

test("S1: JSON is accepted exactly where JSON.parse accepts it, with the same value", () => {
  const same = (text: string): void => {
    const { root, problems } = parseYamlWithPositions("f", text, "json");
    let expected: unknown;
    try {
      expected = JSON.parse(text);
    } catch {
      assert.ok(problems.length > 0 || text.trim() === "", text);
      return;
    }
    if (problems.some((p) => p.code === "duplicate_key" || p.code === "unknown_key")) return;
    assert.deepEqual(problems, []);
    assert.deepEqual(plain(root), expected);
  };
  fc.assert(fc.property(fc.json({ maxDepth: 5 }), same), { numRuns: 500 });
  const jsonPiece = fc.constantFrom(...'{ } [ ] , : 1 -1.5e3 "a" "b\\n" true null " \\ 0'.split(" "), " ");
  fc.assert(
    fc.property(
      fc.array(jsonPiece, { maxLength: 12 }).map((p) => p.join("")),
      same,
    ),
    { numRuns: 2_000 },
  );
});

function plain(root: Node | undefined): unknown {
  return root === undefined ? undefined : JSON.parse(JSON.stringify(toValue(root)));
}

const graphs = fc
  .array(fc.array(fc.nat(11), { maxLength: 3 }), { minLength: 1, maxLength: 12 })
  .map((needs) => needs.map((list, i) => ({ id: `t${i}`, depends_on: list.map((n) => `t${n}`) })));

test("S4: a task's wave comes after those of all it waits for; what has no wave hangs on a cycle", () => {
  let cyclic = 0;
  fc.assert(
    fc.property(graphs, (tasks) => {
      const graph = buildGraph(tasks);
      graph.wave.forEach((wave, i) => {
        const before = (graph.needs[i] ?? []).map((n) => graph.wave[n] ?? -1);
        if (wave >= 0) assert.equal(wave, Math.max(-1, ...before) + 1);
        else assert.ok(before.includes(-1));
      });
      const cycles = findCycles(graph);
      assert.equal(cycles.length > 0, graph.wave.includes(-1));
      cyclic += cycles.length > 0 ? 1 : 0;
      for (const cycle of cycles) {
        assert.equal(cycle[0], cycle.at(-1));
        for (const [k, i] of cycle.slice(0, -1).entries())
          assert.ok(graph.needs[i]?.includes(cycle[k + 1] ?? -1));
      }
    }),
    { numRuns: 1_000 },
  );
  assert.ok(cyclic > 50);
});

test("S4: two tasks may run together exactly when neither reaches the other", () => {
  fc.assert(
    fc.property(graphs, (tasks) => {
      const graph = buildGraph(
        tasks.map((t, i) => ({ ...t, depends_on: t.depends_on.filter((d) => Number(d.slice(1)) < i) })),
      );
      const reach = (from: number): Set<number> => {
        const seen = new Set<number>();
        const open = [from];
        for (let i = open.pop(); i !== undefined; i = open.pop())
          for (const need of graph.needs[i] ?? []) if (!seen.has(need)) open.push(need) && seen.add(need);
        return seen;
      };
      const pairs = new Set([...unorderedPairs(graph)].map((p) => p.join()));
      for (let i = 0; i < tasks.length; i += 1)
        for (let j = i + 1; j < tasks.length; j += 1)
          assert.equal(pairs.has(`${i},${j}`), !reach(i).has(j) && !reach(j).has(i));
    }),
    { numRuns: 500 },
  );
});
