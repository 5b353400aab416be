// An attempt that has filled the disk gives room back before anything about it is written: the record of its end lies
// on the same disk, and so does whatever would remove its workspace later. What it wrote last is gone in the order of
// size; the rest is kept and captured as ever.
//
// Facts decide, not words: the disk is full now, and what the attempt holds is at least half of what was free when it
// began. After a take-over that is not known: then it must hold half of the whole disk, so that nobody loses work for
// what somebody else wrote; who holds less waits for room like everybody (hold.ts).

import { lstat, readdir, statfs, unlink } from "node:fs/promises";
import { basename, join, relative } from "node:path";
import { faultPoint } from "../schemas/fault-points.ts";
import { homesOf } from "./dirs.ts";
import { DISK_GONE_BYTES, lookAtMachine } from "./trouble.ts";

/** Enough for the records, snapshots and indexes of many attempts. */
const ROOM_BYTES = 32 * 1024 * 1024;
/** Smaller files are not worth it, and may be the work. */
const WORTH_BYTES = 256 * 1024;
const MAX_FILES = 200_000;
const MAX_NAMED = 3;
const MIB = 1024 * 1024;

interface Held {
  path: string;
  bytes: number;
}

/** What was found and done, in words for people; undefined when the disk has room or somebody else filled it. */
export async function makeRoom(
  stateDir: string,
  dir: string,
  freeBefore: number | undefined,
): Promise<string | undefined> {
  if ((await lookAtMachine(stateDir)).free >= DISK_GONE_BYTES) return undefined;
  const files = await filesBelow([join(dir, "work"), ...Object.values(homesOf(dir))]);
  const own = sum(files);
  if (own < (freeBefore ?? (await sizeOf(stateDir))) / 2) return undefined;
  const removed: Held[] = [];
  for (const file of files.filter(({ bytes }) => bytes >= WORTH_BYTES).sort((a, b) => b.bytes - a.bytes)) {
    if (sum(removed) >= ROOM_BYTES) break;
    faultPoint("scheduler.room.before-remove-file");
    const gone = await unlink(file.path).then(
      () => true,
      () => false,
    );
    if (gone) removed.push(file);
  }
  return removed.length === 0 ? undefined : said(dir, own, removed);
}

/** Bytes of the disk; without end where that cannot be read. */
async function sizeOf(dir: string): Promise<number> {
  const disk = await statfs(dir).catch(() => undefined);
  return disk === undefined ? Number.POSITIVE_INFINITY : disk.blocks * disk.bsize;
}

function said(dir: string, own: number, removed: readonly Held[]): string {
  const named = removed
    .slice(0, MAX_NAMED)
    .map(({ path, bytes }) => `${nameIn(dir, path)} (${inMib(bytes)})`);
  const more = removed.length > MAX_NAMED ? ` and ${removed.length - MAX_NAMED} more` : "";
  return `it filled the disk (ENOSPC): its files held ${inMib(own)}; removed to make room: ${named.join(", ")}${more}`;
}

/** As the agent knows it. */
function nameIn(dir: string, path: string): string {
  const name = relative(join(dir, "work"), path);
  return name.startsWith("..") ? join(basename(dir), relative(dir, path)) : name;
}

const inMib = (bytes: number) => `${Math.round(bytes / MIB)} MiB`;
const sum = (files: readonly Held[]) => files.reduce((all, { bytes }) => all + bytes, 0);

/** Regular files with what they take of the disk; links are not followed, what cannot be read is passed over. */
async function filesBelow(tops: readonly string[]): Promise<Held[]> {
  const files: Held[] = [];
  const left = [...tops];
  for (let dir = left.pop(); dir !== undefined && files.length < MAX_FILES; dir = left.pop()) {
    for (const entry of await readdir(dir, { withFileTypes: true }).catch(() => [])) {
      const path = join(dir, entry.name);
      if (entry.isDirectory()) left.push(path);
      else if (entry.isFile()) {
        const stats = await lstat(path).catch(() => undefined);
        if (stats) files.push({ path, bytes: stats.blocks * 512 });
      }
    }
  }
  return files;
}
