// Writes the tables of PROTOCOL.md from the code that is the truth: methods from schemas/methods.ts, errors from
// schemas/errors.ts. Only what stands between `<!-- NAME:begin -->` and `<!-- NAME:end -->` is replaced.
//
//   tsx scripts/generate-protocol.ts           writes
//   tsx scripts/generate-protocol.ts --check   exit 1 when the file is stale

import { readFileSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import { withTables } from "./protocol/tables.ts";

const path = join(dirname(dirname(fileURLToPath(import.meta.url))), "PROTOCOL.md");
const before = readFileSync(path, "utf8");
const after = withTables(before);
if (process.argv.includes("--check")) {
  if (before !== after) {
    console.log("PROTOCOL.md is stale: run `npx tsx scripts/generate-protocol.ts`");
    process.exitCode = 1;
  }
} else if (before !== after) writeFileSync(path, after);
