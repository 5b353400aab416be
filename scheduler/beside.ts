// What lies in a place beside its tree, and what of that has to go between two checks: a check runs the candidate's
// code, and a file that it lays beside the tests may be read by the next check and forge it (case 44).
//
// 1. Looked at is what the tree does not have, in our own index. Ignored files stay (a build is there for the tests), by
//    the rules of the tree and of the user only: they are read from a copy, since a check can lay a .gitignore anywhere.
// 2. Below a pattern of `protect` everything counts, ignored or not.
// 3. What set-up and `copy` put there is noted before the first check and stays; below `protect` as long as nobody touches it.
// 4. What stands where the tree has a file or directory goes in any case: git makes that anew.

import { lstat, mkdir, readdir, rmdir } from "node:fs/promises";
import { withScratch } from "../bus/git/scratch.ts";
import { pathText, showName, splitNul } from "../bus/git/tree.ts";
import { faultPoint } from "../schemas/fault-points.ts";
import { compilePathSet, globFault, mayOverlap, type PathSet } from "../schemas/globs.ts";
import { type Control, controlGit } from "./control.ts";
import { nameIn } from "./on-disk.ts";
import { openTree, removeAll } from "./open-tree.ts";
import { placeOptions } from "./place-git.ts";
import { type Foreign, foreignIn, type Listed } from "./sweep.ts";

export interface BesidePlace {
  /** Ours alone: scratch files go here. */
  dir: string;
  work: string;
  index: string;
}

/** Names (bytes as latin1, directories end with '/') with how they looked. */
export interface Beside {
  protect: readonly string[];
  seen: ReadonlyMap<string, string>;
}

/** What lies beside the tree now, and counts. */
export async function lookBeside(
  control: Control,
  place: BesidePlace,
  listed: Listed,
  protect: readonly string[],
): Promise<Beside> {
  return await besideOf(control, place, await foreignIn(place.work, listed), listed, protect);
}

/** Removes what lies beside the tree and was not there `before`. The tree's own files are not written. */
export async function clearBeside(
  control: Control,
  place: BesidePlace,
  listed: Listed,
  before: Beside,
): Promise<void> {
  const foreign = await foreignIn(place.work, listed);
  for (const { name } of foreign) if (isOfTree(listed, name)) await removeAll(nameIn(place.work, name));
  const { seen } = await besideOf(control, place, foreign, listed, before.protect);
  // What is in a directory before the directory itself.
  for (const name of [...seen.keys()].sort().reverse()) {
    if (before.seen.get(name) === seen.get(name)) continue;
    if (name.endsWith("/")) await removeEmpty(nameIn(place.work, name));
    else await removeAll(nameIn(place.work, name));
  }
}

async function besideOf(
  control: Control,
  place: BesidePlace,
  foreign: readonly Foreign[],
  listed: Listed,
  protect: readonly string[],
): Promise<Beside> {
  const guarded = compilePathSet(protect);
  const tops = foreign.filter(({ name }) => name !== ".git" && !isOfTree(listed, name));
  const names = await withScratch(place.dir, async (rules) => {
    await copyRules(control, place, listed, rules);
    return await countingOf(place.work, tops, guarded, (found) => ignoredOf(control, rules, found));
  });
  const seen = new Map<string, string>();
  for (const name of names) seen.set(name, isGuarded(guarded, name) ? await stampOf(place.work, name) : "");
  return { protect, seen };
}

/** It stands in the way of what the tree has there. */
function isOfTree({ files, dirs }: Listed, name: string): boolean {
  return files.has(name) || dirs.has(name);
}

/** The .gitignore files of the tree, alone. */
async function copyRules(
  control: Control,
  { index }: BesidePlace,
  listed: Listed,
  rules: string,
): Promise<void> {
  const names = [...listed.files.keys()].filter((name) => /(^|\/)\.gitignore$/.test(name));
  if (names.length === 0) return;
  const input = Buffer.from(names.map((name) => `${name}\0`).join(""), "latin1");
  faultPoint("scheduler.beside.before-copy-rules");
  await controlGit(control, ["checkout-index", "-q", "-z", "--stdin"], {
    ...placeOptions({ work: rules, index }),
    input,
  });
}

/** Those that the rules leave out, and all that is in such a directory. */
async function ignoredOf(
  control: Control,
  rules: string,
  found: readonly Foreign[],
): Promise<ReadonlySet<string>> {
  // A rule may be for directories only: git looks at what stands there. Nothing in a `.git` is ever ignored.
  const asked = found.filter(({ name }) => !/(^|\/)\.git(\/|$)/.test(name));
  if (asked.length === 0) return new Set();
  for (const { name, isDirectory } of asked) {
    if (!isDirectory) continue;
    faultPoint("scheduler.beside.before-make-alike");
    await mkdir(nameIn(rules, name), { recursive: true });
  }
  const { stdoutBuffer } = await controlGit(control, ["check-ignore", "--no-index", "-z", "--stdin"], {
    cwd: rules,
    workTree: rules,
    encoding: "buffer",
    okExits: [0, 1],
    // This command refuses the words that all others get.
    env: { GIT_LITERAL_PATHSPECS: "0" },
    // With the dot no name is taken for a word of git's.
    input: Buffer.from(asked.map(({ name }) => `./${name}\0`).join(""), "latin1"),
  });
  return new Set(splitNul(stdoutBuffer).map((name) => name.slice(2)));
}

/** Names of everything that counts, directories with '/'. */
async function countingOf(
  work: string,
  tops: readonly Foreign[],
  guarded: PathSet,
  ignoredOf: (found: readonly Foreign[]) => Promise<ReadonlySet<string>>,
): Promise<string[]> {
  const out = await ignoredOf(tops);
  const found: Foreign[] = [];
  const hidden: Foreign[] = [];
  for (const top of tops) {
    if (!out.has(top.name)) await listBelow(work, top, found);
    else if (mayHold(guarded, top)) await listBelow(work, top, hidden);
  }
  const outBelow = await ignoredOf(found);
  const counting = [
    ...found.filter(({ name }) => !outBelow.has(name) || isGuarded(guarded, name)),
    ...hidden.filter(({ name }) => isGuarded(guarded, name)),
  ];
  return counting.map(({ name, isDirectory }) => (isDirectory ? `${name}/` : name));
}

/** Whether something in an ignored directory, or the file itself, may be protected. */
function mayHold({ patterns }: PathSet, { name }: Foreign): boolean {
  const path = pathText(name) ?? showName(name);
  return patterns.length > 0 && (globFault(path) !== undefined || mayOverlap([path], patterns));
}

function isGuarded(guarded: PathSet, name: string): boolean {
  const bare = name.replace(/\/$/, "");
  return guarded.matches(pathText(bare) ?? showName(bare));
}

/** The entry and all that is below it. */
async function listBelow(work: string, top: Foreign, found: Foreign[]): Promise<void> {
  found.push(top);
  if (!top.isDirectory) return;
  const path = nameIn(work, top.name);
  const list = () => readdir(path, { withFileTypes: true, encoding: "buffer" });
  const entries = await list().catch(async () => {
    await openTree(path);
    return await list();
  });
  for (const entry of entries) {
    const name = `${top.name}/${(entry.name as unknown as Buffer).toString("latin1")}`;
    await listBelow(work, { name, isDirectory: entry.isDirectory() }, found);
  }
}

async function stampOf(work: string, name: string): Promise<string> {
  if (name.endsWith("/")) return "";
  const { size, mode, ino, ctimeNs } = await lstat(nameIn(work, name), { bigint: true });
  return `${size} ${mode} ${ino} ${ctimeNs}`;
}

async function removeEmpty(path: Buffer): Promise<void> {
  try {
    faultPoint("scheduler.beside.before-remove-directory");
    await rmdir(path);
  } catch (error) {
    // What is ignored, or was there before, keeps its directory.
    if ((error as NodeJS.ErrnoException).code !== "ENOTEMPTY") throw error;
  }
}
