// What differs between the files on the disk and the base, found with an index of ours and our configuration
// only (case 19). Nothing is written to the object store here. Three git calls at once:
//   tracked files whose stat data differ, files that the index does not know, files that are ignored.
// A directory or file that the agent closed to reading (chmod) is opened again and the scan repeated: what
// cannot be read must not pass for deleted.

import { join } from "node:path";
import { withScratch } from "../bus/git/scratch.ts";
import { GITLINK, parseRaw, type RawChange, showName, splitNul } from "../bus/git/tree.ts";
import { trustedIndex } from "./capture-index.ts";
import type { Control } from "./control.ts";
import { type OnDisk, onDisk } from "./on-disk.ts";
import { openTree } from "./open-tree.ts";
import { placeGit } from "./place-git.ts";
import type { Workspace } from "./workspace.ts";

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
  /** An index that can be believed (capture-index.ts), of ours alone. */
  scratch: string;
  sparse: boolean;
}

/** Ignored files named at most in a record. */
const MAX_IGNORED = 1_000;

export async function scan(place: ScanPlace): Promise<Scan> {
  let found = await ask(place);
  if (found.complaints && (await openTree(place.work, ".git"))) found = await ask(place);
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
  const at = { work: place.work, index: place.scratch };
  const options = {
    encoding: "buffer" as const,
    // Makes git see files that were made at paths which a sparse checkout had left out.
    ...(place.sparse ? { config: ["core.sparseCheckout=true"] } : {}),
  };
  const ls = (...args: string[]) =>
    placeGit(place.control, ["ls-files", "-z", "-o", "--exclude-standard", ...args], at, options);
  const [tracked, others, ignored] = await Promise.all([
    placeGit(
      place.control,
      ["diff-files", "-z", "--raw", "--no-renames", "--ignore-submodules=dirty"],
      at,
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

/** What differs from `base` at this moment, by an index that can be believed. */
export function scanNow(control: Control, workspace: Workspace, base: string): Promise<Scan> {
  return withScratch(control.gitDir, async (dir) => {
    const scratch = join(dir, "index");
    await trustedIndex(control, workspace, base, scratch);
    return await scan({ control, work: workspace.work, scratch, sparse: workspace.sparse });
  });
}

/**
 * The paths that somebody touched since the checkout (in text; ignored files and submodules are not listed): all that
 * differ, and some that have their old content by new stat data.
 */
export async function touchedPaths(control: Control, workspace: Workspace, base: string): Promise<string[]> {
  const found = await scanNow(control, workspace, base);
  return [...found.touched.map((item) => item.name), ...found.nested].map(showName);
}
