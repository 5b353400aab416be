// What holds git up in a working tree that an agent or a check could write. Git opens its own files (.gitignore,
// .gitattributes, what a repository below consists of) without asking first what they are: a named pipe there holds it
// until somebody writes into it, which nobody will, and rules of terabytes are read whole.
//
// Such a thing is moved out of the tree, never removed: to `<beside the tree>/set-aside/<walk>/<path in the tree>`. That
// place is also the record: a scheduler that takes over finds there what was moved, and capture tells it.
// Rule files that are links are followed by no git; below a repository of an agent's they are.

import type { Dirent, Stats } from "node:fs";
import { constants } from "node:fs";
import { lstat, mkdir, mkdtemp, open, readdir, rename, stat } from "node:fs/promises";
import { dirname, join, resolve } from "node:path";
import { faultPoint } from "../schemas/fault-points.ts";
import { kindOf, nameIn } from "./on-disk.ts";
import { clearWay } from "./open-tree.ts";

export interface Snare {
  /** Bytes as latin1, from the top of the tree. */
  name: string;
  what: string;
}

/** What git opens in each directory that it visits. */
const RULE_FILES: ReadonlySet<string> = new Set([".gitignore", ".gitattributes"]);
/** Later versions of git leave larger ones unread; 2.39 takes memory for all of it. */
const MAX_RULES_BYTES = 100 * 1024 * 1024;
/** What git opens of a repository that a file `.git` names. */
const REPOSITORY_FILES = ["HEAD", "commondir"];
const MAX_GITFILE_BYTES = 8192;
/** Beside the tree: what was moved out of it, a directory for each walk. */
export const ASIDE = "set-aside";

const asideOf = (root: string): string => join(dirname(root), ASIDE);

/** How many walks have moved something out of the tree. Who began at another number may have begun over a snare. */
export async function movedAside(root: string): Promise<number> {
  return (await entriesOf(asideOf(root), "")).length;
}

/** Moves the snares of a tree aside; true when there was one. */
export async function setAside(root: string): Promise<boolean> {
  const snares = await snaresIn(root);
  if (snares.length === 0) return false;
  const aside = asideOf(root);
  await clearWay(aside, "directory");
  faultPoint("scheduler.snare.before-make");
  await mkdir(aside, { recursive: true, mode: 0o700 });
  faultPoint("scheduler.snare.before-make-walk");
  const walk = await mkdtemp(join(aside, "walk-"));
  for (const name of snares) {
    const to = nameIn(walk, name);
    faultPoint("scheduler.snare.before-make-parents");
    await mkdir(to.subarray(0, to.lastIndexOf("/")), { recursive: true, mode: 0o700 });
    faultPoint("scheduler.snare.before-move");
    await rename(nameIn(root, name), to).catch(unlessGone);
  }
  return true;
}

/** Another walk was faster, or the agent took it back. */
function unlessGone(error: NodeJS.ErrnoException): void {
  if (error.code !== "ENOENT") throw error;
}

/** What lies aside and has nothing in its place now, in order of name. */
export async function snaresAside(root: string): Promise<Snare[]> {
  const found = new Map<string, Snare>();
  for (const walk of await entriesOf(asideOf(root), "")) {
    const top = join(asideOf(root), text(walk));
    for await (const { name, entry } of below(top)) {
      if (entry.isDirectory() || (await lstatOrNull(nameIn(root, name)))) continue;
      const stats = await lstatOrNull(nameIn(top, name));
      if (stats) found.set(name, { name, what: inWords(name, stats) });
    }
  }
  return [...found.values()].sort((a, b) => (a.name < b.name ? -1 : 1));
}

function inWords(name: string, stats: Stats): string {
  if (stats.isSymbolicLink()) return "a link to what holds git up";
  if (!stats.isFile()) return kindOf(stats);
  return lastOf(name) === ".git"
    ? "the name of a repository that holds git up"
    : `a file of ${stats.size} bytes, too large for git to take rules from`;
}

async function snaresIn(root: string): Promise<string[]> {
  const found: string[] = [];
  for await (const { name, entry } of below(root)) {
    if (entry.isDirectory()) continue;
    const part = lastOf(name);
    if (/(^|\/)\.git\//.test(name)) {
      if (await leadsNowhere(nameIn(root, name), entry)) found.push(name);
    } else if (RULE_FILES.has(part)) {
      if (await isBadRuleFile(nameIn(root, name), entry)) found.push(name);
    } else if (part === ".git" && entry.isFile()) {
      if (await namesBadRepository(root, name)) found.push(name);
    }
  }
  return found;
}

async function isBadRuleFile(path: Buffer, entry: Dirent): Promise<boolean> {
  if (entry.isSymbolicLink()) return false;
  if (!entry.isFile()) return true;
  const stats = await lstatOrNull(path);
  return stats !== null && stats.size > MAX_RULES_BYTES;
}

/** In a repository below: git follows links there. */
async function leadsNowhere(path: Buffer, entry: Dirent): Promise<boolean> {
  if (!entry.isSymbolicLink()) return !entry.isFile();
  const stats = await stat(path).catch(() => null);
  return stats !== null && !stats.isFile() && !stats.isDirectory();
}

/** A file `.git` with `gitdir: <path>`. */
async function namesBadRepository(root: string, name: string): Promise<boolean> {
  const target = /^gitdir: (.*?)\n*$/s.exec(await firstBytes(nameIn(root, name)))?.[1];
  if (target === undefined) return false;
  const dir = resolve(root, dirname(name), target);
  for (const file of REPOSITORY_FILES) {
    const stats = await stat(join(dir, file)).catch(() => null);
    if (stats !== null && !stats.isFile() && !stats.isDirectory()) return true;
  }
  return false;
}

async function firstBytes(path: Buffer): Promise<string> {
  const file = await open(path, constants.O_RDONLY | constants.O_NOFOLLOW | constants.O_NONBLOCK);
  try {
    const { buffer, bytesRead } = await file.read(Buffer.alloc(MAX_GITFILE_BYTES), 0, MAX_GITFILE_BYTES, 0);
    return buffer.toString("utf8", 0, bytesRead);
  } finally {
    await file.close();
  }
}

/** All that lies below `top`, but for its own `.git` (our git is never told of it) and for objects of repositories. */
async function* below(top: string): AsyncGenerator<{ name: string; entry: Dirent }> {
  const left = [""];
  for (let dir = left.pop(); dir !== undefined; dir = left.pop())
    for (const entry of await entriesOf(top, dir)) {
      const name = dir === "" ? text(entry) : `${dir}/${text(entry)}`;
      if (name === ".git" || name.endsWith("/.git/objects")) continue;
      if (entry.isDirectory()) left.push(name);
      yield { name, entry };
    }
}

/** Of a directory that cannot be read, nothing: git cannot read it either. */
async function entriesOf(top: string, dir: string): Promise<Dirent[]> {
  const path = dir === "" ? Buffer.from(top) : nameIn(top, dir);
  return (await readdir(path, { withFileTypes: true, encoding: "buffer" }).catch(
    () => [],
  )) as unknown as Dirent[];
}

/** A name of bytes as latin1. */
const text = (entry: Dirent): string => (entry.name as unknown as Buffer).toString("latin1");
const lastOf = (name: string): string => name.slice(name.lastIndexOf("/") + 1);
const lstatOrNull = (path: Buffer): Promise<Stats | null> => lstat(path).catch(() => null);
