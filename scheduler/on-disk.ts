// How a path of a working tree stands on the disk. No link is followed, neither at its end nor on the way.

import { chmodSync, type Stats } from "node:fs";
import { lstat, readlink } from "node:fs/promises";
import { EXECUTABLE, LINK, REGULAR } from "../bus/git/tree.ts";
import { faultPoint } from "../schemas/fault-points.ts";

/** How a path stands on the disk. `gone` also for paths below something that is no directory any more. */
export type OnDisk =
  | { is: "file"; mode: string; size: number }
  | { is: "link"; target: Buffer }
  | { is: "directory" }
  | { is: "special"; what: string }
  | { is: "gone" };

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
  if ((stats.mode & 0o400) === 0) {
    faultPoint("scheduler.capture.before-make-readable");
    chmodSync(path, (stats.mode & 0o7777) | 0o400);
  }
  return { is: "file", mode: stats.mode & 0o100 ? EXECUTABLE : REGULAR, size: stats.size };
}

/** A thing that is no file, link or directory, in words. */
export function kindOf(stats: Stats): string {
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
