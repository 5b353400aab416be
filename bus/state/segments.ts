// The files of the journal: journal/<first seq, 12 digits>.jsonl, and reading them line by line, forwards or backwards,
// with bounded memory.

import { join } from "node:path";
import { type Disk, type DiskFile, readAt } from "./disk.ts";

export interface Segment {
  /** Sequence number of its first record. */
  first: number;
  path: string;
}

export interface Line {
  /** Without the newline. */
  bytes: Buffer;
  /** Where it begins in its file. */
  offset: number;
  /** 1 for the first line of the part that was read. */
  number: number;
  /** False for a last line without newline. */
  ended: boolean;
}

const NAME = /^(\d{12})\.jsonl$/;
const CHUNK_BYTES = 1024 * 1024;
const BACK_CHUNK_BYTES = 256 * 1024;
const NEWLINE = 10;

export function segmentPath(dir: string, first: number): string {
  return join(dir, `${String(first).padStart(12, "0")}.jsonl`);
}

/** In order of their records. */
export async function listSegments(disk: Disk, dir: string): Promise<Segment[]> {
  const names = (await disk.list(dir)).filter((name) => NAME.test(name)).sort();
  return names.map((name) => ({ first: Number(NAME.exec(name)![1]), path: join(dir, name) }));
}

/** The lines of a file from `from` to `to` (bytes), some at a time. `from` must be the start of a line. */
export async function* readLines(
  disk: Disk,
  path: string,
  from = 0,
  to = Number.POSITIVE_INFINITY,
  firstNumber = 1,
): AsyncGenerator<Line[]> {
  const file = await disk.open(path, "r");
  try {
    const end = Math.min(to, (await file.stat()).size);
    let rest: Buffer[] = [];
    let offset = from;
    let number = firstNumber;
    for (let at = from; at < end; at += CHUNK_BYTES) {
      const chunk = await readAt(file, at, Math.min(CHUNK_BYTES, end - at));
      const lines: Line[] = [];
      let start = 0;
      for (let nl = chunk.indexOf(NEWLINE); nl >= 0; nl = chunk.indexOf(NEWLINE, start)) {
        const piece = chunk.subarray(start, nl);
        const bytes = rest.length > 0 ? Buffer.concat([...rest, piece]) : piece;
        rest = [];
        lines.push({ bytes, offset, number: number++, ended: true });
        offset += bytes.length + 1;
        start = nl + 1;
      }
      if (start < chunk.length) rest.push(chunk.subarray(start));
      if (lines.length > 0) yield lines;
    }
    if (rest.length > 0) yield [{ bytes: Buffer.concat(rest), offset, number, ended: false }];
  } finally {
    await file.close();
  }
}

/** The complete lines of a file from `to` (bytes) back to its start, last line first, some at a time. */
export async function* readLinesBackwards(disk: Disk, path: string, to: number): AsyncGenerator<Buffer[]> {
  const file: DiskFile = await disk.open(path, "r");
  try {
    let rest: Buffer[] = []; // pieces of the line that is not whole yet, last first
    for (let end = to; end > 0; ) {
      const begin = Math.max(0, end - BACK_CHUNK_BYTES);
      const chunk = await readAt(file, begin, end - begin);
      const lines: Buffer[] = [];
      let stop = chunk.length;
      for (let nl = chunk.lastIndexOf(NEWLINE); nl >= 0; nl = chunk.lastIndexOf(NEWLINE, stop - 1)) {
        const piece = chunk.subarray(nl + 1, stop);
        if (piece.length + rest.length > 0) lines.push(Buffer.concat([piece, ...rest.reverse()]));
        rest = [];
        stop = nl;
        if (nl === 0) break;
      }
      if (stop > 0) rest.push(chunk.subarray(0, stop));
      if (lines.length > 0) yield lines;
      end = begin;
    }
    if (rest.length > 0) yield [Buffer.concat(rest.reverse())];
  } finally {
    await file.close();
  }
}

const SEQ = /^\{"v":1,"seq":(\d{1,15}),/;
/** The sequence number of a line without parsing it all; undefined when it does not begin like a record. */
export function seqOf(line: Buffer): number | undefined {
  const found = SEQ.exec(line.toString("latin1", 0, 40));
  return found ? Number(found[1]) : undefined;
}
