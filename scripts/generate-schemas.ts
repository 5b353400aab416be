// Writes the published JSON Schemas from the definitions in schemas/: `tsx scripts/generate-schemas.ts`.
// With --check nothing is written; a file that is not what would be written is named, and the exit code is 1.

import { readFileSync, writeFileSync } from "node:fs";
import { fileURLToPath } from "node:url";
import { publishedSchemas } from "../schemas/plan/published.ts";

const FOLDER = fileURLToPath(new URL("../schemas/json/", import.meta.url));

function current(path: string): string | undefined {
  try {
    return readFileSync(path, "utf8");
  } catch {
    return undefined;
  }
}

const check = process.argv.includes("--check");
for (const [name, text] of publishedSchemas()) {
  const path = `${FOLDER}${name}`;
  if (current(path) === text) continue;
  if (check) {
    process.stderr.write(`schemas/json/${name} is stale: run npx tsx scripts/generate-schemas.ts\n`);
    process.exitCode = 1;
  } else {
    writeFileSync(path, text);
    process.stdout.write(`wrote schemas/json/${name}\n`);
  }
}
