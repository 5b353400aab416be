// The disk as the state sees it: passed in, so that a test can make it full. All calls but one are asynchronous;
// `writeNow` puts the journal's bytes of one tick into the page cache, which takes some microseconds.

import { writeSync } from "node:fs";
import { lstat, mkdir, open, readdir, rename, unlink } from "node:fs/promises";
import { dirname } from "node:path";
import { faultPoint } from "../../schemas/fault-points.ts";
import { isErrno } from "./errno.ts";

export interface DiskFile {
  read(buffer: Buffer, offset: number, length: number, position: number): Promise<{ bytesRead: number }>;
  write(buffer: Buffer, offset: number, length: number, position: number): Promise<{ bytesWritten: number }>;
  /** Synchronous; returns how many bytes were written, which may be fewer. */
  writeNow(buffer: Buffer, offset: number, length: number, position: number): number;
  datasync(): Promise<void>;
  sync(): Promise<void>;
  truncate(length: number): Promise<void>;
  stat(): Promise<{ size: number }>;
  close(): Promise<void>;
}

/** What stands at a path; a link is not followed. */
export interface Looked {
  kind: "file" | "link" | "other";
  uid: number;
  /** The permissions alone. */
  mode: number;
}

export interface Disk {
  open(path: string, flags: string, mode?: number): Promise<DiskFile>;
  /** Undefined when nothing stands there. */
  look(path: string): Promise<Looked | undefined>;
  /** Names in a directory; none when it does not exist. */
  list(dir: string): Promise<string[]>;
  mkdir(dir: string): Promise<void>;
  rename(from: string, to: string): Promise<void>;
  unlink(path: string): Promise<void>;
  /** Makes a name in `dir` durable (a new file, a rename). */
  syncDir(dir: string): Promise<void>;
}

export const systemDisk: Disk = {
  open: async (path, flags, mode = 0o600) => {
    const file = await open(path, flags, mode);
    return Object.assign(file, {
      writeNow: (buffer: Buffer, offset: number, length: number, position: number) =>
        writeSync(file.fd, buffer, offset, length, position),
    });
  },
  look: async (path) => {
    try {
      const stat = await lstat(path);
      const kind = stat.isSymbolicLink() ? "link" : stat.isFile() ? "file" : "other";
      return { kind, uid: stat.uid, mode: stat.mode & 0o7777 };
    } catch (error) {
      if (isErrno(error, "ENOENT")) return undefined;
      throw error;
    }
  },
  list: async (dir) => {
    try {
      return await readdir(dir);
    } catch (error) {
      if (isErrno(error, "ENOENT")) return [];
      throw error;
    }
  },
  mkdir: async (dir) => {
    await mkdir(dir, { recursive: true, mode: 0o700 });
  },
  rename,
  unlink,
  syncDir: async (dir) => {
    const handle = await open(dir, "r");
    try {
      await handle.sync();
    } finally {
      await handle.close();
    }
  },
};

/** Writes all of `bytes`; a short write goes on where it stopped. */
export async function writeAll(file: DiskFile, bytes: Buffer, position: number): Promise<void> {
  let done = 0;
  while (done < bytes.length) {
    const { bytesWritten } = await file.write(bytes, done, bytes.length - done, position + done);
    done += progress(bytesWritten);
  }
}

/** The same at once, for few bytes. */
export function writeAllNow(file: DiskFile, bytes: Buffer, position: number): void {
  for (let done = 0; done < bytes.length; )
    done += progress(file.writeNow(bytes, done, bytes.length - done, position + done));
}

/** A write that takes nothing and gives no error would be tried for ever. */
function progress(written: number): number {
  if (written > 0) return written;
  throw Object.assign(new Error("the disk takes no more bytes"), { code: "EIO" });
}

/** Reads `length` bytes at `position`, fewer at the end of the file. */
export async function readAt(file: DiskFile, position: number, length: number): Promise<Buffer> {
  const buffer = Buffer.allocUnsafe(length);
  let done = 0;
  while (done < length) {
    const { bytesRead } = await file.read(buffer, done, length - done, position + done);
    if (bytesRead === 0) break;
    done += bytesRead;
  }
  return buffer.subarray(0, done);
}

/** The whole file, or undefined when it does not exist. */
export async function readWhole(disk: Disk, path: string): Promise<Buffer | undefined> {
  let file: DiskFile;
  try {
    file = await disk.open(path, "r");
  } catch (error) {
    if (isErrno(error, "ENOENT")) return undefined;
    throw error;
  }
  try {
    return await readAt(file, 0, (await file.stat()).size);
  } finally {
    await file.close();
  }
}

/** A file of ours with its name, durable. Where it fails, what stands there is not to be believed. */
export async function writeWhole(disk: Disk, path: string, bytes: Buffer): Promise<void> {
  faultPoint("bus.whole-file.before-open");
  const file = await disk.open(path, "w", 0o600);
  try {
    await writeAll(file, bytes, 0);
    faultPoint("bus.whole-file.before-sync");
    await file.sync();
  } finally {
    await file.close();
  }
  faultPoint("bus.whole-file.before-sync-directory");
  await disk.syncDir(dirname(path));
}

/** Takes a file away, durable once its directory is synced; one that is not there is no failure. */
export async function removeFile(disk: Disk, path: string): Promise<void> {
  try {
    faultPoint("bus.file.before-remove");
    await disk.unlink(path);
  } catch (error) {
    if (!isErrno(error, "ENOENT")) throw error;
  }
}
