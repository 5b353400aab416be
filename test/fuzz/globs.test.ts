// Properties of path sets: a name matches itself, two sets that share a path may overlap, the time is bounded.

import assert from "node:assert/strict";
import { test } from "node:test";
import fc from "fast-check";
import { compilePathSet, globFault, mayOverlap } from "../../schemas/globs.ts";

const nameChar = fc.constantFrom(..."abAB.[](){}+!@|,-_ é$^*?#");
const name = fc.string({ unit: nameChar, minLength: 1, maxLength: 6 }).filter((s) => s !== "." && s !== "..");
const path = fc.array(name, { minLength: 1, maxLength: 4 }).map((parts) => parts.join("/"));

const signs = fc.constantFrom("a", "b", ".", "*", "?", "ab", "**");
const part = fc.oneof(
  fc.constant("**"),
  fc.array(signs, { minLength: 1, maxLength: 4 }).map((s) => s.join("")),
);
const pattern = fc.array(part, { minLength: 1, maxLength: 4 }).map((parts) => parts.join("/"));
const plainName = fc.string({ unit: fc.constantFrom("a", "b", "."), minLength: 1, maxLength: 4 });
const plainPath = fc.array(plainName, { minLength: 1, maxLength: 4 }).map((parts) => parts.join("/"));
const sound = (s: string): boolean => !s.split("/").some((p) => p === "." || p === "..");

test("case 42 glob-table: a path matches itself, whatever signs are in it", () => {
  fc.assert(
    fc.property(path, (p) => {
      const written = p.startsWith("!") ? `./${p}` : p;
      fc.pre(globFault(written) === undefined); // `a/{..,b}`, `{,}`
      assert.ok(compilePathSet([written]).matches(p));
    }),
    { numRuns: 2_000 },
  );
});

test("S4: two sets that both match a path are never said to be apart", () => {
  let met = 0;
  fc.assert(
    fc.property(pattern, pattern, plainPath.filter(sound), (a, b, p) => {
      fc.pre(globFault(a) === undefined && globFault(b) === undefined);
      if (!compilePathSet([a]).matches(p) || !compilePathSet([b]).matches(p)) return;
      met += 1;
      assert.ok(mayOverlap([a], [b]), `${a} and ${b} share ${p}`);
      assert.ok(mayOverlap([a], [p]));
    }),
    { numRuns: 5_000 },
  );
  assert.ok(met > 50, `only ${met} pairs met: the property says nothing`);
});

/** The textbook translation into a regular expression: right, and slow on purpose-made input. */
function textbook(glob: string): RegExp {
  const parts = glob.split("/");
  const body = parts.map((p, i) => {
    const last = i === parts.length - 1;
    if (/^\*{2,}$/.test(p)) return last ? "(?:[^/]+/)*[^/]+" : "(?:[^/]+/)*";
    const text = p
      .replace(/[.+^$()[\]{}|\\]/g, "\\$&")
      .replace(/\*+/g, "[^/]*")
      .replace(/\?/g, "[^/]");
    if (!last) return `${text}/`;
    return /[*?]/.test(p) ? text : `${text}(?:/.*)?`;
  });
  return new RegExp(`^${body.join("")}$`, "u");
}

test("G1: the matcher agrees with the textbook translation into a regular expression", () => {
  let matched = 0;
  fc.assert(
    fc.property(pattern, plainPath.filter(sound), (glob, p) => {
      fc.pre(globFault(glob) === undefined && sound(glob));
      const expected = textbook(glob).test(p);
      matched += expected ? 1 : 0;
      assert.equal(compilePathSet([glob]).matches(p), expected, `${glob} on ${p}`);
    }),
    { numRuns: 5_000 },
  );
  assert.ok(matched > 50, `only ${matched} matched: the comparison says nothing`);
});

test("G1: no pattern is slow: stars, braces and depth against long names", () => {
  const name = "a".repeat(250);
  const long = Array.from({ length: 15 }, () => name).join("/");
  const hard = [
    `**/${"*a".repeat(120)}b`,
    `${"**/*a/".repeat(300)}b`,
    `${"a*".repeat(2_000)}b`,
    `${"{a,b}".repeat(8)}/**/*x*y*z`,
    `${"{".repeat(2_000)}a,b${"}".repeat(2_000)}`,
    "{,".repeat(1_000),
  ];
  const start = performance.now();
  for (const p of hard) {
    if (globFault(p) !== undefined) continue;
    compilePathSet([p]).matches(long);
    for (const q of hard) mayOverlap([p], [q]);
  }
  const took = performance.now() - start;
  assert.ok(took < 30_000, `took ${Math.round(took)} ms`);
});

test("G1: a set of ten thousand names answers by look-up", () => {
  const set = compilePathSet(Array.from({ length: 10_000 }, (_, i) => `dir${i}/file.ts`));
  const start = performance.now();
  for (let i = 0; i < 10_000; i += 1) assert.ok(set.matches(`dir${i}/file.ts`));
  assert.ok(performance.now() - start < 20_000);
});
