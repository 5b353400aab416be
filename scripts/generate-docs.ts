// Writes the tables of the documents from the code that is the truth: methods, errors and limits into PROTOCOL.md, the
// verbs of busctl into README.md, what a sandbox is for into SECURITY.md. Only what stands between `<!-- NAME:begin -->` and `<!-- NAME:end -->` is replaced.
//
//   tsx scripts/generate-docs.ts           writes
//   tsx scripts/generate-docs.ts --check   exit 1 when a document is stale

import { readFileSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import { withTables } from "./docs/tables.ts";

const root = dirname(dirname(fileURLToPath(import.meta.url)));
for (const name of ["PROTOCOL.md", "README.md", "SECURITY.md"]) {
  const before = readFileSync(join(root, name), "utf8");
  const after = withTables(name, before);
  if (before === after) continue;
  if (process.argv.includes("--check")) {
    console.log(`${name} is stale: run \`npx tsx scripts/generate-docs.ts\``);
    process.exitCode = 1;
  } else writeFileSync(join(root, name), after);
}
