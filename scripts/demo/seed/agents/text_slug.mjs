import { write } from "./kit.mjs";

write(
  "busbar-demo/src/slug.mjs",
  `/** "Hello, World" -> "hello-world". */
export function slugify(text) {
  return text.normalize("NFKD").replace(/[\\u0300-\\u036f]/g, "").toLowerCase().replace(/[^a-z0-9]+/g, "-").replace(/^-|-$/g, "");
}
`,
);
write(
  "busbar-demo/test/slug.test.mjs",
  `import assert from "node:assert/strict";
import { test } from "node:test";
import { slugify } from "../src/slug.mjs";

test("letters and digits stay, the rest becomes one dash", () => {
  assert.equal(slugify("Hello, World 2"), "hello-world-2");
  assert.equal(slugify("  Crème brûlée! "), "creme-brulee");
});
`,
);
