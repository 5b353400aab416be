import { write } from "./kit.mjs";

write(
  "busbar-demo/src/wrap.mjs",
  `/** Breaks \`text\` between words so that no line is longer than \`width\` (a longer word stands alone). */
export function wrap(text, width) {
  const lines = [""];
  for (const word of text.split(/\\s+/).filter(Boolean)) {
    const last = lines.at(-1);
    if (last === "") lines[lines.length - 1] = word;
    else if (last.length + 1 + word.length <= width) lines[lines.length - 1] = \`\${last} \${word}\`;
    else lines.push(word);
  }
  return lines.join("\\n");
}
`,
);
write(
  "busbar-demo/test/wrap.test.mjs",
  `import assert from "node:assert/strict";
import { test } from "node:test";
import { wrap } from "../src/wrap.mjs";

test("lines break between words", () => {
  assert.equal(wrap("one two three", 7), "one two\\nthree");
  assert.equal(wrap("unbreakable x", 4), "unbreakable\\nx");
});
`,
);
