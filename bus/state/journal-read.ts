// Reading the journal back, for questions and subscribers: in either direction, with what a question says beforehand
// (ReadHint). Blocks of packed segments that cannot hold an answer are not unpacked; in what is read, the words are looked for in the
// bytes, and only lines that hold them are parsed. Between two pages others get their turn.

import type { JournalRecord } from "../../schemas/events.ts";
import type { Disk, DiskFile } from "./disk.ts";
import { isErrno } from "./errno.ts";
import type { Position, ReadHint } from "./journal.ts";
import { parseLine } from "./journal-scan.ts";
import { type Member, members, unpackAll } from "./packed.ts";
import { type Block, SegmentIndex } from "./segment-index.ts";
import {
  indexPath,
  listSegments,
  openSegment,
  plainPages,
  plainPagesBack,
  type Segment,
  seqOf,
} from "./segments.ts";

export interface ReaderPorts {
  disk: Disk;
  dir: string;
  key: Buffer;
}

/** Indexes kept in memory, a few ten kilobytes each. */
const MAX_INDEXES = 100;
const NEWLINE = 10;
const TS = /"ts":"([^"]{24})"/;

interface Query {
  needles: Buffer[];
  hint: ReadHint;
  back: boolean;
  /** Whether a block with these records may hold some that are wanted. */
  inRange(first: number, last: number): boolean;
  /** Where the written part of the last segment ends. */
  end: Position;
}

export class JournalReader {
  readonly #indexes = new Map<number, SegmentIndex>();

  constructor(private readonly ports: ReaderPorts) {}

  /** Records after `seq`, up to `end`. */
  async *from(seq: number, end: Position, hint: ReadHint = {}): AsyncGenerator<JournalRecord[]> {
    const segments = await this.#written(end);
    let last = seq;
    const query = this.#query(hint, end, false, (_, newest) => newest > seq);
    for (const [i, segment] of segments.entries()) {
      const after = segments[i + 1];
      if (after && after.first <= last + 1) continue;
      for await (const page of this.#pages(segment, query)) {
        // Also passes over a record that stands there twice.
        const fresh = linesHolding(page, query).filter((line) => {
          const found = seqOf(line) ?? 0;
          if (found <= last) return false;
          last = found;
          return true;
        });
        if (fresh.length > 0) yield fresh.map(parseLine);
      }
    }
  }

  /** Records before `seq`, newest first. */
  async *back(seq: number, end: Position, hint: ReadHint = {}): AsyncGenerator<JournalRecord[]> {
    let below = Math.min(seq, end.seq + 1);
    const query = this.#query(hint, end, true, (oldest) => oldest < seq);
    for (const segment of (await this.#written(end)).reverse()) {
      if (segment.first >= below) continue;
      for await (const page of this.#pages(segment, query)) {
        const fresh = linesHolding(page, query)
          .reverse()
          .filter((line) => {
            const found = seqOf(line) ?? Number.POSITIVE_INFINITY;
            if (found >= below) return false;
            below = found;
            return true;
          });
        if (fresh.length > 0) yield fresh.map(parseLine);
      }
    }
  }

  #query(hint: ReadHint, end: Position, back: boolean, inRange: Query["inRange"]): Query {
    return { hint, end, back, inRange, needles: (hint.needles ?? []).map((needle) => Buffer.from(needle)) };
  }

  async #written(end: Position): Promise<Segment[]> {
    const all = await listSegments(this.ports.disk, this.ports.dir);
    return all.filter((s) => s.first <= end.seq);
  }

  async *#pages(segment: Segment, query: Query): AsyncGenerator<Buffer> {
    const opened = await openSegment(this.ports.disk, segment);
    if (!opened) return;
    const { file, packed } = opened;
    try {
      if (packed) {
        const blocks = await this.#blocks(segment, file, query);
        yield* unpackAll(file, query.back ? blocks.reverse() : blocks);
        return;
      }
      const size = (await file.stat()).size;
      const to = segment.first === query.end.segment ? query.end.offset : size;
      yield* query.back ? plainPagesBack(file, to) : plainPages(file, 0, to);
    } finally {
      await file.close();
    }
  }

  /** Those that may hold an answer; all of them where there is no index. */
  async #blocks(segment: Segment, packed: DiskFile, query: Query): Promise<Member[]> {
    const path = indexPath(this.ports.dir, segment.first);
    const file = await this.ports.disk.open(path, "r").catch(absent);
    if (!file) return allOf(packed);
    try {
      const index = this.#indexes.get(segment.first) ?? (await SegmentIndex.read(file, this.ports.key));
      const last = index?.blocks.at(-1);
      if (!index || !last || last.offset + last.size !== (await packed.stat()).size) return allOf(packed);
      this.#keep(segment.first, index);
      const holding = await index.holding(file, query.hint.needles ?? []);
      if (!holding) {
        this.#indexes.delete(segment.first);
        return allOf(packed);
      }
      return index.blocks.filter((block, i) => holding.has(i) && mayHold(block, query));
    } finally {
      await file.close();
    }
  }

  #keep(first: number, index: SegmentIndex): void {
    this.#indexes.delete(first);
    this.#indexes.set(first, index);
    if (this.#indexes.size <= MAX_INDEXES) return;
    for (const oldest of this.#indexes.keys()) {
      this.#indexes.delete(oldest);
      return;
    }
  }
}

function mayHold(block: Block, { hint, inRange }: Query): boolean {
  if (hint.since !== undefined && block.latest < hint.since) return false;
  if (hint.until !== undefined && block.earliest > hint.until) return false;
  return inRange(block.first, block.last);
}

async function allOf(file: DiskFile): Promise<Member[]> {
  const all: Member[] = [];
  for await (const member of members(file)) all.push(member);
  return all;
}

function absent(error: unknown): undefined {
  if (!isErrno(error, "ENOENT")) throw error;
}

/** The lines of a page that hold all needles and lie in the time asked for. */
function linesHolding(page: Buffer, { needles, hint }: Query): Buffer[] {
  const [first, ...others] = needles;
  const lines: Buffer[] = [];
  const find = (from: number) => (first ? page.indexOf(first, from) : from < page.length ? from : -1);
  for (let at = find(0); at >= 0; ) {
    const start = page.lastIndexOf(NEWLINE, at - 1) + 1;
    const stop = page.indexOf(NEWLINE, at);
    const line = page.subarray(at === 0 ? 0 : start, stop < 0 ? page.length : stop);
    if (line.length > 0 && others.every((needle) => line.includes(needle)) && isInTime(line, hint))
      lines.push(line);
    at = stop < 0 ? -1 : find(stop + 1);
  }
  return lines;
}

function isInTime(line: Buffer, { since, until }: ReadHint): boolean {
  if (since === undefined && until === undefined) return true;
  const ts = TS.exec(line.toString("latin1", 0, 80))?.[1];
  return ts === undefined || ((since === undefined || ts >= since) && (until === undefined || ts <= until));
}
