// Packs closed segments in the background. One segment goes this way:
//
// 1. Its lines are read in blocks; each must follow the one before (a damaged file stays as it is, and is said).
// 2. Blocks are packed into a temporary file, synced, read back and compared with what was read.
// 3. The index is put in place, then the packed file, both durable; only then the plain file goes.
// A crash leaves the plain file, which counts, beside leftovers that the next turn writes over; or the plain file is gone.
// What the disk refused (it is full, too many files are open) is tried again at growing distances, bounded: every try reads
// and writes a whole file. What was seen to be wrong with a file stays wrong.

import { createHash, type Hash } from "node:crypto";
import { BusbarError } from "../../schemas/errors.ts";
import { faultPoint } from "../../schemas/fault-points.ts";
import type { Log } from "../../schemas/ports.ts";
import { claimedMac, follows } from "./chain.ts";
import { type Disk, type DiskFile, writeAll } from "./disk.ts";
import { isErrno } from "./errno.ts";
import type { Position } from "./journal.ts";
import { parseLine } from "./journal-scan.ts";
import { members, PackedFault, packMember, unpack } from "./packed.ts";
import { IndexMaker, SegmentIndex, writeIndex } from "./segment-index.ts";
import { indexPath, listSegments, packedPath, plainPages, type Segment } from "./segments.ts";

export interface PackerPorts {
  disk: Disk;
  dir: string;
  key: Buffer;
  log: Log;
  /** Milliseconds from a clock that never jumps. */
  monotonic(): number;
}

const FIRST_PAUSE_MS = 60_000;
const LONGEST_PAUSE_MS = 3_600_000;
/** Lines looked at before others get their turn: about a millisecond. */
const LINES_AT_ONCE = 100;
const NEWLINE = 10;

/** Why a segment stays as it is. */
class NotPacked extends Error {}

/** Whether the file itself is the reason: another try would find the same. */
function isFinal(error: unknown): boolean {
  return error instanceof NotPacked || error instanceof PackedFault || error instanceof BusbarError;
}

/** A segment that could not be packed. */
interface Left {
  why: string;
  pause: number;
  /** When it is tried again; for a final reason never. */
  again: number;
}

export class Packer {
  #running: Promise<void> | undefined;
  #stopped = false;
  readonly #left = new Map<number, Left>();
  /** Segments whose index is known to be good. */
  readonly #indexed = new Set<number>();

  constructor(private readonly ports: PackerPorts) {}

  /** Packs what is closed and lies wholly before this place. Never fails: what is not packed now is packed later. */
  run(before: Position): Promise<void> {
    if (this.#stopped) return Promise.resolve();
    this.#running ??= this.#all(before)
      .catch((error: unknown) => this.ports.log.warn("the journal was not tidied up", { why: String(error) }))
      .finally(() => {
        this.#running = undefined;
      });
    return this.#running;
  }

  async stop(): Promise<void> {
    this.#stopped = true;
    await this.#running;
  }

  async #all(before: Position): Promise<void> {
    const { disk, dir } = this.ports;
    for (const segment of await listSegments(disk, dir)) {
      const { first, packed } = segment;
      if (this.#stopped || first >= before.segment) return;
      const left = this.#left.get(first);
      if ((left && this.ports.monotonic() < left.again) || (packed && this.#indexed.has(first))) continue;
      try {
        if (packed) await this.#mendIndex(segment);
        else await this.#pack(segment);
        this.#indexed.add(first);
        this.#left.delete(first);
      } catch (error) {
        if (this.#stopped) return;
        this.#leave(segment, error);
      }
    }
  }

  /** Said once for every reason. */
  #leave({ first, path }: Segment, error: unknown): void {
    const before = this.#left.get(first);
    const pause = before ? Math.min(before.pause * 2, LONGEST_PAUSE_MS) : FIRST_PAUSE_MS;
    const again = isFinal(error) ? Number.POSITIVE_INFINITY : this.ports.monotonic() + pause;
    const why = (error as Error).message;
    this.#left.set(first, { why, pause, again });
    if (why !== before?.why)
      this.ports.log.warn("a closed file of the journal was left as it is; nothing is lost by that", {
        file: path,
        why,
      });
  }

  async #pack(segment: Segment): Promise<void> {
    const { disk, dir } = this.ports;
    const target = packedPath(dir, segment.first);
    const temporary = `${target}.tmp`;
    const maker = new IndexMaker();
    try {
      await this.#writePacked(segment, temporary, maker);
      await this.#putIndex(segment, maker);
      faultPoint("bus.pack.before-rename");
      await disk.rename(temporary, target);
      faultPoint("bus.pack.before-sync-directory");
      await disk.syncDir(dir);
    } catch (error) {
      faultPoint("bus.pack.before-clean-up");
      await disk.unlink(temporary).catch(() => {});
      throw error;
    }
    faultPoint("bus.pack.before-remove-plain");
    await disk.unlink(segment.path);
    faultPoint("bus.pack.before-sync-removal");
    await disk.syncDir(dir);
  }

  async #writePacked(segment: Segment, temporary: string, maker: IndexMaker): Promise<void> {
    const { disk } = this.ports;
    const plain = await disk.open(segment.path, "r");
    const hash = createHash("sha256");
    try {
      faultPoint("bus.pack.before-open");
      const packed = await disk.open(temporary, "w+", 0o600);
      try {
        await this.#writeBlocks(plain, packed, maker, hash);
        faultPoint("bus.pack.before-sync");
        await packed.sync();
        await this.#compare(packed, hash.digest("hex"));
      } finally {
        await packed.close();
      }
    } finally {
      await plain.close();
    }
  }

  async #writeBlocks(plain: DiskFile, packed: DiskFile, maker: IndexMaker, hash: Hash): Promise<void> {
    let offset = 0;
    let previous: Buffer | undefined;
    for await (const page of plainPages(plain, 0, Number.POSITIVE_INFINITY)) {
      if (page.at(-1) !== NEWLINE) throw new NotPacked("its last line has no end");
      previous = await this.#look(page, maker, previous);
      hash.update(page);
      const bytes = await packMember(page);
      faultPoint("bus.pack.before-write");
      await writeAll(packed, bytes, offset);
      maker.close({ offset, size: bytes.length, raw: page.length });
      offset += bytes.length;
    }
  }

  /** Puts the records of a page into the index; each must follow the one before. Gives the last line. */
  async #look(page: Buffer, maker: IndexMaker, before?: Buffer): Promise<Buffer | undefined> {
    let previous = before;
    let count = 0;
    for (let start = 0; start < page.length; ) {
      const stop = page.indexOf(NEWLINE, start);
      const line = page.subarray(start, stop);
      start = stop + 1;
      if (previous && !previous.equals(line) && !follows(this.ports.key, claimedMac(previous) ?? "", line))
        throw new NotPacked("a record in it does not follow the one before");
      maker.add(parseLine(line));
      previous = line;
      if (++count % LINES_AT_ONCE === 0) await this.#turn();
    }
    return previous;
  }

  async #turn(): Promise<void> {
    await new Promise((resolve) => setImmediate(resolve));
    if (this.#stopped) throw new NotPacked("the bus is ending");
  }

  async #compare(packed: DiskFile, digest: string): Promise<void> {
    const hash = createHash("sha256");
    for await (const member of members(packed)) hash.update(await unpack(packed, member));
    if (hash.digest("hex") !== digest) throw new NotPacked("what was written is not what was read back");
  }

  async #putIndex(segment: Segment, maker: IndexMaker): Promise<void> {
    const { disk, dir, key } = this.ports;
    const path = indexPath(dir, segment.first);
    const temporary = `${path}.tmp`;
    try {
      await writeIndex(disk, temporary, maker, key);
      faultPoint("bus.index.before-rename");
      await disk.rename(temporary, path);
      faultPoint("bus.index.before-sync-directory");
      await disk.syncDir(dir);
    } catch (error) {
      faultPoint("bus.index.before-clean-up");
      await disk.unlink(temporary).catch(() => {});
      throw error;
    }
  }

  /** Makes the index of a packed segment anew where it is missing or not good. */
  async #mendIndex(segment: Segment): Promise<void> {
    const { disk, dir, key } = this.ports;
    const there = await disk.open(indexPath(dir, segment.first), "r").catch((error: unknown) => {
      if (!isErrno(error, "ENOENT")) throw error;
      return undefined;
    });
    const good = there && (await SegmentIndex.read(there, key).finally(() => there.close()));
    if (good) return;
    const packed = await disk.open(segment.path, "r");
    const maker = new IndexMaker();
    try {
      let previous: Buffer | undefined;
      for await (const member of members(packed)) {
        previous = await this.#look(await unpack(packed, member), maker, previous);
        maker.close(member);
      }
    } finally {
      await packed.close();
    }
    await this.#putIndex(segment, maker);
  }
}
