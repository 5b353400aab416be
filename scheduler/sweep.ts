// Compares the names below a working tree with those of a tree, so that a place can be used again. Content is git's
// to compare (by stat data, ctime included); this finds what git does not look for: files and directories that are
// not of the tree, ignored or not, empty directories, `.git` at any level, directories with other modes, and links
// that stand where a directory should be. No link is followed.

import { chmod, lstat, readdir } from "node:fs/promises";
import { GITLINK, LINK, splitNul } from "../bus/git/tree.ts";
import { faultPoint } from "../schemas/fault-points.ts";
import { type Control, controlGit } from "./control.ts";
import { nameIn } from "./on-disk.ts";
import { removeAll } from "./open-tree.ts";
import { placeOptions } from "./place-git.ts";

export interface Listed {
  /** Names (bytes as latin1); true for links. */
  files: Map<string, boolean>;
  /** Every directory that a file is in, but for the top. */
  dirs: Set<string>;
  submodules: Set<string>;
}

/** Something that is not of the tree; what is below a directory is foreign, too. */
export interface Foreign {
  /** Bytes as latin1. */
  name: string;
  isDirectory: boolean;
}

/** What the index of a place says that there is. */
export async function listIndex(control: Control, work: string, index: string): Promise<Listed> {
  const options = { ...placeOptions({ work, index }), encoding: "buffer" as const };
  const { stdoutBuffer } = await controlGit(control, ["ls-files", "-s", "-z"], options);
  const listed: Listed = { files: new Map(), dirs: new Set(), submodules: new Set() };
  for (const record of splitNul(stdoutBuffer)) {
    const name = record.slice(record.indexOf("\t") + 1);
    if (record.startsWith(GITLINK)) listed.submodules.add(name);
    listed.files.set(name, record.startsWith(LINK));
    for (let end = name.lastIndexOf("/"); end > 0; end = name.lastIndexOf("/", end - 1)) {
      const dir = name.slice(0, end);
      if (listed.dirs.has(dir)) break;
      listed.dirs.add(dir);
    }
  }
  return listed;
}

/**
 * Looks through `work`. With `clean`, what is foreign is removed, closed directories are opened, and what stands in the
 * place of a directory goes: git makes it anew. Without, the first oddity ends it and is told.
 */
export async function sweep(work: string, listed: Listed, clean: boolean): Promise<string | undefined> {
  const onForeign = async ({ name }: Foreign) => {
    if (clean) await removeAll(nameIn(work, name));
    else walk.odd ??= `${JSON.stringify(name)} does not belong there`;
  };
  const walk = new Walk(work, listed, clean, onForeign);
  await walk.visit("");
  if (!clean && walk.odd === undefined && walk.seen !== listed.files.size)
    return `${listed.files.size - walk.seen} files are missing`;
  return walk.odd;
}

/** Everything foreign in `work`, but what is in submodules; nothing is removed, closed directories are opened. */
export async function foreignIn(work: string, listed: Listed): Promise<Foreign[]> {
  const found: Foreign[] = [];
  const onForeign = (foreign: Foreign) => {
    if (!(foreign.isDirectory && listed.submodules.has(foreign.name))) found.push(foreign);
  };
  await new Walk(work, listed, true, onForeign).visit("");
  return found;
}

/** What git gives to a directory that it makes. */
const directoryMode = 0o777 & ~process.umask();

class Walk {
  seen = 0;
  odd: string | undefined;

  constructor(
    readonly work: string,
    readonly listed: Listed,
    readonly clean: boolean,
    readonly onForeign: (foreign: Foreign) => void | Promise<void>,
  ) {}

  async visit(dir: string): Promise<void> {
    if (this.odd !== undefined) return;
    const path = dir === "" ? Buffer.from(this.work) : nameIn(this.work, dir);
    if (!(await this.#modeIsRight(dir, path))) return;
    const entries = await readdir(path, { withFileTypes: true, encoding: "buffer" });
    const below: string[] = [];
    for (const entry of entries) {
      const text = (entry.name as unknown as Buffer).toString("latin1");
      const name = dir === "" ? text : `${dir}/${text}`;
      const file = this.listed.files.get(name);
      if (file !== undefined && (file ? entry.isSymbolicLink() : entry.isFile())) this.seen += 1;
      else if (entry.isDirectory() && this.listed.dirs.has(name)) below.push(name);
      else await this.onForeign({ name, isDirectory: entry.isDirectory() });
    }
    await Promise.all(below.map((name) => this.visit(name)));
  }

  async #modeIsRight(dir: string, path: Buffer): Promise<boolean> {
    const wanted = dir === "" ? 0o700 : directoryMode;
    const { mode } = await lstat(path);
    if ((mode & 0o7777) === wanted) return true;
    if (this.clean) {
      faultPoint("scheduler.sweep.before-permit");
      await chmod(path, wanted);
    } else this.odd ??= `${dir || "the top"} has mode ${(mode & 0o7777).toString(8)}`;
    return this.clean;
  }
}
