// W9: an idle workspace is archived, and nothing that exists only there is lost (case 14).
//   1. `archivable` decides; a workspace in use, not captured, or with commits that could not be harvested stays.
//   2. Records of the attempt (logs, metadata, patches) go into a new directory beside its final name.
//   3. Unless the attempt was merged: all files that differ from the base are copied byte for byte; ignored ones
//      too, up to a bound, and all of them are listed by name in `left.json`.
//   4. The new directory gets its name; only then is the workspace removed. Done again after a crash, it goes on.

import { constants, type Stats } from "node:fs";
import { copyFile, lstat, mkdir, readdir, readlink, rename, symlink, writeFile } from "node:fs/promises";
import { basename, dirname, join } from "node:path";
import { showName } from "../bus/git/tree.ts";
import { BusbarError, ioError } from "../schemas/errors.ts";
import { faultPoint } from "../schemas/fault-points.ts";
import { scanNow } from "./capture-scan.ts";
import type { Control } from "./control.ts";
import { nameIn } from "./on-disk.ts";
import { removeAll } from "./open-tree.ts";
import { ASIDE } from "./snares.ts";
import { removeWorkspace, type Workspace } from "./workspace.ts";

export interface ArchiveFacts {
  /** A process of the attempt, or a check on it, lives or may live. */
  inUse: boolean;
  /** The result is in a snapshot, or the attempt had ended before there was any. */
  captured: boolean;
  /** `problems` of harvest.ts. */
  harvestProblems: readonly string[];
  /** Milliseconds since 1970. */
  lastUsed: number;
  now: number;
  idleMs: number;
}

/** Why a workspace stays: it is used, it was used a moment ago, it holds what is nowhere else, or its archive failed. */
export type StayKind = "in_use" | "not_idle" | "not_harvested" | "failed";
export type ArchiveDecision = { archive: true } | { archive: false; kind: StayKind; why: string };

/** Whether a workspace may go. Pure. */
export function archivable(facts: ArchiveFacts): ArchiveDecision {
  const stay = (kind: StayKind, why: string): ArchiveDecision => ({ archive: false, kind, why });
  if (facts.inUse) return stay("in_use", "in use");
  if (!facts.captured) return stay("not_harvested", "its result is not captured");
  if (facts.harvestProblems.length > 0) return stay("not_harvested", facts.harvestProblems.join("; "));
  const idle = facts.now - facts.lastUsed;
  if (idle < facts.idleMs) return stay("not_idle", `idle for ${Math.round(idle / 1000)} s only`);
  return { archive: true };
}

export interface ArchiveOrder {
  control: Control;
  workspace: Workspace;
  /** The commit that the workspace was made from. */
  base: string;
  /** Final place of the archive; it does not exist yet, or this is the rest of an archiving cut short. */
  to: string;
  merged: boolean;
}

export interface Archived {
  /** Paths (from the top of the working tree) copied byte for byte. */
  kept: string[];
  /** Ignored files that were listed only. */
  listed: string[];
}

/** What an attempt left beside its change; more than this stays where it is. */
const MAX_LEFT_BYTES = 1024 * 1024 * 1024;
/** Ignored files (caches, packages) are kept up to this, listed beyond. */
const MAX_IGNORED_BYTES = 64 * 1024 * 1024;
/** Parts of an attempt's directory that are not records of it. */
const NOT_RECORDS = new Set([
  "work",
  "index",
  "sub",
  "home",
  "tmp",
  "cache",
  "config",
  "data",
  "state",
  "bin",
  ASIDE,
]);

/** Archives and removes. FILE_TOO_LARGE: what would be lost is too much to copy; the workspace stays. */
export async function archive(order: ArchiveOrder): Promise<Archived> {
  const { workspace, to } = order;
  if (await exists(to)) {
    // The archive was complete before its name was given.
    await removeWorkspace(order.control, workspace.dir);
    return { kept: [], listed: [] };
  }
  const part = join(dirname(to), `.${basename(to)}.part`);
  await removeAll(part);
  try {
    faultPoint("scheduler.archive.before-make");
    await mkdir(part, { recursive: true, mode: 0o700 });
    await copyRecords(workspace.dir, part);
    const left = order.merged ? { kept: [], listed: [] } : await copyLeft(order, part);
    faultPoint("scheduler.archive.before-write-list");
    await writeFile(join(part, "left.json"), `${JSON.stringify({ v: 1, ...left })}\n`, { mode: 0o600 });
    faultPoint("scheduler.archive.before-rename");
    await rename(part, to);
    await removeWorkspace(order.control, workspace.dir);
    return left;
  } catch (error) {
    await removeAll(part);
    throw error instanceof BusbarError ? error : ioError("archiving", workspace.dir, error);
  }
}

async function copyRecords(dir: string, part: string): Promise<void> {
  for (const name of await readdir(dir)) {
    if (NOT_RECORDS.has(name)) continue;
    await copy(Buffer.from(join(dir, name)), Buffer.from(join(part, name)));
  }
}

async function copyLeft(order: ArchiveOrder, part: string): Promise<Archived> {
  const { control, workspace } = order;
  if (!(await exists(workspace.work))) return { kept: [], listed: [] };
  const found = await scanNow(control, workspace, order.base);
  const changed = found.touched
    .filter(({ disk }) => disk.is === "file" || disk.is === "link")
    .map(({ name }) => name);
  const must: string[] = [];
  const aside = Buffer.from(join(workspace.dir, ASIDE));
  let bytes = await sizeBelow(aside, MAX_LEFT_BYTES);
  for (const name of [...changed, ...found.nested, ...found.gitlinks]) {
    const path = nameIn(workspace.work, name);
    if (!(await exists(path))) continue;
    must.push(name);
    bytes += await sizeBelow(path, MAX_LEFT_BYTES - bytes);
    if (bytes > MAX_LEFT_BYTES) break;
  }
  if (bytes > MAX_LEFT_BYTES) {
    const why = `it holds more than ${MAX_LEFT_BYTES} bytes that are nowhere else; look at ${workspace.work} and remove it by hand`;
    throw new BusbarError("FILE_TOO_LARGE", `archiving ${workspace.dir}: ${why}`, { path: workspace.dir });
  }
  const kept = [...must];
  const listed: string[] = [];
  let room = MAX_IGNORED_BYTES;
  for (const name of found.ignored.map((item) => item.replace(/\/$/, ""))) {
    const size = await sizeBelow(nameIn(workspace.work, name), room);
    if (size > room) listed.push(name);
    else kept.push(name);
    if (size <= room) room -= size;
  }
  for (const name of kept) await copy(nameIn(workspace.work, name), nameIn(join(part, "left"), name));
  if (await exists(aside)) await copy(aside, Buffer.from(join(part, ASIDE)));
  return { kept: kept.map(showName), listed: listed.map(showName) };
}

/** Files, links (as links) and directories; names are bytes. Pipes, sockets and devices hold nothing to keep. */
async function copy(from: Buffer, to: Buffer): Promise<void> {
  const stats = await lstat(from);
  faultPoint("scheduler.archive.before-make-directory");
  await mkdir(to.subarray(0, to.lastIndexOf("/")), { recursive: true, mode: 0o700 });
  if (stats.isSymbolicLink()) {
    faultPoint("scheduler.archive.before-link");
    await symlink(await readlink(from, { encoding: "buffer" }), to);
  } else if (stats.isFile()) {
    faultPoint("scheduler.archive.before-copy");
    await copyFile(from, to, constants.COPYFILE_FICLONE);
  } else if (stats.isDirectory()) {
    faultPoint("scheduler.archive.before-make-tree");
    await mkdir(to, { mode: 0o700 });
    for (const name of await readdir(from, { encoding: "buffer" }))
      await copy(below(from, name), below(to, name));
  }
}

function below(dir: Buffer, name: Buffer): Buffer {
  return Buffer.concat([dir, Buffer.from("/"), name]);
}

async function exists(path: string | Buffer): Promise<boolean> {
  return (await statsOf(path)) !== undefined;
}

async function statsOf(path: string | Buffer): Promise<Stats | undefined> {
  try {
    return await lstat(path);
  } catch {
    return undefined;
  }
}

/** Bytes of a file or of all files below a directory; stops counting beyond `limit`. */
async function sizeBelow(path: Buffer, limit: number): Promise<number> {
  const stats = await statsOf(path);
  if (stats === undefined) return 0;
  if (!stats.isDirectory()) return stats.size;
  let sum = 0;
  for (const name of await readdir(path, { encoding: "buffer" })) {
    sum += await sizeBelow(below(path, name), limit - sum);
    if (sum > limit) break;
  }
  return sum;
}
