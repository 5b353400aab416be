// Deep check: runs test/NAME.test.mjs and accept/NAME.mjs of every module in src/ (or of those named).
// A module named here that has neither is an error: no test is no proof.

import { spawnSync } from "node:child_process";
import { existsSync, readdirSync } from "node:fs";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";

const top = dirname(dirname(fileURLToPath(import.meta.url)));
const named = process.argv.slice(2);
const all = readdirSync(join(top, "src")).map((file) => file.replace(/\.mjs$/, ""));
const files = (named.length > 0 ? named : all)
  .flatMap((name) => [join("test", `${name}.test.mjs`), join("accept", `${name}.mjs`)])
  .filter((file) => existsSync(join(top, file)));

if (named.length > 0 && files.length === 0) {
  console.error(`no test for ${named.join(", ")}`);
  process.exitCode = 1;
} else if (files.length > 0) {
  const { status } = spawnSync(process.execPath, ["--test", ...files], { cwd: top, stdio: "inherit" });
  process.exitCode = status ?? 1;
}
