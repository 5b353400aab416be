// Issue 5.5: a gate that answers from what is on record says the same about every tree as one that runs every check, and
// no pass stands for a tree whose input is another.

import assert from "node:assert/strict";
import { test } from "node:test";
import fc from "fast-check";
import { ProvenInputs } from "../../bus/state/proven-inputs.ts";
import { isSample, toRun, treeName, verdictKey } from "../../scheduler/verdict-key.ts";
import type { JournalRecord } from "../../schemas/events.ts";
import { compilePathSet } from "../../schemas/globs.ts";
import type { Verdict } from "../../schemas/verdict.ts";

const NAMES = ["a", "b", "c"];
const AT = "2026-01-02T03:04:05.000Z";

interface Check {
  /** Declared; undefined: nothing is. */
  inputs: string[] | undefined;
  /** Red where one of its files has one of these contents. */
  bad: number;
  /** Red where the checks before it did not run in the place. */
  needsOthers: boolean;
}

const check: fc.Arbitrary<Check> = fc.record({
  inputs: fc.option(fc.uniqueArray(fc.constantFrom(...NAMES), { minLength: 1 }), { nil: undefined }),
  bad: fc.integer({ min: 0, max: 3 }),
  needsOthers: fc.boolean(),
});
const tree = fc.array(fc.integer({ min: 0, max: 3 }), { minLength: 3, maxLength: 3 });

type Tree = { path: string; mode: string; oid: string }[];
const treeOf = (contents: number[]): Tree =>
  NAMES.map((path, i) => ({ path, mode: "100644", oid: String(contents[i]).repeat(40) }));

function filesFor({ inputs }: Check, files: Tree): Tree {
  const { matches } = compilePathSet(inputs ?? ["**"]);
  return files.filter(({ path }) => matches(path));
}

function isGreen(one: Check, files: Tree, ranBefore: boolean): boolean {
  return (
    filesFor(one, files).every(({ oid }) => oid[0] !== String(one.bad)) && (ranBefore || !one.needsOthers)
  );
}

/** The record of a bus, as far as verdicts go. */
class Bus {
  #tell: (record: JournalRecord) => void = () => {};
  #n = 0;
  readonly proven = new ProvenInputs({
    view: { runs: () => [] } as never,
    onRecord: (fn) => {
      this.#tell = fn;
      return () => {};
    },
  });
  record(verdict: Verdict): void {
    this.#n += 1;
    const event = { type: "task.verdict", attempt: 1, verdict } as const;
    this.#tell({
      v: 1,
      seq: this.#n,
      ts: AT,
      kind: "event",
      actor: "x",
      run: "r",
      task: "t",
      attempt: 1,
      event,
    });
  }
}

/** As gate-runner.ts and verdict-cache.ts go about it. */
function cachedGate(bus: Bus, checks: Check[], files: Tree, seen: Map<string, Tree>): boolean {
  const keys = checks.map((one, i) =>
    verdictKey({
      inputs: one.inputs,
      setup: [],
      whole: treeName(files),
      files: () => files,
      job: i,
      sandbox: "off",
      machine: [],
    }),
  ) as string[];
  const found = new Map(bus.proven.find(keys, Date.parse(AT)).map((one) => [one.key, one]));
  const stands = keys.map((key) => {
    const one = found.get(key);
    return one && !isSample(key, one.uses) ? one.earlier : undefined;
  });
  const runs = toRun(
    checks.map(({ inputs }, i) => ({ inputs: inputs !== undefined, known: stands[i] !== undefined })),
  );
  const base = {
    tier: "deep",
    exit: 0,
    duration_ms: 1,
    command: "x",
    summary: "",
    at: AT,
    tree: treeName(files).slice(0, 40),
  } as const;
  for (const [i, one] of checks.entries()) {
    const earlier = stands[i];
    if (runs[i] || !earlier) continue;
    // Nothing stands for a tree whose input differs.
    assert.deepEqual(filesFor(one, seen.get(earlier.tree) as Tree), filesFor(one, files));
    bus.record({ ...base, check: String(i), verdict: "pass", key: keys[i] as string, cached: earlier });
  }
  const pass = (which: boolean[]) =>
    checks.every((one, i) => {
      if (!which[i]) return true;
      const green = isGreen(
        one,
        files,
        which.slice(0, i).every((ran) => ran),
      );
      bus.record({ ...base, check: String(i), verdict: green ? "pass" : "fail", key: keys[i] as string });
      return green;
    });
  if (pass(runs)) return true;
  return runs.every((one) => one) ? false : pass(checks.map(() => true));
}

test("issue 5.5: with the record a gate says of every tree what it says without", () => {
  fc.assert(
    fc.property(
      fc.array(check, { minLength: 1, maxLength: 4 }),
      fc.array(tree, { minLength: 1, maxLength: 12 }),
      (checks, trees) => {
        const bus = new Bus();
        const seen = new Map<string, Tree>();
        for (const contents of trees) {
          const files = treeOf(contents);
          seen.set(treeName(files).slice(0, 40), files);
          const plain = checks.every((one) => isGreen(one, files, true));
          assert.equal(cachedGate(bus, checks, files, seen), plain);
        }
      },
    ),
    { numRuns: 400 },
  );
});
