// Middle check: what the pages of the demo link to is there.

import { existsSync, readdirSync, readFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";

const docs = join(dirname(dirname(fileURLToPath(import.meta.url))), "docs");
let red = 0;
for (const page of existsSync(docs) ? readdirSync(docs) : []) {
  for (const [, target] of readFileSync(join(docs, page), "utf8").matchAll(/\]\(([^):]+)\)/g)) {
    if (existsSync(join(docs, target))) continue;
    console.error(`docs/${page} links to ${target}, which is not there`);
    red += 1;
  }
}
process.exitCode = red > 0 ? 1 : 0;
