// Turns touched files into blobs, a tree, and the list of changes. Only what is in scope is written to the
// object store; everything else is hashed at most (cases 32, 40: a secret outside the scope gets into no object).

import { createHash } from "node:crypto";
import { EXECUTABLE, LINK, REGULAR } from "../bus/git/tree.ts";
import { isCode } from "../schemas/errors.ts";
import { faultPoint } from "../schemas/fault-points.ts";
import type { Touched } from "./capture-scan.ts";
import { type Control, controlGit } from "./control.ts";
import { placeGit, placeOptions } from "./place-git.ts";

export interface WritePlace {
  control: Control;
  work: string;
  /** Index that is changed here; thrown away by the caller. */
  scratch: string;
}

export interface Hashed {
  /** By name (latin1). */
  oids: Map<string, string>;
  /** Names of files whose attributes git cannot follow: their bytes were taken as they are. */
  raw: string[];
}

/** The id of the content of each file or link. `write` puts it into the object store. */
export async function hashAll(place: WritePlace, items: readonly Touched[], write: boolean): Promise<Hashed> {
  const files = items.filter((item) => item.disk.is === "file").map((item) => item.name);
  const found: Hashed = { oids: new Map(), raw: [] };
  await hashFiles(place, files, write, found, { left: MAX_SPLITS });
  for (const { name, disk } of items) {
    if (disk.is !== "link") continue;
    const { control } = place;
    found.oids.set(name, write ? await writeBlob(control, disk.target) : blobHash(control, disk.target));
  }
  return found;
}

/** Calls spent on finding the files that make a call fail; then bytes for all that are left. */
const MAX_SPLITS = 64;

/**
 * Attributes of the repository count (line ends, encodings); filters do not exist in our configuration. An agent can
 * write attributes that its files do not fit (working-tree-encoding): git then refuses the whole call. The files that
 * are to blame are found by halves, and taken as bytes.
 */
async function hashFiles(
  place: WritePlace,
  names: readonly string[],
  write: boolean,
  found: Hashed,
  splits: { left: number },
): Promise<void> {
  if (names.length === 0) return;
  const take = (oids: readonly string[]) => {
    for (const [n, name] of names.entries()) found.oids.set(name, oids[n] as string);
  };
  try {
    return take(await hashObjects(place, names, write, []));
  } catch (error) {
    if (!isCode(error, "GIT_FAILED")) throw error;
  }
  if (names.length === 1 || splits.left <= 0) {
    take(await hashObjects(place, names, write, ["--no-filters"]));
    found.raw.push(...names);
    return;
  }
  splits.left -= 2;
  const half = Math.ceil(names.length / 2);
  await hashFiles(place, names.slice(0, half), write, found, splits);
  await hashFiles(place, names.slice(half), write, found, splits);
}

async function hashObjects(
  place: WritePlace,
  names: readonly string[],
  write: boolean,
  more: readonly string[],
): Promise<string[]> {
  const args = ["hash-object", ...(write ? ["-w"] : []), ...more, "--stdin-paths"];
  const at = { work: place.work, index: place.scratch };
  faultPoint("scheduler.capture.before-write-files");
  const { stdout } = await placeGit(place.control, args, at, {
    input: Buffer.from(names.map((name) => `${quoted(name)}\n`).join(""), "latin1"),
  });
  return stdout.trimEnd().split("\n");
}

/** A name as git reads it from a line: C-quoted where a byte would end or confuse the line. */
function quoted(name: string): string {
  // biome-ignore lint/suspicious/noControlCharactersInRegex: they are what is quoted
  if (!/[\x00-\x1f"\\\x7f]/.test(name)) return name;
  // biome-ignore lint/suspicious/noControlCharactersInRegex: they are what is quoted
  return `"${name.replace(/[\x00-\x1f"\\\x7f]/g, (c) => `\\${c.charCodeAt(0).toString(8).padStart(3, "0")}`)}"`;
}

async function writeBlob(control: Control, content: Buffer): Promise<string> {
  faultPoint("scheduler.capture.before-write-link");
  const { stdout } = await controlGit(control, ["hash-object", "-w", "--stdin", "--no-filters"], {
    input: content,
  });
  return stdout.trim();
}

function blobHash(control: Control, content: Buffer): string {
  return createHash(control.objectFormat).update(`blob ${content.length}\0`).update(content).digest("hex");
}

export interface IndexChange {
  name: string;
  /** Null removes. */
  entry: { mode: string; oid: string } | null;
}

/** The tree of the index with the changes made. */
export async function writeTree(place: WritePlace, changes: readonly IndexChange[]): Promise<string> {
  const options = placeOptions({ work: place.work, index: place.scratch });
  if (changes.length > 0) {
    const zero = "0".repeat(place.control.objectFormat === "sha256" ? 64 : 40);
    // Removals first: a directory may have become a file, or a file a directory.
    const removed = changes.filter(({ entry }) => entry === null).map(({ name }) => `0 ${zero}\t${name}\0`);
    const set = changes.flatMap(({ name, entry }) =>
      entry ? [`${entry.mode} ${entry.oid}\t${name}\0`] : [],
    );
    faultPoint("scheduler.capture.before-set-index");
    await controlGit(place.control, ["update-index", "-z", "--index-info"], {
      ...options,
      input: Buffer.from([...removed, ...set].join(""), "latin1"),
    });
  }
  faultPoint("scheduler.capture.before-write-tree");
  const { stdout } = await controlGit(place.control, ["write-tree"], options);
  return stdout.trim();
}

const BLOB_MODES = new Set([REGULAR, EXECUTABLE, LINK]);
export const isBlobMode = (mode: string): boolean => BLOB_MODES.has(mode);
