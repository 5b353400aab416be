// Checks what compilers and linters do not: arrows, cycles, homes of packages, sizes, test folders, words, documents.
//
//   tsx scripts/check-tree.ts [ROOT]     one line per fault: FILE:LINE: RULE: MESSAGE; exit 1 if there is one

import { dirname } from "node:path";
import { fileURLToPath } from "node:url";
import { checkTree, measure } from "./tree/check.ts";
import { readTree } from "./tree/source.ts";

const root = process.argv[2] ?? dirname(dirname(fileURLToPath(import.meta.url)));
const tree = readTree(root);
const faults = checkTree(tree);
for (const { file, line, rule, message } of faults) console.log(`${file}:${line}: ${rule}: ${message}`);

const m = measure(tree);
console.log(
  `${m.files} files of the product: median ${m.fileMedian} lines, 90 % under ${m.fileP90}; ` +
    `${m.functions} functions: median ${m.functionMedian}, 90 % under ${m.functionP90}; ${faults.length} fault(s)`,
);
process.exitCode = faults.length > 0 ? 1 : 0;
