// What a process and all that it starts write into its own directories, held to a limit. No kernel counts that for a
// directory, so it is looked at, at a bounded cost:
//
// 1. Every sample asks the file system how much is free (one call). While that fell by less than is left of the limit,
//    nobody can have gone beyond it, unless others gave room back meanwhile: so it is looked at anyway now and then.
// 2. A look goes through the directory in slices, so that nothing else of the shim waits long. It counts what changed since
//    the start: a workspace of 27,000 files costs nothing of the limit. The moment that it is too much, the look is over.
// 3. Looks come more rarely the longer they take: never more than a small part of the time is spent on them.
//
// Files that were removed and are still open hold room, too; they are found through their holders.

import { type Dir, lstatSync, opendirSync, readdirSync, type Stats, statfsSync, statSync } from "node:fs";
import { join, relative } from "node:path";
import { limitWords, sizeWords } from "../schemas/limit-words.ts";

/** Entries looked at before others get their turn: some 20 ms. */
const SLICE = 4_000;
/** An inode is not for nothing: empty files fill a disk as well. */
const LEAST_BYTES = 4_096;
/** Part of the time that looks may take, as one in so many. */
const PART = 20;
const PART_IDLE = 1_000;
const FIRST_LOOK_MS = 5_000;
const RARELY_MS = 60_000;
/** At the end nobody waits for a tree without end. */
const LAST_ENTRIES = 400_000;
const MAX_NAMED = 3;
/** Times of files are taken from a clock that goes in steps. */
const CLOCK_STEP_MS = 20;
const BLOCK_BYTES = 512;

interface Held {
  path: string;
  bytes: number;
}

/** One look through the directory. */
class Look {
  bytes = 0;
  took = 0;
  readonly largest: Held[] = [];
  readonly #left: string[];
  readonly #seen = new Set<number>();
  #open: { dir: Dir; path: string } | undefined;

  constructor(
    top: string,
    readonly since: number,
    readonly limit: number,
  ) {
    this.#left = [top];
  }

  /** True when it is over: all was seen, or it is too much. */
  go(entries: number, now: () => number): boolean {
    const began = now();
    const over = this.#go(entries);
    this.took += now() - began;
    return over;
  }

  #go(entries: number): boolean {
    for (let n = 0; n < entries; n += 1) {
      if (this.bytes > this.limit) return this.close();
      const at = this.#open ?? this.#next();
      if (!at) return true;
      const entry = readEntry(at.dir);
      if (!entry) {
        at.dir.closeSync();
        this.#open = undefined;
      } else if (entry.isDirectory()) this.#left.push(join(at.path, entry.name));
      else
        this.add(
          join(at.path, entry.name),
          statsOf(() => lstatSync(join(at.path, entry.name))),
        );
    }
    return false;
  }

  close(): true {
    this.#open?.dir.closeSync();
    this.#open = undefined;
    return true;
  }

  /** The shallow ones first: what grows fast is mostly there. */
  #next(): { dir: Dir; path: string } | undefined {
    for (let path = this.#left.shift(); path !== undefined; path = this.#left.shift()) {
      const dir = openDirectory(path);
      if (dir) {
        this.#open = { dir, path };
        return this.#open;
      }
    }
    return undefined;
  }

  add(path: string, stats: Stats | undefined): void {
    if (!stats || stats.ctimeMs < this.since || this.#seen.has(stats.ino)) return;
    if (stats.nlink !== 1) this.#seen.add(stats.ino);
    const bytes = Math.max(stats.blocks * BLOCK_BYTES, LEAST_BYTES);
    this.bytes += bytes;
    if (this.largest.length === MAX_NAMED && bytes <= (this.largest.at(-1)?.bytes ?? 0)) return;
    this.largest.push({ path, bytes });
    this.largest.sort((a, b) => b.bytes - a.bytes);
    this.largest.length = Math.min(this.largest.length, MAX_NAMED);
  }
}

export class DiskQuota {
  readonly #dir: string;
  readonly #limit: number;
  readonly #since: number;
  readonly #now: () => number;
  #look: Look | undefined;
  #free: number;
  #used = 0;
  #ended: number;
  #rarely = FIRST_LOOK_MS;
  #pause = 0;

  /** `since`: milliseconds since 1970; `now` never jumps. */
  constructor(dir: string, limit: number, since: number, now: () => number) {
    this.#dir = dir;
    this.#limit = limit;
    this.#since = since - CLOCK_STEP_MS;
    this.#now = now;
    this.#free = freeOn(dir);
    this.#ended = now();
  }

  /** One step, for every sample. `more`: a look is on its way, ask again soon; a text: it wrote too much, what and where. */
  step(pids: () => Iterable<number>): "more" | string | undefined {
    if (!this.#look && !this.#isDue()) return undefined;
    if (!this.#look) {
      this.#look = new Look(this.#dir, this.#since, this.#limit);
      this.#free = freeOn(this.#dir);
    }
    if (!this.#look.go(SLICE, this.#now)) return "more";
    return this.#over(this.#look, pids);
  }

  /** When the process has ended: what it did last. */
  last(): string | undefined {
    this.#look?.close();
    if (this.#fell() < this.#limit - this.#used) return undefined;
    const look = new Look(this.#dir, this.#since, this.#limit);
    look.go(LAST_ENTRIES, this.#now);
    look.close();
    return this.#over(look, () => []);
  }

  #isDue(): boolean {
    const rested = this.#now() - this.#ended;
    if (rested >= this.#rarely) return true;
    return rested >= this.#pause && this.#fell() >= this.#limit - this.#used;
  }

  #fell(): number {
    return this.#free - freeOn(this.#dir);
  }

  #over(look: Look, pids: () => Iterable<number>): string | undefined {
    if (look.bytes <= this.#limit) addRemoved(look, pids());
    this.#look = undefined;
    this.#used = look.bytes;
    this.#ended = this.#now();
    this.#pause = look.took * PART;
    this.#rarely = Math.max(look.took * PART_IDLE, Math.min(this.#rarely * 2, RARELY_MS));
    if (look.bytes <= this.#limit) return undefined;
    const named = look.largest.map(({ path, bytes }) => `${this.#nameOf(path)} (${sizeWords(bytes)})`);
    return `${limitWords("disk", this.#limit)}: it wrote ${sizeWords(look.bytes)} or more, most of it in ${named.join(", ")}`;
  }

  /** As the process knows it. */
  #nameOf(path: string): string {
    return path.startsWith("/proc/") ? "a removed file that is open" : relative(this.#dir, path);
  }
}

/** Files without a name that processes hold open. */
function addRemoved(look: Look, pids: Iterable<number>): void {
  for (const pid of pids) {
    let names: string[] = [];
    try {
      names = readdirSync(`/proc/${pid}/fd`);
    } catch {
      // It has ended, or is another's.
    }
    for (const name of names) {
      const path = `/proc/${pid}/fd/${name}`;
      const stats = statsOf(() => statSync(path));
      if (stats?.isFile() && stats.nlink === 0) look.add(path, stats);
    }
  }
}

/** Bytes. */
function freeOn(dir: string): number {
  try {
    const { bavail, bsize } = statfsSync(dir);
    return bavail * bsize;
  } catch {
    return 0;
  }
}

function openDirectory(path: string): Dir | undefined {
  try {
    return opendirSync(path);
  } catch {
    return undefined; // gone, or closed to us
  }
}

function readEntry(dir: Dir): ReturnType<Dir["readSync"]> {
  try {
    return dir.readSync();
  } catch {
    return null;
  }
}

function statsOf(look: () => Stats): Stats | undefined {
  try {
    return look();
  } catch {
    return undefined;
  }
}
