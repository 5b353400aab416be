// Needs a file outside its scope: asks for it, and leaves without a result until it is granted.

import { call, contextText, write } from "./kit.mjs";

const page = "busbar-demo/docs/wrap.md";
const { granted } = call("request_files", {
  paths: [page],
  reason: "the command line needs a page that describes it",
});
if (!granted.includes(page)) {
  console.log(`waiting for ${page}`);
  process.exit(0);
}
console.log(`${contextText().length} characters of context, ${page} is granted`);
write(
  "busbar-demo/src/wrap-cli.mjs",
  `import { readFileSync } from "node:fs";
import { wrap } from "./wrap.mjs";

process.stdout.write(\`\${wrap(readFileSync(0, "utf8"), Number(process.argv[2] ?? 80))}\\n\`);
`,
);
write(
  page,
  "# wrap\n\n`node src/wrap-cli.mjs 60 < text` breaks lines at 60 characters ([source](../src/wrap-cli.mjs)).\n",
);
