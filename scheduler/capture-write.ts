// Turns touched files into blobs, a tree, and the list of changes. Only what is in scope is written to the
// object store; everything else is hashed at most (cases 32, 40: a secret outside the scope gets into no object).

import { createHash } from "node:crypto";
import { EXECUTABLE, LINK, REGULAR } from "../bus/git/tree.ts";
import { faultPoint } from "../schemas/fault-points.ts";
import type { Touched } from "./capture-scan.ts";
import { placeOptions } from "./checkout.ts";
import { type Control, controlGit } from "./control.ts";

export interface WritePlace {
  control: Control;
  work: string;
  /** Index that is changed here; thrown away by the caller. */
  scratch: string;
}

/** The id of the content of each file or link, by name (latin1). `write` puts it into the object store. */
export async function hashAll(
  place: WritePlace,
  items: readonly Touched[],
  write: boolean,
): Promise<Map<string, string>> {
  const found = new Map<string, string>();
  const files = items.filter((item) => item.disk.is === "file");
  if (files.length > 0) {
    // Attributes of the repository count (line ends); filters do not exist in our configuration.
    faultPoint("scheduler.capture.before-write-files");
    const { stdout } = await controlGit(
      place.control,
      ["hash-object", ...(write ? ["-w"] : []), "--stdin-paths"],
      {
        ...placeOptions({ work: place.work, index: place.scratch }),
        input: Buffer.from(files.map((item) => `${quoted(item.name)}\n`).join(""), "latin1"),
      },
    );
    const oids = stdout.trimEnd().split("\n");
    for (const [n, item] of files.entries()) found.set(item.name, oids[n]!);
  }
  for (const item of items) {
    if (item.disk.is !== "link") continue;
    found.set(
      item.name,
      write ? await writeBlob(place.control, item.disk.target) : blobHash(place.control, item.disk.target),
    );
  }
  return found;
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
