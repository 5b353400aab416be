// The journal in files: opening (scan, cut a torn tail), appending (journal.ts), reading back. See journal.ts for the rules.

import type { Removed } from "../../schemas/answers.ts";
import type { JournalRecord } from "../../schemas/events.ts";
import { faultPoint } from "../../schemas/fault-points.ts";
import { readBeginning } from "./beginning.ts";
import { type DiskFile, readAt, writeAll } from "./disk.ts";
import type { Missing } from "./gap.ts";
import type { Batch, Beginning, Damage, Journal, Position, Proof, ReadHint, Retire } from "./journal.ts";
import { JournalReader } from "./journal-read.ts";
import { cutTorn, damaged, parseLine, type Scan, START, scan } from "./journal-scan.ts";
import { JournalWriter, type WriterPorts } from "./journal-writer.ts";
import { proveStart } from "./opening.ts";
import { Packer } from "./packer.ts";
import { Retention } from "./retention.ts";
import { listSegments, segmentPath, seqOf } from "./segments.ts";

const CHUNK_BYTES = 1024 * 1024;

export class FileJournal implements Journal {
  private readonly reader: JournalReader;
  private readonly packer: Packer;
  private readonly retention: Retention;
  /** A proof and the removal of files do not mix. */
  private alone: Promise<unknown> = Promise.resolve();

  private constructor(
    private readonly ports: WriterPorts,
    private readonly writer: JournalWriter,
    readonly missing: Missing | undefined,
    beginning: Beginning | undefined,
  ) {
    this.reader = new JournalReader(ports);
    this.packer = new Packer(ports);
    this.retention = new Retention(ports, beginning);
  }

  /**
   * Gives every record after the checkpoint's place (without one: all behind the beginning) to `onRecord`; then it is open for
   * appending. Throws JOURNAL_DAMAGED. Where it ends before a record that is `known` to have been written, it goes on
   * behind that one, and `missing` says so: the next record must be a `journal.gap`.
   */
  static async open(
    ports: WriterPorts,
    checkpoint: Position | undefined,
    onRecord: (record: JournalRecord, mac: string) => void,
    known = checkpoint?.seq ?? 0,
    beginning?: Beginning,
  ): Promise<FileJournal> {
    const { disk, dir, key, log } = ports;
    faultPoint("bus.journal.before-make-directory");
    await disk.mkdir(dir);
    const after = checkpoint?.seq ?? 0;
    const onLine = (line: Buffer, mac: string) => {
      if (seqOf(line)! > after) onRecord(parseLine(line), mac);
    };
    const found = await proveStart({ disk, dir, key }, checkpoint, onLine, beginning?.place);
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
    const file = await openLast(ports, found.end, checkpoint);
    const end = { ...found.end, seq: Math.max(found.end.seq, known) };
    const missing = end.seq > found.end.seq ? { from: found.end.seq + 1, to: end.seq } : undefined;
    return new FileJournal(ports, new JournalWriter(ports, end, file), missing, beginning);
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
  get removed(): Removed | undefined {
    return this.retention.beginning?.removed;
  }
  async close(): Promise<void> {
    this.retention.stop();
    await this.packer.stop();
    await this.alone;
    await this.writer.close();
  }

  readFrom(seq: number, hint?: ReadHint): AsyncGenerator<JournalRecord[]> {
    return this.reader.from(seq, this.position, hint);
  }

  readBack(seq: number, hint?: ReadHint): AsyncGenerator<JournalRecord[]> {
    return this.reader.back(seq, this.position, hint);
  }

  async tidy(before: Position, retire?: Retire): Promise<void> {
    await this.packer.run(before);
    if (retire) await this.byItself(() => this.retention.run(before, retire));
  }

  private byItself<T>(work: () => Promise<T>): Promise<T> {
    const done = this.alone.then(work);
    this.alone = done.catch(() => {});
    return done;
  }

  durable(): Promise<Position> {
    return this.writer.durable();
  }

  verify(
    onRecord: (record: JournalRecord, mac: string) => void = () => {},
    onBeginning: (beginning: Beginning) => void = () => {},
  ): Promise<Proof> {
    return this.byItself(() => this.prove(onRecord, onBeginning));
  }

  private async prove(
    onRecord: (record: JournalRecord, mac: string) => void,
    onBeginning: (beginning: Beginning) => void,
  ): Promise<Proof> {
    const { disk, dir, key } = this.ports;
    // Read again: what was in memory proves nothing about the disk. One that is not good explains no missing file.
    const beginning = await readBeginning(this.ports).catch(() => undefined);
    if (beginning) onBeginning(beginning);
    const from = beginning?.place ?? START;
    const until = this.position.seq;
    const onLine = (line: Buffer, mac: string) => onRecord(parseLine(line), mac);
    const found =
      until === from.seq ? { end: from, records: 0 } : await scan({ disk, dir, key, from, until, onLine });
    const { records, end } = found;
    const place = { file: segmentPath(dir, end.segment), line: end.lines, seq: end.seq };
    const damage =
      found.damage ??
      (end.seq < until ? cutOff(dir, found, `the bus wrote up to record ${until}`) : undefined);
    return { records, end: place, ...(damage && { damage }) };
  }
}

function cutOff(dir: string, found: Scan, known: string): Damage {
  const { segment, lines, seq } = found.end;
  const why = `${known}, but the journal ends with record ${seq}: its tail is missing`;
  return { kind: "cut", file: segmentPath(dir, segment), line: lines + 1, seq: seq + 1, why };
}

/**
 * The last segment, with all that was found in it on the disk: that it can be read does not say so, the bus may have
 * died between a write and its sync, or after one that failed. What lies before the checkpoint was made sure of then.
 */
async function openLast({ disk, dir }: WriterPorts, end: Position, checkpoint: Position | undefined) {
  const last = (await listSegments(disk, dir)).find(({ first }) => first === end.segment);
  if (!last || last.packed) return undefined; // the next record begins a file
  faultPoint("bus.journal.before-open-last");
  const file = await disk.open(last.path, "r+");
  try {
    await writeAgain(file, checkpoint?.segment === end.segment ? checkpoint.offset : 0, end.offset);
    faultPoint("bus.journal.before-sync-last");
    await file.datasync();
    return file;
  } catch (error) {
    await file.close().catch(() => {});
    throw error;
  }
}

async function writeAgain(file: DiskFile, from: number, to: number): Promise<void> {
  for (let at = from; at < to; at += CHUNK_BYTES) {
    faultPoint("bus.journal.before-write-last-again");
    await writeAll(file, await readAt(file, at, Math.min(CHUNK_BYTES, to - at)), at);
  }
}
