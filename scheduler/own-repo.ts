// A small repository of its own for a workspace, a clean place or a submodule in them: written by hand (a git
// directory is a few files), so that no template, hook or setting of anybody gets in, and no process is
// started. Objects are borrowed: `objects/info/alternates` names the stores to read from.

import { existsSync, mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { dirname, isAbsolute, join, resolve } from "node:path";
import { faultPoint } from "../schemas/fault-points.ts";
import { copyShallow } from "./control.ts";

export interface Identity {
  name: string;
  email: string;
}

/** Who an agent's own commits in its workspace are by. */
export const AGENT_IDENTITY: Identity = { name: "busbar agent", email: "agent@busbar.invalid" };

export interface OwnRepo {
  gitDir: string;
  objectFormat: "sha1" | "sha256";
  /** Git directory whose objects are borrowed. */
  from: string;
  commit: string;
  /** Without: HEAD is detached. */
  branch?: string;
  sparse?: boolean;
  excludes: string;
}

export function writeOwnRepo(repo: OwnRepo): void {
  const at = (...parts: string[]) => join(repo.gitDir, ...parts);
  for (const dir of ["objects/info", "objects/pack", "refs/heads", "refs/tags", "info"]) {
    faultPoint("scheduler.own-repo.before-make-directory");
    mkdirSync(at(dir), { recursive: true });
  }
  faultPoint("scheduler.own-repo.before-config");
  writeFileSync(at("config"), ownConfig(repo));
  faultPoint("scheduler.own-repo.before-excludes");
  writeFileSync(at("info", "exclude"), repo.excludes);
  faultPoint("scheduler.own-repo.before-alternates");
  writeFileSync(at("objects", "info", "alternates"), alternatesFile(repo.from));
  copyShallow(repo.from, repo.gitDir);
  if (repo.branch === undefined) {
    faultPoint("scheduler.own-repo.before-detached-head");
    writeFileSync(at("HEAD"), `${repo.commit}\n`);
    return;
  }
  const ref = at("refs", "heads", repo.branch);
  faultPoint("scheduler.own-repo.before-branch-directory");
  mkdirSync(dirname(ref), { recursive: true });
  faultPoint("scheduler.own-repo.before-branch");
  writeFileSync(ref, `${repo.commit}\n`);
  faultPoint("scheduler.own-repo.before-head");
  writeFileSync(at("HEAD"), `ref: refs/heads/${repo.branch}\n`);
}

/** Also what the configuration is compared with after the agent has ended. */
export function ownConfig(repo: Pick<OwnRepo, "objectFormat" | "sparse">): string {
  const sha256 = repo.objectFormat === "sha256";
  const lines = [
    "[core]",
    `\trepositoryformatversion = ${sha256 ? 1 : 0}`,
    "\tfilemode = true",
    "\tbare = false",
    "\tlogallrefupdates = true",
    ...(repo.sparse ? ["\tsparseCheckout = true"] : []),
    ...(sha256 ? ["[extensions]", "\tobjectFormat = sha256"] : []),
    "[user]",
    `\tname = ${AGENT_IDENTITY.name}`,
    `\temail = ${AGENT_IDENTITY.email}`,
    "[commit]",
    "\tgpgSign = false",
    "[gc]",
    "\tauto = 0",
    // Populated by us: git in the place must not take them for uninitialised.
    "[submodule]",
    "\tactive = .",
    "[maintenance]",
    "\tauto = false",
  ];
  return `${lines.join("\n")}\n`;
}

/** The text of objects/info/alternates for a repository that borrows from the git directory `from`. */
export function alternatesFile(from: string): string {
  return objectStores(from).map(quoteLine).join("");
}

/** The object stores that a repository with this git directory reads from. */
export function objectStores(gitDir: string): string[] {
  return alternatesOf(join(gitDir, "objects"));
}

/** An object store and those that it borrows from, absolute: git follows relative ones at the first level only. */
function alternatesOf(objectDir: string, depth = 0): string[] {
  const list = join(objectDir, "info", "alternates");
  if (depth > 5 || !existsSync(list)) return [objectDir];
  const lines = readFileSync(list, "utf8").split("\n");
  const further = lines
    .filter((line) => line !== "" && !line.startsWith("#"))
    .map((line) => (line.startsWith('"') ? unquote(line) : line))
    .map((line) => (isAbsolute(line) ? line : resolve(objectDir, line)))
    .flatMap((dir) => alternatesOf(dir, depth + 1));
  return [...new Set([objectDir, ...further])];
}

function unquote(line: string): string {
  return line.slice(1, line.lastIndexOf('"')).replace(/\\(["\\])/g, "$1");
}

function quoteLine(dir: string): string {
  return /^["#]|[\n\\]/.test(dir) ? `"${dir.replace(/["\\]/g, "\\$&").replace(/\n/g, "\\n")}"\n` : `${dir}\n`;
}
