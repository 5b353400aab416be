// A closed segment, packed: `<first>.jsonl.gz`, gzip members one after another (so `zcat` reads it), each a block of whole
// lines. A member says its own size in gzip's extra field, so that a reader goes from one to the next, or to any one whose
// place it knows, without unpacking what lies between. Packing and unpacking run outside of the loop.

import { promisify } from "node:util";
import { constants, crc32, deflateRaw, gunzip } from "node:zlib";
import { type DiskFile, readAt } from "./disk.ts";

/** Members on their way at once: the next is ready when one was looked through. */
const AHEAD = 3;
/** No member is larger: a single record may be as long as a frame. */
const MAX_RAW_BYTES = 128 * 1024 * 1024;

/** Where a member lies in its file. */
export interface Member {
  offset: number;
  size: number;
  /** Size of its lines. */
  raw: number;
}

/** A packed file that is not as it was written. */
export class PackedFault extends Error {}

// ID1 ID2 CM FLG=FEXTRA MTIME XFL OS | XLEN | SI1 SI2 LEN | size of the member | size of its lines
const HEAD = Buffer.from([0x1f, 0x8b, 8, 4, 0, 0, 0, 0, 0, 255, 12, 0, 0x62, 0x62, 8, 0]);
const HEAD_BYTES = HEAD.length + 8;
const TAIL_BYTES = 8;

const deflate = promisify(deflateRaw);
const inflate = promisify(gunzip) as (bytes: Buffer, options: object) => Promise<Buffer>;

export async function packMember(lines: Buffer): Promise<Buffer> {
  const body = (await deflate(lines, { level: 6, chunkSize: 64 * 1024 })) as Buffer;
  const size = HEAD_BYTES + body.length + TAIL_BYTES;
  const ends = Buffer.alloc(8 + TAIL_BYTES);
  ends.writeUInt32LE(size, 0);
  ends.writeUInt32LE(lines.length, 4);
  ends.writeUInt32LE(crc32(lines), 8);
  ends.writeUInt32LE(lines.length, 12);
  return Buffer.concat([HEAD, ends.subarray(0, 8), body, ends.subarray(8)]);
}

/** The members of a file, in order. Throws PackedFault at the first that is none. */
export async function* members(file: DiskFile): AsyncGenerator<Member> {
  const { size: end } = await file.stat();
  for (let offset = 0; offset < end; ) {
    const head = await readAt(file, offset, HEAD_BYTES);
    const size = head.length === HEAD_BYTES ? head.readUInt32LE(HEAD.length) : 0;
    const known = head.subarray(0, HEAD.length).equals(HEAD);
    if (!known || size <= HEAD_BYTES + TAIL_BYTES || offset + size > end)
      throw new PackedFault(`at byte ${offset} there is no whole block`);
    const raw = head.readUInt32LE(HEAD.length + 4);
    yield { offset, size, raw };
    offset += size;
  }
}

/** The lines of one member; gzip's own checksum is checked. */
export async function unpack(file: DiskFile, member: Member): Promise<Buffer> {
  const { offset, size, raw } = member;
  const bytes = await readAt(file, offset, size);
  try {
    if (raw > MAX_RAW_BYTES) throw new Error("its size cannot be right");
    const lines = await inflate(bytes, {
      chunkSize: Math.max(raw + 1, constants.Z_MIN_CHUNK),
      maxOutputLength: Math.max(raw, 1),
    });
    if (lines.length !== raw) throw new Error(`it holds ${lines.length} bytes instead of ${raw}`);
    return lines;
  } catch (error) {
    throw new PackedFault(`the block at byte ${offset} cannot be unpacked: ${(error as Error).message}`);
  }
}

/** Several members in the order given, some of them being unpacked while one is looked at. */
export async function* unpackAll(file: DiskFile, wanted: readonly Member[]): AsyncGenerator<Buffer> {
  const ahead: Promise<Buffer>[] = [];
  let next = 0;
  try {
    while (next < wanted.length || ahead.length > 0) {
      while (ahead.length < AHEAD && next < wanted.length) {
        const lines = unpack(file, wanted[next++] as Member);
        lines.catch(() => {}); // is told where it is waited for
        ahead.push(lines);
      }
      yield await (ahead.shift() as Promise<Buffer>);
    }
  } finally {
    await Promise.allSettled(ahead);
  }
}
