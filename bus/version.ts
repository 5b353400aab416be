// The version of this installation, from the package.json above the sources or above dist/.

import { readFileSync } from "node:fs";

export const VERSION = findVersion();

function findVersion(): string {
  for (const up of ["..", "../.."]) {
    try {
      const text = readFileSync(new URL(`${up}/package.json`, import.meta.url), "utf8");
      const { name, version } = JSON.parse(text) as { name?: string; version?: string };
      if (name === "busbar" && version) return version;
    } catch {
      // Not there; the next place up.
    }
  }
  return "0.0.0";
}
