// A disk in memory that forgets like a real one: what was written stands in the cache until a sync, a name until its
// directory is synced, and a sync that failed leaves its pages clean though they never reached the disk. `image()` is
// what a machine that loses its power now would find.

import { dirname } from "node:path";
import type { Disk, DiskFile, Looked } from "../../bus/state/disk.ts";

const PAGE = 4096;

/** What of the writes that nobody waited for has reached the disk by itself. */
export type Luck = "none" | "all" | "half";

export class Inode {
  cache: Buffer = Buffer.alloc(0);
  stored: Buffer = Buffer.alloc(0);
  /** Pages that the disk does not have, in the order of their writes. */
  dirty = new Set<number>();

  write(bytes: Buffer, at: number): void {
    this.resize(Math.max(this.cache.length, at + bytes.length));
    bytes.copy(this.cache, at);
    for (let page = Math.floor(at / PAGE); page * PAGE < at + bytes.length; page++) this.dirty.add(page);
  }

  resize(length: number): void {
    if (length === this.cache.length) return;
    const grown = Buffer.alloc(length);
    this.cache.copy(grown, 0, 0, length);
    // The page at the edge changes with the length.
    this.dirty.add(Math.floor(Math.min(length, this.cache.length) / PAGE));
    this.cache = grown;
  }

  sync(): void {
    this.stored = this.withPages([...this.dirty]);
    this.dirty.clear();
  }

  /** As the kernel does it: the error is told once, the pages count as clean. */
  failSync(): void {
    this.dirty.clear();
  }

  /** The stored bytes with these pages of the cache on top. */
  withPages(pages: number[]): Buffer {
    if (pages.length === 0) return this.stored;
    const whole = pages.length === this.dirty.size;
    const reach = Math.max(this.stored.length, (Math.max(...pages) + 1) * PAGE);
    const length = whole ? this.cache.length : Math.min(reach, this.cache.length);
    const bytes = Buffer.alloc(length);
    this.stored.copy(bytes, 0, 0, length);
    for (const page of pages)
      if (page * PAGE < this.cache.length)
        this.cache.copy(bytes, page * PAGE, page * PAGE, (page + 1) * PAGE);
    return bytes;
  }
}

export class MemoryDisk implements Disk {
  readonly #names = new Map<string, Inode>();
  readonly #storedNames = new Map<string, Inode>();
  readonly #dirs: Set<string>;
  readonly #storedDirs: Set<string>;

  /** `root` is there, durably. */
  constructor(readonly root: string) {
    this.#dirs = new Set([root]);
    this.#storedDirs = new Set([root]);
  }

  /** The disk after a loss of power. */
  image(luck: Luck): MemoryDisk {
    const after = new MemoryDisk(this.root);
    for (const dir of this.#storedDirs) for (const set of [after.#dirs, after.#storedDirs]) set.add(dir);
    for (const [path, inode] of this.#storedNames) {
      const pages = [...inode.dirty];
      const reached =
        luck === "all" ? pages : luck === "none" ? [] : pages.slice(0, Math.ceil(pages.length / 2));
      const copy = new Inode();
      copy.stored = Buffer.from(inode.withPages(reached));
      copy.cache = Buffer.from(copy.stored);
      for (const names of [after.#names, after.#storedNames]) names.set(path, copy);
    }
    return after;
  }

  /** What a program sees in a file now. */
  bytes(path: string): Buffer | undefined {
    return this.#names.get(path)?.cache;
  }

  /** Puts other bytes there, as damage does; without bytes the file is gone. */
  put(path: string, bytes?: Buffer): void {
    if (!bytes) {
      this.#names.delete(path);
      return;
    }
    const inode = new Inode();
    inode.write(bytes, 0);
    this.#names.set(path, inode);
  }

  get paths(): string[] {
    return [...this.#names.keys()].sort();
  }

  async open(path: string, flags: string): Promise<DiskFile> {
    let inode = this.#names.get(path);
    if (inode && flags.includes("x")) throw errno("EEXIST", path);
    if (!inode) {
      if (flags.startsWith("r")) throw errno("ENOENT", path);
      if (!this.#dirs.has(dirname(path))) throw errno("ENOENT", path);
      inode = new Inode();
      this.#names.set(path, inode);
    } else if (flags.startsWith("w")) inode.resize(0);
    return new MemoryFile(inode);
  }

  async look(path: string): Promise<Looked | undefined> {
    if (this.#dirs.has(path)) return { kind: "other", uid: 0, mode: 0o700 };
    return this.#names.has(path) ? { kind: "file", uid: 0, mode: 0o600 } : undefined;
  }

  async list(dir: string): Promise<string[]> {
    const names = [...this.#names.keys()].filter((path) => dirname(path) === dir);
    return names.map((path) => path.slice(dir.length + 1));
  }

  async mkdir(dir: string): Promise<void> {
    if (this.#dirs.has(dir)) return;
    if (dir === dirname(dir)) throw errno("ENOENT", dir);
    await this.mkdir(dirname(dir));
    this.#dirs.add(dir);
  }

  async rename(from: string, to: string): Promise<void> {
    const inode = this.#names.get(from);
    if (!inode) throw errno("ENOENT", from);
    this.#names.delete(from);
    this.#names.set(to, inode);
  }

  async unlink(path: string): Promise<void> {
    if (!this.#names.delete(path)) throw errno("ENOENT", path);
  }

  async syncDir(dir: string): Promise<void> {
    if (!this.#dirs.has(dir)) throw errno("ENOENT", dir);
    for (const each of this.#dirs) if (dirname(each) === dir) this.#storedDirs.add(each);
    for (const path of [...this.#storedNames.keys()])
      if (dirname(path) === dir && !this.#names.has(path)) this.#storedNames.delete(path);
    for (const [path, inode] of this.#names) if (dirname(path) === dir) this.#storedNames.set(path, inode);
  }
}

export class MemoryFile implements DiskFile {
  constructor(readonly inode: Inode) {}
  async read(buffer: Buffer, offset: number, length: number, position: number) {
    const end = Math.min(position + length, this.inode.cache.length);
    return { bytesRead: this.inode.cache.copy(buffer, offset, Math.min(position, end), end) };
  }
  async write(buffer: Buffer, offset: number, length: number, position: number) {
    return { bytesWritten: this.writeNow(buffer, offset, length, position) };
  }
  writeNow(buffer: Buffer, offset: number, length: number, position: number): number {
    this.inode.write(buffer.subarray(offset, offset + length), position);
    return length;
  }
  async datasync(): Promise<void> {
    this.inode.sync();
  }
  async sync(): Promise<void> {
    this.inode.sync();
  }
  async truncate(length: number): Promise<void> {
    this.inode.resize(length);
  }
  async stat() {
    return { size: this.inode.cache.length };
  }
  async close(): Promise<void> {}
}

function errno(code: string, path: string): Error {
  return Object.assign(new Error(`${code}: ${path}`), { code, path });
}
