// Shallow check: every module of the demo parses.

import { spawnSync } from "node:child_process";
import { existsSync, readdirSync } from "node:fs";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";

const top = dirname(dirname(fileURLToPath(import.meta.url)));
let red = 0;
for (const folder of ["src", "test"]) {
  if (!existsSync(join(top, folder))) continue;
  for (const name of readdirSync(join(top, folder)).filter((file) => file.endsWith(".mjs"))) {
    const { status, stderr } = spawnSync(process.execPath, ["--check", join(top, folder, name)], {
      encoding: "utf8",
    });
    if (status === 0) continue;
    console.error(`${folder}/${name} does not parse:\n${stderr}`);
    red += 1;
  }
}
process.exitCode = red > 0 ? 1 : 0;
