// Reads the real repository: counts its files by folder and by kind.

import { execFileSync } from "node:child_process";
import { extname } from "node:path";
import { write } from "./kit.mjs";

const files = execFileSync("git", ["ls-files", "-z"], { encoding: "utf8", maxBuffer: 256 * 1024 * 1024 })
  .split("\0")
  .filter((file) => file !== "" && !file.startsWith("busbar-demo/"));

function table(title, keyOf) {
  const counts = new Map();
  for (const file of files) counts.set(keyOf(file), (counts.get(keyOf(file)) ?? 0) + 1);
  const rows = [...counts].sort(([, a], [, b]) => b - a).slice(0, 20);
  return `## ${title}\n\n| | files |\n|---|---|\n${rows.map(([key, n]) => `| ${key} | ${n} |`).join("\n")}\n`;
}

const byFolder = table("By folder", (file) =>
  file.includes("/") ? file.slice(0, file.indexOf("/")) : "(top)",
);
const byKind = table("By kind", (file) => extname(file) || "(none)");
write("busbar-demo/docs/FILES.md", `# ${files.length} files\n\n${byFolder}\n${byKind}`);
