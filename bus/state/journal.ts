// The journal: what happened, in order, append-only. The store talks to this interface only; a journal in a database
// can take the place of the files (test/contract/journal.test.ts is what it must pass).
//
// 1. append() queues a batch; all batches of a tick, and all that come while the disk is busy, share one write and, if
//    one of them must be durable, one fdatasync. Nothing here blocks the event loop.
// 2. Sequence number and mac are given when a batch is written, so a failed write leaves no gap.
// 3. After the write `written` is called, batch by batch, in order, synchronously: the effect is applied before
//    anybody is answered, and before the next batch is.
// 4. When a write fails, every batch that waits fails too (they were decided on top of it); the file is cut back to the
//    last good byte before anything else is written. Reads that were noted stay, up to a bound, for the next try.

import { join } from "node:path";
import { BusbarError, ioError } from "../../schemas/errors.ts";
import type { JournalRecord } from "../../schemas/events.ts";
import { JOURNAL_SEGMENT_BYTES } from "../../schemas/limits.ts";
import type { Log } from "../../schemas/ports.ts";
import { seal } from "./chain.ts";
import { type Disk, type DiskFile, writeAll } from "./disk.ts";
import { segmentPath } from "./segments.ts";

/** A record before it has its place. */
export type Unplaced = Omit<JournalRecord, "v" | "seq">;

/** Where the journal is not what it should be. */
export interface Damage {
  file: string;
  line: number;
  /** The record that should stand there. */
  seq: number;
  why: string;
}

export interface Batch {
  records: Unplaced[];
  /** False: a read that waits for nobody; written, but not waited for on the disk. */
  durable: boolean;
  written(records: JournalRecord[]): void;
  failed(error: BusbarError): void;
}

/** A place in the journal, right after a record. */
export interface Position {
  seq: number;
  mac: string;
  /** First sequence number of the segment. */
  segment: number;
  offset: number;
  /** Number of lines of the segment before this place. */
  lines: number;
}

export interface JournalCounters {
  writes: number;
  syncs: number;
  records: number;
  bytes: number;
  failures: number;
  dropped: number;
  /** Milliseconds in writes and syncs together. */
  write_ms: number;
}

export interface Journal {
  /** Place after the newest written record. */
  readonly position: Position;
  /** Why the newest write failed; undefined after one that worked. */
  readonly failure: string | undefined;
  readonly counters: Readonly<JournalCounters>;
  append(batch: Batch): void;
  /**
   * Records after `seq` up to the newest written when called, some at a time. `needles` are pieces of JSON that
   * every wanted record holds: a hint that may spare the parsing of others.
   */
  readFrom(seq: number, needles?: readonly string[]): AsyncIterable<JournalRecord[]>;
  /** The same, newest first, from the one before `seq` on. */
  readBack(seq: number, needles?: readonly string[]): AsyncIterable<JournalRecord[]>;
  /** Proves the chain of all that was written when called. */
  verify(): Promise<{ records: number; damage?: Damage }>;
  /** Waits for what is queued, then gives the files back. */
  close(): Promise<void>;
}

/** More than this waiting means that the disk cannot follow: refused instead of growing without bound. */
export const MAX_QUEUED_RECORDS = 200_000;
/** Reads kept for later while nothing can be written. */
export const MAX_KEPT_READS = 10_000;

/** While nothing can be written, a read tries again at most this often; a change of state always tries. */
const PROBE_AFTER_MS = 500;

export interface WriterPorts {
  disk: Disk;
  dir: string;
  key: Buffer;
  log: Log;
  /** Milliseconds from a clock that never jumps. */
  monotonic(): number;
  segmentBytes?: number;
}

/** The writing half of the journal in files. */
export class JournalWriter {
  failure: string | undefined;
  readonly counters: JournalCounters = {
    writes: 0,
    syncs: 0,
    records: 0,
    bytes: 0,
    failures: 0,
    dropped: 0,
    write_ms: 0,
  };
  private queue: Batch[] = [];
  private queued = 0;
  private busy: Promise<void> | undefined;
  private scheduled = false;
  private closed = false;
  /** Bytes of a failed write may stand behind the last good one. */
  private dirty = false;
  private failedAt = 0;

  constructor(
    private readonly ports: WriterPorts,
    public position: Position,
    private file: DiskFile | undefined,
  ) {}

  append(batch: Batch): void {
    if (this.closed)
      throw new BusbarError("SHUTTING_DOWN", "the bus is ending; nothing is recorded any more");
    if (!batch.durable && this.failure !== undefined && this.queued >= MAX_KEPT_READS) {
      this.counters.dropped += batch.records.length;
      if (this.mayProbe()) this.schedule();
      return;
    }
    if (this.queued + batch.records.length > MAX_QUEUED_RECORDS) {
      throw new BusbarError(
        "STORAGE",
        `${this.queued} records wait for the disk under ${this.ports.dir}; it cannot follow`,
      );
    }
    this.queue.push(batch);
    this.queued += batch.records.length;
    if (batch.durable || this.mayProbe()) this.schedule();
  }

  /** A disk that just refused is not asked again for every read. */
  private mayProbe(): boolean {
    return this.failure === undefined || this.ports.monotonic() - this.failedAt > PROBE_AFTER_MS;
  }

  private schedule(): void {
    if (this.scheduled || this.busy) return;
    this.scheduled = true;
    setImmediate(() => {
      this.scheduled = false;
      this.busy ??= this.drain().then(() => {
        this.busy = undefined;
        // what came in between the end of the loop and here
        const mine = this.failure === undefined ? this.queue : this.queue.filter((b) => b.durable);
        if (mine.length > 0) this.schedule();
      });
    });
  }

  private async drain(): Promise<void> {
    while (this.queue.length > 0) {
      const batches = this.take();
      try {
        await this.write(batches);
      } catch (error) {
        this.giveBack(batches, error);
        return; // the next append tries again
      }
    }
  }

  private take(): Batch[] {
    const batches = this.queue;
    this.queue = [];
    this.queued = 0;
    return batches;
  }

  private async write(batches: Batch[]): Promise<void> {
    const began = this.ports.monotonic();
    const file = await this.ready();
    const { text, placed, mac, seq } = this.place(batches);
    const bytes = Buffer.from(text, "utf8");
    const { offset, lines, segment } = this.position;
    this.dirty = true;
    await writeAll(file, bytes, offset);
    if (batches.some((batch) => batch.durable)) {
      await file.datasync();
      this.counters.syncs += 1;
    }
    this.dirty = false;
    const count = seq - this.position.seq;
    this.counters.writes += 1;
    this.counters.records += count;
    this.counters.bytes += bytes.length;
    this.counters.write_ms += this.ports.monotonic() - began;
    if (this.failure !== undefined) this.ports.log.info("the journal can be written again");
    this.failure = undefined;
    // Each batch sees the journal end with itself, so that a checkpoint taken in between is true.
    let end: Position = { ...this.position, segment };
    for (const [i, batch] of batches.entries()) {
      end = this.after(end, placed[i]!);
      this.position = end;
      batch.written(placed[i]!.records);
    }
    this.position = { seq, mac, segment, offset: offset + bytes.length, lines: lines + count };
  }

  private after(before: Position, placed: Placed): Position {
    return {
      seq: before.seq + placed.records.length,
      mac: placed.mac,
      segment: before.segment,
      offset: before.offset + placed.bytes,
      lines: before.lines + placed.records.length,
    };
  }

  /** Gives every record its number and its mac. */
  private place(batches: Batch[]): { text: string; placed: Placed[]; mac: string; seq: number } {
    let { seq, mac } = this.position;
    const parts: string[] = [];
    const placed = batches.map((batch) => {
      let bytes = 0;
      const records = batch.records.map((record) => {
        seq += 1;
        const full: JournalRecord = { v: 1, seq, ...record };
        const sealed = seal(this.ports.key, mac, JSON.stringify(full));
        mac = sealed.mac;
        parts.push(sealed.line, "\n");
        bytes += Buffer.byteLength(sealed.line) + 1;
        return full;
      });
      return { records, mac, bytes };
    });
    return { text: parts.join(""), placed, mac, seq };
  }

  /** The file to write to, free of torn bytes; a full segment is closed and the next begun. */
  private async ready(): Promise<DiskFile> {
    if (this.file && this.dirty) {
      await this.file.truncate(this.position.offset);
      this.dirty = false;
    }
    if (this.file && this.position.offset < (this.ports.segmentBytes ?? JOURNAL_SEGMENT_BYTES))
      return this.file;
    const first = this.position.seq + 1;
    const { disk, dir } = this.ports;
    const next = await disk.open(segmentPath(dir, first), "a+");
    await next.close();
    const file = await disk.open(segmentPath(dir, first), "r+");
    await file.truncate(0);
    await disk.syncDir(dir);
    const old = this.file;
    if (old) await old.sync();
    this.file = file;
    this.position = { ...this.position, segment: first, offset: 0, lines: 0 };
    await old?.close();
    return file;
  }

  private giveBack(batches: Batch[], cause: unknown): void {
    const error = ioError("writing the journal", join(this.ports.dir), cause, "STORAGE");
    this.counters.failures += 1;
    this.failedAt = this.ports.monotonic();
    if (this.failure === undefined) this.ports.log.error(error.message);
    this.failure = `state cannot be written: ${String(error.data.errno)}`;
    const all = [...batches, ...this.take()];
    const reads = all.filter((batch) => !batch.durable);
    const kept = reads.slice(-MAX_KEPT_READS);
    this.counters.dropped += reads.length - kept.length;
    this.queue = kept;
    this.queued = kept.reduce((sum, batch) => sum + batch.records.length, 0);
    for (const batch of all) if (batch.durable) batch.failed(error);
  }

  /** Writes what is queued, then closes. */
  async close(): Promise<void> {
    this.closed = true;
    await this.busy;
    if (this.queue.length > 0) await this.drain();
    const file = this.file;
    this.file = undefined;
    if (!file) return;
    if (this.dirty) await file.truncate(this.position.offset).catch(() => {});
    await file.datasync().catch(() => {});
    await file.close();
  }
}

interface Placed {
  records: JournalRecord[];
  mac: string;
  bytes: number;
}
