// Renames slugify to toSlug everywhere it is used now. If the evidence says that somebody else has begun to use the old
// name meanwhile, the old name stays as well.

import { readFileSync } from "node:fs";
import { contextText, write } from "./kit.mjs";

const stillUsed = /export named 'slugify'/.test(contextText());
for (const path of ["busbar-demo/src/slug.mjs", "busbar-demo/test/slug.test.mjs"]) {
  const text = readFileSync(path, "utf8").replaceAll("slugify", "toSlug");
  const alias =
    stillUsed && path.includes("/src/")
      ? "\n/** The old name, for those that use it still. */\nexport { toSlug as slugify };\n"
      : "";
  write(path, text + alias);
}
