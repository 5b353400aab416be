// What differs between the files on the disk and the base, found with an index of ours and our configuration
// only (case 19). Nothing is written to the object store here. Three git calls at once:
//   tracked files whose stat data differ, files that the index does not know, files that are ignored.
// A directory or file that the agent closed to reading (chmod) is opened again and the scan repeated: what
// cannot be read must not pass for deleted.

import { chmodSync, type Stats } from "node:fs";
import { copyFile, lstat, readlink, rm } from "node:fs/promises";
import { join } from "node:path";
import {
  EXECUTABLE,
  GITLINK,
  LINK,
  parseRaw,
  type RawChange,
  REGULAR,
  showName,
  splitNul,
} from "../bus/git/tree.ts";
import { placeOptions } from "./checkout.ts";
import { type Control, controlGit } from "./control.ts";
import { openTree } from "./open-tree.ts";
import type { Workspace } from "./workspace.ts";

/** How a path stands on the disk. `gone` also for paths below something that is no directory any more. */
export type OnDisk =
  | { is: "file"; mode: string; size: number }
  | { is: "link"; target: Buffer }
  | { is: "directory" }
  | { is: "special"; what: string }
  | { is: "gone" };

export interface Touched {
  /** Bytes as latin1. */
  name: string;
  /** In the base; mode and oid are empty for what the base does not have. */
  oldMode: string;
  oldOid: string;
  disk: OnDisk;
}

export interface Scan {
  touched: Touched[];
  /** Directories that are repositories of their own (no trailing '/'). */
  nested: string[];
  /** Gitlinks of the base whose directory is gone or names another commit. */
  gitlinks: string[];
  ignored: string[];
}

export interface ScanPlace {
  control: Control;
  work: string;
  /** The index made at checkout. */
  index: string;
  /** Where the copy for this scan goes. */
  scratch: string;
  sparse: boolean;
}

/** Ignored files named at most in a record. */
const MAX_IGNORED = 1_000;

export async function scan(place: ScanPlace): Promise<Scan> {
  await copyFile(place.index, place.scratch);
  let found = await ask(place);
  if (found.complaints && openTree(place.work, ".git")) found = await ask(place);
  const tracked = parseRaw(found.tracked);
  const others = splitNul(found.others);
  const nested = others.filter((name) => name.endsWith("/")).map((name) => name.slice(0, -1));
  const links = tracked.filter((change) => change.oldMode === GITLINK);
  const touched = await Promise.all([
    ...tracked.filter((change) => change.oldMode !== GITLINK).map((change) => lookAt(place.work, change)),
    ...others
      .filter((name) => !name.endsWith("/"))
      .map((name) => lookAt(place.work, { name, oldMode: "", oldOid: "" })),
  ]);
  return {
    touched,
    nested,
    gitlinks: links.map((change) => change.name),
    ignored: splitNul(found.ignored).slice(0, MAX_IGNORED),
  };
}

async function ask(place: ScanPlace) {
  const options = {
    ...placeOptions({ work: place.work, index: place.scratch }),
    encoding: "buffer" as const,
    // Makes git see files that were made at paths which a sparse checkout had left out.
    ...(place.sparse ? { config: ["core.sparseCheckout=true"] } : {}),
  };
  const ls = (...args: string[]) =>
    controlGit(place.control, ["ls-files", "-z", "-o", "--exclude-standard", ...args], options);
  const [tracked, others, ignored] = await Promise.all([
    controlGit(
      place.control,
      ["diff-files", "-z", "--raw", "--no-renames", "--ignore-submodules=dirty"],
      options,
    ),
    ls(),
    ls("-i", "--directory"),
  ]);
  return {
    tracked: tracked.stdoutBuffer,
    others: others.stdoutBuffer,
    ignored: ignored.stdoutBuffer,
    complaints: tracked.stderr !== "" || others.stderr !== "",
  };
}

async function lookAt(
  work: string,
  change: Pick<RawChange, "name" | "oldMode" | "oldOid">,
): Promise<Touched> {
  const { name, oldMode, oldOid } = change;
  return { name, oldMode, oldOid, disk: await onDisk(work, name) };
}

/** Looks at a path without following a link, the last part or any before it. */
export async function onDisk(work: string, name: string): Promise<OnDisk> {
  const parts = name.split("/");
  for (let n = 1; n < parts.length; n++) {
    const parent = await lstatOrNull(nameIn(work, parts.slice(0, n).join("/")));
    if (!parent?.isDirectory()) return { is: "gone" };
  }
  const path = nameIn(work, name);
  const stats = await lstatOrNull(path);
  if (stats === null) return { is: "gone" };
  if (stats.isSymbolicLink()) return { is: "link", target: await readlink(path, { encoding: "buffer" }) };
  if (stats.isDirectory()) return { is: "directory" };
  if (!stats.isFile()) return { is: "special", what: kindOf(stats) };
  if ((stats.mode & 0o400) === 0) chmodSync(path, (stats.mode & 0o7777) | 0o400);
  return { is: "file", mode: stats.mode & 0o100 ? EXECUTABLE : REGULAR, size: stats.size };
}

function kindOf(stats: Stats): string {
  if (stats.isFIFO()) return "a named pipe";
  if (stats.isSocket()) return "a socket";
  return "a device";
}

async function lstatOrNull(path: Buffer): Promise<Stats | null> {
  try {
    return await lstat(path);
  } catch {
    return null;
  }
}

/** Names are bytes. */
export function nameIn(work: string, name: string): Buffer {
  return Buffer.concat([Buffer.from(`${work}/`, "utf8"), Buffer.from(name, "latin1")]);
}

/** A link's mode, for changes that are not regular files. */
export function modeOf(disk: OnDisk): string {
  if (disk.is === "file") return disk.mode;
  return disk.is === "link" ? LINK : "";
}

/** The paths that differ from the checkout at this moment (in text; ignored files and submodules are not listed). */
export async function touchedPaths(control: Control, workspace: Workspace): Promise<string[]> {
  const scratch = join(workspace.dir, "index.touched");
  try {
    const found = await scan({ ...workspace, control, scratch });
    return [...found.touched.map((item) => item.name), ...found.nested].map(showName);
  } finally {
    await rm(scratch, { force: true });
  }
}
