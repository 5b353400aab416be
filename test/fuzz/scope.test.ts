// Properties of the scope decision: nothing outside the rules passes, and what passes is what capture takes.

import assert from "node:assert/strict";
import { posix } from "node:path";
import { test } from "node:test";
import fc from "fast-check";
import { linkFault } from "../../bus/git/names.ts";
import { inScope, scopeFaults } from "../../scheduler/scope.ts";
import { compilePathSet } from "../../schemas/globs.ts";

const part = fc.constantFrom("a", "b", ".env", "x.ts", "[s]", "A", "src");
const path = fc.array(part, { minLength: 1, maxLength: 4 }).map((parts) => parts.join("/"));
const pattern = fc
  .array(fc.oneof(part, fc.constantFrom("*", "**", "*.ts")), { minLength: 1, maxLength: 3 })
  .map((p) => p.join("/"));
const patterns = fc.array(pattern, { minLength: 1, maxLength: 3 });

test("a path has a fault exactly when it may not be in the commit", () => {
  fc.assert(
    fc.property(path, patterns, patterns, patterns, (p, allow, forbid, contract) => {
      const sets = {
        allowed: compilePathSet(allow),
        forbidden: compilePathSet(forbid),
        contracts: compilePathSet(contract),
      };
      const outside = [{ path: p, kind: "modified" as const }];
      const faults = scopeFaults({ ...sets, changed: [], outside, refused: [], twins: [], submodules: [] });
      assert.equal(faults.length === 0, inScope(sets)(p));
      assert.ok(faults.every((fault) => fault.path === p && fault.why.includes(p)));
      if (sets.forbidden.matches(p)) assert.match(faults[0]?.rule ?? "", /^forbidden_files/);
    }),
  );
});

test("a link without a fault stays inside, read as a file system reads it", () => {
  const step = fc.constantFrom("..", ".", "", "a", "b", "src");
  fc.assert(
    fc.property(path, fc.array(step, { minLength: 1, maxLength: 6 }), (p, steps) => {
      const target = steps.join("/");
      if (linkFault(p, target) !== undefined) return;
      const resolved = posix.resolve("/top/tree", posix.dirname(p), target);
      assert.ok(`${resolved}/`.startsWith("/top/tree/"), `${p} -> ${target} = ${resolved}`);
    }),
  );
});
