// The files of the journal: journal/<first seq, 12 digits>.jsonl, a closed one also as .jsonl.gz (packed.ts); where both are
// there, packing was not finished and the plain one counts. Reading them in pages of whole lines, forwards or backwards,
// with bounded memory.

import { join } from "node:path";
import { type Disk, type DiskFile, readAt } from "./disk.ts";
import { isErrno } from "./errno.ts";
import { type Member, members, unpackAll } from "./packed.ts";

export interface Segment {
  /** Sequence number of its first record. */
  first: number;
  path: string;
  packed: boolean;
}

export interface Line {
  /** Without the newline. */
  bytes: Buffer;
  /** Where it begins in its file, unpacked. */
  offset: number;
  /** 1 for the first line of the part that was read. */
  number: number;
  /** False for a last line without newline. */
  ended: boolean;
}

const NAME = /^(\d{12})\.jsonl(\.gz)?$/;
/** Read at once, and packed as one block: what is rare everywhere costs few bytes, and it still packs well. */
const PAGE_BYTES = 64 * 1024;
const NEWLINE = 10;

export function segmentPath(dir: string, first: number): string {
  return join(dir, `${String(first).padStart(12, "0")}.jsonl`);
}

export function packedPath(dir: string, first: number): string {
  return `${segmentPath(dir, first)}.gz`;
}

export function indexPath(dir: string, first: number): string {
  return join(dir, `${String(first).padStart(12, "0")}.idx`);
}

/** In order of their records. */
export async function listSegments(disk: Disk, dir: string): Promise<Segment[]> {
  const found = new Map<number, Segment>();
  for (const name of (await disk.list(dir)).sort()) {
    const [, digits, packed] = NAME.exec(name) ?? [];
    const first = Number(digits);
    if (digits !== undefined && !found.has(first))
      found.set(first, { first, path: join(dir, name), packed: packed !== undefined });
  }
  return [...found.values()].sort((a, b) => a.first - b.first);
}

/** Opens a segment that may be packed at this moment; undefined when it is gone. */
export async function openSegment(
  disk: Disk,
  segment: Segment,
): Promise<{ file: DiskFile; packed: boolean } | undefined> {
  const plain = segment.path.replace(/\.gz$/, "");
  const order = segment.packed ? [true, false] : [false, true];
  for (const packed of order) {
    try {
      return { file: await disk.open(packed ? `${plain}.gz` : plain, "r"), packed };
    } catch (error) {
      if (!isErrno(error, "ENOENT")) throw error;
    }
  }
  return undefined;
}

/**
 * The lines of a segment from `from` to `to` (bytes of the records), some at a time. `from` must be the start of a line.
 * Throws PackedFault where a packed one is not as it was written.
 */
export async function* readLines(
  disk: Disk,
  segment: Segment,
  from = 0,
  to = Number.POSITIVE_INFINITY,
  firstNumber = 1,
): AsyncGenerator<Line[]> {
  const opened = await openSegment(disk, segment);
  if (!opened) return;
  try {
    let offset = from;
    let number = firstNumber;
    const pages = opened.packed ? packedPages(opened.file, from) : plainPages(opened.file, from, to);
    for await (const page of pages) {
      const lines: Line[] = [];
      let start = 0;
      for (let nl = page.indexOf(NEWLINE); nl >= 0; nl = page.indexOf(NEWLINE, start)) {
        const bytes = page.subarray(start, nl);
        lines.push({ bytes, offset, number: number++, ended: true });
        offset += bytes.length + 1;
        start = nl + 1;
      }
      if (start < page.length) lines.push({ bytes: page.subarray(start), offset, number, ended: false });
      yield lines;
    }
  } finally {
    await opened.file.close();
  }
}

/** What a plain file holds from `from` to `to`, in pages of whole lines; the last may end without newline. */
export async function* plainPages(file: DiskFile, from: number, to: number): AsyncGenerator<Buffer> {
  const end = Math.min(to, (await file.stat()).size);
  let rest: Buffer[] = [];
  for (let at = from; at < end; at += PAGE_BYTES) {
    const chunk = await readAt(file, at, Math.min(PAGE_BYTES, end - at));
    if (chunk.length === 0) break;
    const stop = chunk.lastIndexOf(NEWLINE) + 1;
    if (stop > 0) {
      const head = chunk.subarray(0, stop);
      yield rest.length > 0 ? Buffer.concat([...rest, head]) : head;
      rest = [];
    }
    if (stop < chunk.length) rest.push(chunk.subarray(stop));
  }
  if (rest.length > 0) yield Buffer.concat(rest);
}

/** The same from `to` back to the start: the last page first. */
export async function* plainPagesBack(file: DiskFile, to: number): AsyncGenerator<Buffer> {
  let rest: Buffer[] = []; // the end of a line that is not whole yet, last piece first
  for (let end = to; end > 0; ) {
    const begin = Math.max(0, end - PAGE_BYTES);
    const chunk = await readAt(file, begin, end - begin);
    end = begin;
    // The first line may begin before this chunk.
    const start = begin === 0 ? 0 : chunk.indexOf(NEWLINE) + 1;
    if (begin > 0 && start === 0) {
      rest.push(chunk);
      continue;
    }
    yield Buffer.concat([chunk.subarray(start), ...rest.toReversed()]);
    rest = start > 0 ? [chunk.subarray(0, start)] : [];
  }
  if (rest.length > 0) yield Buffer.concat(rest.toReversed());
}

async function* packedPages(file: DiskFile, from: number): AsyncGenerator<Buffer> {
  const wanted: Member[] = [];
  let at = 0;
  let skipped = 0;
  for await (const member of members(file)) {
    if (at + member.raw > from) {
      if (wanted.length === 0) skipped = from - at;
      wanted.push(member);
    }
    at += member.raw;
  }
  let first = true;
  for await (const page of unpackAll(file, wanted)) {
    yield first ? page.subarray(skipped) : page;
    first = false;
  }
}

const SEQ = /^\{"v":1,"seq":(\d{1,15}),/;
/** The sequence number of a line without parsing it all; undefined when it does not begin like a record. */
export function seqOf(line: Buffer): number | undefined {
  const found = SEQ.exec(line.toString("latin1", 0, 40));
  return found ? Number(found[1]) : undefined;
}
