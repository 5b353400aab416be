// Uses the slug module as it stands in its workspace. While it works, `renames_api` lands: the merged tree is red
// although both were green, and this task is sent back. The second try reads the evidence and uses the new name.

import { readFileSync } from "node:fs";
import { setTimeout as pause } from "node:timers/promises";
import { contextText, write } from "./kit.mjs";

const sentBack = /export named 'slugify'/.test(contextText());
const name = sentBack
  ? /export function (\w+)/.exec(readFileSync("busbar-demo/src/slug.mjs", "utf8"))[1]
  : "slugify";
// A real agent thinks for a while; the other task lands in this time.
if (!sentBack) await pause(4_000);
write(
  "busbar-demo/src/page.mjs",
  `import { PAGES } from "./settings.mjs";
import { ${name} } from "./slug.mjs";

/** Address of the page with that title. */
export function pagePath(title) {
  return \`\${PAGES}\${${name}(title)}.html\`;
}
`,
);
write(
  "busbar-demo/test/page.test.mjs",
  `import assert from "node:assert/strict";
import { test } from "node:test";
import { pagePath } from "../src/page.mjs";

test("the address is made of the title", () => {
  assert.equal(pagePath("On Time"), "/pages/on-time.html");
});
`,
);
