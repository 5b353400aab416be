// One hash over everything that the build reads. `dist/.stamp` holds it; equal means nothing to build.

import { createHash } from "node:crypto";
import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";

const FOLDERS = ["bus", "shim", "scheduler", "schemas"];
const FILES = [
  "package.json",
  "package-lock.json",
  "tsconfig.json",
  "tsconfig.build.json",
  "scripts/build.mjs",
];

/** Paths of all TypeScript sources below `folder`, sorted, from `root`. */
function sources(root, folder) {
  const found = [];
  for (const entry of readdirSync(join(root, folder), { withFileTypes: true, recursive: true }))
    if (entry.isFile() && entry.name.endsWith(".ts"))
      found.push(join(entry.parentPath ?? entry.path, entry.name));
  return found.sort();
}

/** Hex SHA-256 over names and contents of what the build reads. */
export function sourceHash(root) {
  const hash = createHash("sha256");
  const files = [...FILES.map((f) => join(root, f)), ...FOLDERS.flatMap((f) => sources(root, f))];
  for (const file of files) {
    const content = readFileSync(file);
    hash.update(`${file.slice(root.length)}\0${content.length}\0`).update(content);
  }
  return hash.digest("hex");
}
