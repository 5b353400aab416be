import { write } from "./kit.mjs";

write(
  "busbar-demo/src/count.mjs",
  `/** Number of words in \`text\`. */
export function countWords(text) {
  return text.split(/\\s+/).filter(Boolean).length;
}
`,
);
write(
  "busbar-demo/test/count.test.mjs",
  `import assert from "node:assert/strict";
import { test } from "node:test";
import { countWords } from "../src/count.mjs";

test("words are what white space divides", () => {
  assert.equal(countWords(" one  two\\nthree "), 3);
  assert.equal(countWords(""), 0);
});
`,
);
