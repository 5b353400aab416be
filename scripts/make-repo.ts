// Makes a git repository of N source-like files in a few hundred milliseconds (git fast-import), the same every time.
//
//   tsx scripts/make-repo.ts DIR [--files 5000] [--no-checkout]

import { spawnSync } from "node:child_process";
import { mkdirSync } from "node:fs";
import { resolve } from "node:path";
import { parseArgs } from "node:util";

export interface RepoOrder {
  dir: string;
  /** How many files; about 2 KB each, 20 in a folder, folders three deep. */
  files: number;
  /** Whether the files are put on the disk. Default: yes. */
  checkout?: boolean;
  /** Further files, by path. */
  extra?: ReadonlyMap<string, string>;
}

/** Nothing of the machine's configuration gets in. */
const ENV = {
  PATH: process.env.PATH ?? "/usr/bin:/bin",
  GIT_CONFIG_GLOBAL: "/dev/null",
  GIT_CONFIG_SYSTEM: "/dev/null",
  LC_ALL: "C",
};

/** Makes the repository; its branch is `main` with one commit, whose id is returned. */
export function makeRepo(order: RepoOrder): string {
  mkdirSync(order.dir, { recursive: true });
  git(order.dir, ["init", "-q", "-b", "main"]);
  git(order.dir, ["fast-import", "--quiet", "--done"], stream(order));
  if (order.checkout !== false) git(order.dir, ["reset", "-q", "--hard", "main"]);
  return git(order.dir, ["rev-parse", "main"]).trim();
}

function git(cwd: string, args: string[], input = ""): string {
  const result = spawnSync("git", args, {
    cwd,
    input,
    env: ENV,
    encoding: "utf8",
    maxBuffer: 64 * 1024 * 1024,
  });
  if (result.status !== 0) throw new Error(`git ${args[0]} in ${cwd}: ${result.stderr || result.error}`);
  return result.stdout;
}

function stream({ files, extra }: RepoOrder): string {
  const parts = [
    "commit refs/heads/main\ncommitter demo <demo@localhost> 1700000000 +0000\ndata 6\nFiles\n\n",
  ];
  const add = (path: string, text: string) =>
    parts.push(`M 100644 inline ${path}\ndata ${Buffer.byteLength(text)}\n${text}\n`);
  for (let i = 0; i < files; i++) add(pathOf(i), textOf(i));
  for (const [path, text] of extra ?? []) add(path, text);
  parts.push("\ndone\n");
  return parts.join("");
}

/** Path of file number `i`. */
export function pathOf(i: number): string {
  const folder = Math.floor(i / 20);
  return `src/part${folder % 10}/group${Math.floor(folder / 10)}/file${i}.ts`;
}

function textOf(i: number): string {
  const lines = [`// File ${i} of a repository made for measuring.`];
  for (let n = 0; n < 24 + (i % 16); n++)
    lines.push(
      `export function part${i}_${n}(input: number): number {\n  return input * ${i + n} + ${n};\n}`,
    );
  return `${lines.join("\n")}\n`;
}

function main(): void {
  const { values, positionals } = parseArgs({
    allowPositionals: true,
    options: {
      files: { type: "string", default: "5000" },
      "no-checkout": { type: "boolean", default: false },
    },
  });
  const [dir] = positionals;
  const files = Number(values.files);
  if (!dir || !Number.isSafeInteger(files) || files < 1) {
    console.error("usage: tsx scripts/make-repo.ts DIR [--files N] [--no-checkout]");
    process.exitCode = 2;
    return;
  }
  console.log(makeRepo({ dir: resolve(dir), files, checkout: !values["no-checkout"] }));
}

if (process.argv[1] && import.meta.url === new URL(`file://${resolve(process.argv[1])}`).href) main();
