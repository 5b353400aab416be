// Alters a real file of the repository.

import { existsSync, readFileSync } from "node:fs";
import { write } from "./kit.mjs";

const before = existsSync("README.md") ? readFileSync("README.md", "utf8").trimEnd() : "# Read me";
write("README.md", `${before}\n\n## Files\n\nSee [how many there are](busbar-demo/docs/FILES.md).\n`);
