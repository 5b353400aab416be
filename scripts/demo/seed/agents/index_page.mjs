// Builds on everything that landed before it.

import { readdirSync, readFileSync } from "node:fs";
import { write } from "./kit.mjs";

const modules = readdirSync("busbar-demo/src").filter(
  (file) => file.endsWith(".mjs") && !/^(index|wrap-cli)\./.test(file),
);
const pages = readdirSync("busbar-demo/docs").filter((file) => file !== "INDEX.md");
const names = (file) =>
  [...readFileSync(`busbar-demo/src/${file}`, "utf8").matchAll(/^export (?:function|const) (\w+)/gm)].map(
    (m) => m[1],
  );

write(
  "busbar-demo/docs/INDEX.md",
  `# Index\n\n${modules.map((file) => `- [${file}](../src/${file}): ${names(file).join(", ")}`).join("\n")}\n\n${pages.map((file) => `- [${file}](${file})`).join("\n")}\n`,
);
write("busbar-demo/src/index.mjs", modules.map((file) => `export * from "./${file}";\n`).join(""));
