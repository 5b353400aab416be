// The index of a packed segment, `<first>.idx`: which block holds which records, and in which blocks a term (`"task":"a"`,
// `"request_id":"x"`, a member of a record as it stands in its JSON) occurs. A question reads of it only what it needs. It can be made anew
// from the segment at any time, and only questions use it: what proves the journal never looks at it. It is sealed
// with the bus's key, so that nobody hides records from a question by a forged one.
//
//   magic, version, blocks, entries | per block: offset, size, raw, first seq, last seq, earliest, latest | 257 x where the
//   entries of a first byte of the hash begin | entries, sorted: hash of a term, block | seal

import { createHmac, timingSafeEqual } from "node:crypto";
import { crc32 } from "node:zlib";
import type { JournalRecord } from "../../schemas/events.ts";
import { faultPoint } from "../../schemas/fault-points.ts";
import { type Disk, type DiskFile, readAt, writeAll } from "./disk.ts";
import type { Member } from "./packed.ts";

/** A block of a packed segment, and what is in it. */
export interface Block extends Member {
  first: number;
  last: number;
  /** ISO 8601, UTC: the earliest and the latest time of its records (a clock may jump). */
  earliest: string;
  latest: string;
}

const MAGIC = 0x58494242;
const VERSION = 1;
const HEAD_BYTES = 16;
const BLOCK_BYTES = 48;
const FANOUT_BYTES = 257 * 4;
const ENTRY_BYTES = 8;
const SEAL_BYTES = 32;
const READ_BYTES = 256 * 1024;
/** Members of a record that questions ask for. */
const TERMS = ["kind", "actor", "request_id", "run", "task", "method"] as const;

export function term(name: string, value: string): string {
  return `"${name}":${JSON.stringify(value)}`;
}

/** Gathers what an index says, block by block. */
export class IndexMaker {
  readonly #blocks: Block[] = [];
  /** By the first byte of the hash: hash and block as one number. */
  readonly #buckets: number[][] = Array.from({ length: 256 }, () => []);
  #terms = new Set<number>();
  #open: Omit<Block, keyof Member> | undefined;

  add({ seq, ts, ...record }: JournalRecord): void {
    this.#open ??= { first: seq, last: seq, earliest: ts, latest: ts };
    const open = this.#open;
    open.last = seq;
    if (ts < open.earliest) open.earliest = ts;
    if (ts > open.latest) open.latest = ts;
    for (const name of TERMS) {
      const value = record[name];
      if (value !== undefined) this.#terms.add(crc32(term(name, value)));
    }
  }

  /** What was added since the last one lies in this member. */
  close(member: Member): void {
    if (!this.#open) return;
    const number = this.#blocks.length;
    this.#blocks.push({ ...this.#open, ...member });
    for (const hash of this.#terms) this.#buckets[hash >>> 24]!.push(hash * 2 ** 20 + number);
    this.#terms = new Set();
    this.#open = undefined;
  }

  /** In pieces; sorting one costs little. */
  *pieces(key: Buffer): Generator<Buffer> {
    const seal = createHmac("sha256", key);
    for (const piece of this.#unsealed()) {
      seal.update(piece);
      yield piece;
    }
    yield seal.digest();
  }

  *#unsealed(): Generator<Buffer> {
    const count = this.#buckets.reduce((sum, bucket) => sum + bucket.length, 0);
    const head = Buffer.alloc(HEAD_BYTES);
    [MAGIC, VERSION, this.#blocks.length, count].forEach((value, i) => void head.writeUInt32LE(value, i * 4));
    yield head;
    yield Buffer.concat(this.#blocks.map(blockBytes));
    const fanout = Buffer.alloc(FANOUT_BYTES);
    let at = 0;
    this.#buckets.forEach((bucket, i) => {
      fanout.writeUInt32LE(at, i * 4);
      at += bucket.length;
    });
    fanout.writeUInt32LE(at, 256 * 4);
    yield fanout;
    for (const bucket of this.#buckets) {
      const sorted = Float64Array.from(bucket).sort();
      const bytes = Buffer.alloc(sorted.length * ENTRY_BYTES);
      sorted.forEach((both, i) => {
        const hash = Math.floor(both / 2 ** 20);
        bytes.writeUInt32LE(hash, i * ENTRY_BYTES);
        bytes.writeUInt32LE(both - hash * 2 ** 20, i * ENTRY_BYTES + 4);
      });
      yield bytes;
    }
  }
}

function blockBytes(block: Block): Buffer {
  const bytes = Buffer.alloc(BLOCK_BYTES);
  bytes.writeDoubleLE(block.offset, 0);
  bytes.writeUInt32LE(block.size, 8);
  bytes.writeUInt32LE(block.raw, 12);
  [block.first, block.last, Date.parse(block.earliest), Date.parse(block.latest)].forEach(
    (value, i) => void bytes.writeDoubleLE(value, 16 + i * 8),
  );
  return bytes;
}

function blockOf(bytes: Buffer, at: number): Block {
  const double = (i: number) => bytes.readDoubleLE(at + 16 + i * 8);
  return {
    offset: bytes.readDoubleLE(at),
    size: bytes.readUInt32LE(at + 8),
    raw: bytes.readUInt32LE(at + 12),
    first: double(0),
    last: double(1),
    earliest: new Date(double(2)).toISOString(),
    latest: new Date(double(3)).toISOString(),
  };
}

/** Writes an index as a file with this name. */
export async function writeIndex(disk: Disk, path: string, maker: IndexMaker, key: Buffer): Promise<void> {
  faultPoint("bus.index.before-open");
  const file = await disk.open(path, "w", 0o600);
  try {
    let at = 0;
    for (const piece of maker.pieces(key)) {
      faultPoint("bus.index.before-write");
      await writeAll(file, piece, at);
      at += piece.length;
    }
    faultPoint("bus.index.before-sync");
    await file.sync();
  } finally {
    await file.close();
  }
}

/** An index that is on disk: the blocks in memory, the terms looked up. */
export class SegmentIndex {
  private constructor(
    readonly blocks: readonly Block[],
    private readonly fanout: Buffer,
    private readonly entriesAt: number,
    /** Of the entries below each first byte: they are read again later, when the file may be another. */
    private readonly sums: readonly number[],
  ) {}

  /** Undefined when it is not whole, of another version, or not sealed by this key. */
  static async read(file: DiskFile, key: Buffer): Promise<SegmentIndex | undefined> {
    const { size } = await file.stat();
    const head = await readAt(file, 0, HEAD_BYTES);
    if (head.length < HEAD_BYTES || head.readUInt32LE(0) !== MAGIC || head.readUInt32LE(4) !== VERSION)
      return undefined;
    const [blocks, entries] = [head.readUInt32LE(8), head.readUInt32LE(12)];
    const entriesAt = HEAD_BYTES + blocks * BLOCK_BYTES + FANOUT_BYTES;
    if (size !== entriesAt + entries * ENTRY_BYTES + SEAL_BYTES) return undefined;
    if (!(await isSealed(file, size - SEAL_BYTES, key))) return undefined;
    const table = await readAt(file, HEAD_BYTES, blocks * BLOCK_BYTES);
    const list = Array.from({ length: blocks }, (_, i) => blockOf(table, i * BLOCK_BYTES));
    const fanout = await readAt(file, entriesAt - FANOUT_BYTES, FANOUT_BYTES);
    const sums: number[] = [];
    const index = new SegmentIndex(list, fanout, entriesAt, sums);
    for (let bucket = 0; bucket < 256; bucket++) sums.push(crc32(await index.#entries(file, bucket)));
    return index;
  }

  /** Numbers of the blocks that may hold all of these terms; undefined when the file is not the one that was read. */
  async holding(file: DiskFile, terms: readonly string[]): Promise<Set<number> | undefined> {
    let found = new Set(this.blocks.keys());
    for (const each of terms) {
      const own = await this.#holdingOne(file, crc32(each));
      if (!own) return undefined;
      found = new Set([...found].filter((block) => own.has(block)));
    }
    return found;
  }

  #entries(file: DiskFile, bucket: number): Promise<Buffer> {
    const from = this.fanout.readUInt32LE(bucket * 4);
    const to = this.fanout.readUInt32LE((bucket + 1) * 4);
    return readAt(file, this.entriesAt + from * ENTRY_BYTES, (to - from) * ENTRY_BYTES);
  }

  async #holdingOne(file: DiskFile, hash: number): Promise<Set<number> | undefined> {
    const bytes = await this.#entries(file, hash >>> 24);
    if (crc32(bytes) !== this.sums[hash >>> 24]) return undefined;
    const found = new Set<number>();
    for (let at = 0; at < bytes.length; at += ENTRY_BYTES)
      if (bytes.readUInt32LE(at) === hash) found.add(bytes.readUInt32LE(at + 4));
    return found;
  }
}

async function isSealed(file: DiskFile, length: number, key: Buffer): Promise<boolean> {
  const seal = createHmac("sha256", key);
  for (let at = 0; at < length; at += READ_BYTES)
    seal.update(await readAt(file, at, Math.min(READ_BYTES, length - at)));
  const there = await readAt(file, length, SEAL_BYTES);
  return there.length === SEAL_BYTES && timingSafeEqual(there, seal.digest());
}
