// A disk (the real one, or one in memory) with knobs for the next failure. Every call of the port goes through one
// gate, which counts it; so a test can walk over all of them.

import { type Disk, type DiskFile, type Looked, systemDisk } from "../../bus/state/disk.ts";
import { MemoryFile } from "./memory-disk.ts";

export const DISK_OPS = [
  "open",
  "read",
  "write",
  "writeNow",
  "datasync",
  "sync",
  "truncate",
  "stat",
  "close",
  "look",
  "list",
  "mkdir",
  "rename",
  "unlink",
  "syncDir",
] as const satisfies readonly (keyof Disk | keyof DiskFile)[];
export type DiskOp = (typeof DISK_OPS)[number];

export class FaultyDisk implements Disk {
  /** The error that calls of a kind give, until taken away; "write" means both ways to write, "open" those to write. */
  readonly faults = new Map<"write" | "datasync" | "truncate" | "open" | "rename", string>();
  /** Asked before every call: the `nth` (from 1) of its kind. An error code makes it fail. */
  strike: ((op: DiskOp, nth: number, path: string) => string | undefined) | undefined;
  /** Bytes of a write that reach the file before it fails. */
  shortWrite = 0;
  /** Writes take this many bytes at most, without an error. */
  writeAtMost = Number.POSITIVE_INFINITY;
  /** Only files whose path holds this are faulty by `faults`. */
  only = "";
  /** A sync waits for this. */
  beforeDatasync: Promise<void> | undefined;
  readonly calls = { write: 0, datasync: 0 };
  readonly counts = Object.fromEntries(DISK_OPS.map((op) => [op, 0])) as Record<DiskOp, number>;
  /** Paths of the files that are open. */
  readonly opened = new Map<DiskFile, string>();

  constructor(private readonly inner: Disk = systemDisk) {}

  async open(path: string, flags: string, mode?: number): Promise<DiskFile> {
    this.check("open", path, flags === "r");
    const inner = await this.inner.open(path, flags, mode);
    const file: DiskFile = {
      read: async (...args) => {
        this.check("read", path);
        return inner.read(...args);
      },
      write: async (buffer, offset, length, position) => {
        const most = this.forWrite("write", path, length, (n) => inner.writeNow(buffer, offset, n, position));
        return inner.write(buffer, offset, most, position);
      },
      writeNow: (buffer, offset, length, position) => {
        const most = this.forWrite("writeNow", path, length, (n) =>
          inner.writeNow(buffer, offset, n, position),
        );
        return inner.writeNow(buffer, offset, most, position);
      },
      datasync: async () => {
        this.calls.datasync += 1;
        await this.beforeDatasync;
        this.forSync("datasync", path, inner);
        await inner.datasync();
      },
      sync: async () => {
        this.forSync("sync", path, inner);
        await inner.sync();
      },
      truncate: async (length) => {
        this.check("truncate", path);
        await inner.truncate(length);
      },
      stat: async () => {
        this.check("stat", path);
        return inner.stat();
      },
      close: async () => {
        this.opened.delete(file); // also when it says that it failed
        await inner.close();
        this.check("close", path);
      },
    };
    this.opened.set(file, path);
    return file;
  }

  async look(path: string): Promise<Looked | undefined> {
    this.check("look", path);
    return this.inner.look(path);
  }
  async list(dir: string): Promise<string[]> {
    this.check("list", dir);
    return this.inner.list(dir);
  }
  async mkdir(dir: string): Promise<void> {
    this.check("mkdir", dir);
    await this.inner.mkdir(dir);
  }
  async rename(from: string, to: string): Promise<void> {
    this.check("rename", to);
    await this.inner.rename(from, to);
  }
  async unlink(path: string): Promise<void> {
    this.check("unlink", path);
    await this.inner.unlink(path);
  }
  async syncDir(dir: string): Promise<void> {
    this.check("syncDir", dir);
    await this.inner.syncDir(dir);
  }

  private forWrite(
    op: "write" | "writeNow",
    path: string,
    length: number,
    some: (n: number) => void,
  ): number {
    this.calls.write += 1;
    try {
      this.check(op, path);
    } catch (error) {
      if (this.shortWrite > 0) some(Math.min(this.shortWrite, length));
      throw error;
    }
    return Math.min(length, this.writeAtMost);
  }

  private forSync(op: "sync" | "datasync", path: string, inner: DiskFile): void {
    try {
      this.check(op, path);
    } catch (error) {
      if (inner instanceof MemoryFile) inner.inode.failSync();
      throw error;
    }
  }

  private check(op: DiskOp, path: string, reading = false): void {
    this.counts[op] += 1;
    const kind = op === "writeNow" ? "write" : op;
    const lasting = reading || !path.includes(this.only) ? undefined : this.faults.get(kind as "write");
    const code = this.strike?.(op, this.counts[op], path) ?? lasting;
    if (code === undefined) return;
    throw Object.assign(new Error(`${code}: injected`), { code });
  }
}
