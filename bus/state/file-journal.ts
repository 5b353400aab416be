// The journal in files: opening (scan, cut a torn tail), appending (journal.ts), reading back. See journal.ts for the rules.

import type { JournalRecord } from "../../schemas/events.ts";
import { type Disk, type DiskFile, readAt, writeAll } from "./disk.ts";
import type { Batch, Damage, Journal, Position, Proof } from "./journal.ts";
import { cutTorn, damaged, parseLine, type Scan, START, scan } from "./journal-scan.ts";
import { JournalWriter, type WriterPorts } from "./journal-writer.ts";
import { listSegments, readLines, readLinesBackwards, type Segment, segmentPath, seqOf } from "./segments.ts";

/** A journal up to this size is proven whole at every start; of a larger one, what comes after the checkpoint. */
export const VERIFY_AT_START_BYTES = 4 * 1024 * 1024;
const CHUNK_BYTES = 1024 * 1024;

export class FileJournal implements Journal {
  private constructor(
    private readonly ports: WriterPorts,
    private readonly writer: JournalWriter,
  ) {}

  /**
   * Gives every record after the checkpoint's place (without one: every record) to `onRecord`; then it is open for
   * appending. Throws JOURNAL_DAMAGED, also when it ends before the checkpoint.
   */
  static async open(
    ports: WriterPorts,
    checkpoint: Position | undefined,
    onRecord: (record: JournalRecord, mac: string) => void,
  ): Promise<FileJournal> {
    const { disk, dir, key, log } = ports;
    await disk.mkdir(dir);
    const known = checkpoint?.seq ?? 0;
    const small = (await sizeOfAll(ports)) <= VERIFY_AT_START_BYTES;
    const onLine = (line: Buffer, mac: string) => {
      if (seqOf(line)! > known) onRecord(parseLine(line), mac);
    };
    const found = await scan({ disk, dir, key, from: small ? START : (checkpoint ?? START), onLine });
    if (!found.damage && found.end.seq < known) {
      throw damaged(cutOff(dir, found, `the checkpoint rests on record ${known}`));
    }
    if (found.damage) throw damaged(found.damage);
    if (found.torn) {
      const kept = await cutTorn(disk, dir, found.torn, found.end.seq);
      const { path, offset, bytes, why } = found.torn;
      log.warn("the torn end of the journal was cut off; it was never acknowledged", {
        file: path,
        offset,
        bytes,
        why,
        kept,
        last_record: found.end.seq,
      });
    }
    return new FileJournal(
      ports,
      new JournalWriter(ports, found.end, await openLast(ports, found.end, checkpoint)),
    );
  }

  get position(): Position {
    return this.writer.position;
  }
  get failure(): string | undefined {
    return this.writer.failure;
  }
  get counters() {
    return this.writer.counters;
  }
  append(batch: Batch): void {
    this.writer.append(batch);
  }
  settled(): Promise<void> {
    return this.writer.settled();
  }
  close(): Promise<void> {
    return this.writer.close();
  }

  async *readFrom(seq: number, needles: readonly string[] = []): AsyncGenerator<JournalRecord[]> {
    for await (const lines of this.linesFrom(seq)) yield holding(lines, needles).map(parseLine);
  }

  async *readBack(seq: number, needles: readonly string[] = []): AsyncGenerator<JournalRecord[]> {
    for await (const lines of this.linesBack(seq)) yield holding(lines, needles).map(parseLine);
  }

  private async *linesFrom(seq: number): AsyncGenerator<Buffer[]> {
    const end = this.position;
    const segments = await this.written(end);
    let next = seq + 1;
    for (const [i, segment] of segments.entries()) {
      const after = segments[i + 1];
      if (after && after.first <= next) continue;
      const to = segment.first === end.segment ? end.offset : undefined;
      for await (const lines of readLines(this.ports.disk, segment.path, 0, to)) {
        const fresh = lines.filter((l) => inOrder(l.bytes));
        if (fresh.length > 0) yield fresh.map((l) => l.bytes);
      }
    }
    // Also passes over a record that stands there twice.
    function inOrder(line: Buffer): boolean {
      const found = seqOf(line) ?? 0;
      if (found < next) return false;
      next = found + 1;
      return true;
    }
  }

  private async *linesBack(seq: number): AsyncGenerator<Buffer[]> {
    const end = this.position;
    let below = Math.min(seq, end.seq + 1);
    for (const segment of (await this.written(end)).reverse()) {
      if (segment.first >= below) continue;
      const size =
        segment.first === end.segment ? end.offset : await sizeOfFile(this.ports.disk, segment.path);
      for await (const lines of readLinesBackwards(this.ports.disk, segment.path, size)) {
        const fresh = lines.filter((line) => {
          const found = seqOf(line) ?? Number.POSITIVE_INFINITY;
          if (found >= below) return false;
          below = found;
          return true;
        });
        if (fresh.length > 0) yield fresh;
      }
    }
  }

  private async written(end: Position): Promise<Segment[]> {
    const all = await listSegments(this.ports.disk, this.ports.dir);
    return all.filter((s) => s.first <= end.seq);
  }

  durable(): Promise<Position> {
    return this.writer.durable();
  }

  async verify(onRecord: (record: JournalRecord, mac: string) => void = () => {}): Promise<Proof> {
    const { disk, dir, key } = this.ports;
    const until = this.position.seq;
    const onLine = (line: Buffer, mac: string) => onRecord(parseLine(line), mac);
    const found =
      until === 0 ? { end: START, records: 0 } : await scan({ disk, dir, key, from: START, until, onLine });
    const { records, end } = found;
    const place = { file: segmentPath(dir, end.segment), line: end.lines, seq: end.seq };
    const damage =
      found.damage ??
      (end.seq < until ? cutOff(dir, found, `the bus wrote up to record ${until}`) : undefined);
    return { records, end: place, ...(damage && { damage }) };
  }
}

function holding(lines: Buffer[], needles: readonly string[]): Buffer[] {
  return needles.length === 0 ? lines : lines.filter((line) => needles.every((n) => line.includes(n)));
}

function cutOff(dir: string, found: Scan, known: string): Damage {
  const { segment, lines, seq } = found.end;
  const why = `${known}, but the journal ends with record ${seq}: its tail is missing`;
  return { kind: "cut", file: segmentPath(dir, segment), line: lines + 1, seq: seq + 1, why };
}

async function sizeOfAll({ disk, dir }: WriterPorts): Promise<number> {
  let sum = 0;
  for (const { path } of await listSegments(disk, dir)) sum += await sizeOfFile(disk, path);
  return sum;
}

async function sizeOfFile(disk: Disk, path: string): Promise<number> {
  const file = await disk.open(path, "r");
  try {
    return (await file.stat()).size;
  } finally {
    await file.close();
  }
}

/**
 * The last segment, with all that was found in it on the disk: that it can be read does not say so, the bus may have
 * died between a write and its sync, or after one that failed. What lies before the checkpoint was made sure of then.
 */
async function openLast({ disk, dir }: WriterPorts, end: Position, checkpoint: Position | undefined) {
  if (end.segment === 0) return undefined;
  const file = await disk.open(segmentPath(dir, end.segment), "r+");
  try {
    await writeAgain(file, checkpoint?.segment === end.segment ? checkpoint.offset : 0, end.offset);
    await file.datasync();
    return file;
  } catch (error) {
    await file.close().catch(() => {});
    throw error;
  }
}

async function writeAgain(file: DiskFile, from: number, to: number): Promise<void> {
  for (let at = from; at < to; at += CHUNK_BYTES)
    await writeAll(file, await readAt(file, at, Math.min(CHUNK_BYTES, to - at)), at);
}
