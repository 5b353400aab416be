// The writing half of the journal in files; the steps are in journal.ts. A batch goes this way:
//
//   queue -> (end of the tick: one synchronous write) -> pages -> (its sync, where it needs one) -> told
//
// `tail` is where the next write goes, `position` is how far batches were told. What is between them may still be lost.
//
// After a sync that failed, the kernel may count pages as clean that never reached the disk, and a later sync that works
// says nothing about them. So all bytes since the last good sync are kept here (few: beyond a bound they are synced
// though nobody waits), and what was told of them is written again before anything else is.

import { BusbarError, ioError } from "../../schemas/errors.ts";
import { faultPoint } from "../../schemas/fault-points.ts";
import { JOURNAL_SEGMENT_BYTES } from "../../schemas/limits.ts";
import type { Log } from "../../schemas/ports.ts";
import { type Disk, type DiskFile, writeAllNow } from "./disk.ts";
import type { Batch, JournalCounters, Position } from "./journal.ts";
import { place, type Written } from "./placing.ts";
import { segmentPath } from "./segments.ts";
import { Unsynced } from "./unsynced.ts";

/** More than this waiting means that the disk cannot follow: refused instead of growing without bound. */
export const MAX_QUEUED_RECORDS = 200_000;
/** Calls kept for later while nothing can be written. */
export const MAX_KEPT_READS = 10_000;

/** So many bytes of reads may wait for a sync that somebody needs. */
const MAX_UNSYNCED_BYTES = 1024 * 1024;

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
  private scheduled = false;
  private tail: Position;
  private pages: Written[] = [];
  private syncing: Promise<void> | undefined;
  /** The file is being made ready, or a failed write waits for the sync before it: nothing is written. */
  private held: Promise<void> | undefined;
  private waiters: { seq: number; resolve(): void }[] = [];
  private closed = false;
  /** Bytes that do not count may stand behind the last good one, and those of `unsynced` are in doubt. */
  private dirty = false;
  /** What was written to the file since its last good sync, in order. */
  private readonly unsynced = new Unsynced();
  private failedAt = 0;
  /** A sync failed: that bytes reach the page cache says nothing, only the next sync does. */
  private syncFailed = false;
  private lastError: BusbarError | undefined;

  constructor(
    private readonly ports: WriterPorts,
    public position: Position,
    private file: DiskFile | undefined,
  ) {
    this.tail = position;
  }

  append(batch: Batch): void {
    if (this.closed) throw this.ended();
    const mayTry = batch.durable || this.mayProbe();
    if (!mayTry && batch.required) {
      batch.noted?.(this.lastError);
      return;
    }
    if (!batch.durable && this.failure !== undefined && this.queued >= MAX_KEPT_READS) {
      this.counters.dropped += batch.records.length;
      note(batch, batch.required ? this.lastError : undefined);
      if (mayTry) this.schedule();
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
    if (mayTry) this.schedule();
    else note(batch);
  }

  /** Fulfilled when all up to `position` is on the disk, so that something else may rest on it. Rejects with STORAGE. */
  async durable(): Promise<Position> {
    const at = this.position;
    const { segment, offset } = at;
    while (this.position.segment === segment && this.unsynced.has(offset)) {
      if (this.failure !== undefined || !this.file) throw this.lastError ?? this.ended();
      if (!this.held && !this.syncing) this.syncing = this.sync(this.file);
      await (this.held ?? this.syncing);
    }
    return at;
  }

  private ended(): BusbarError {
    return new BusbarError("SHUTTING_DOWN", "the bus is ending; nothing is recorded any more");
  }

  settled(): Promise<void> {
    if (this.pages.length === 0) return Promise.resolve();
    return new Promise((resolve) => this.waiters.push({ seq: this.tail.seq, resolve }));
  }

  /** A disk that just refused is not asked again for every read. */
  private mayProbe(): boolean {
    return this.failure === undefined || this.ports.monotonic() - this.failedAt > PROBE_AFTER_MS;
  }

  private schedule(): void {
    if (this.scheduled) return;
    this.scheduled = true;
    setImmediate(() => {
      this.scheduled = false;
      this.flush();
    });
  }

  /** Writes all that is queued, now. */
  private flush(): void {
    if (this.held || this.queue.length === 0) return;
    if (!this.isReady()) {
      this.hold(() => this.prepare());
      return;
    }
    const batches = this.take();
    try {
      this.write(this.file as DiskFile, batches);
    } catch (cause) {
      // What is being synced is not touched by this; it is told (or fails) first.
      if (this.syncing) this.hold(async () => this.giveBack(await this.synced(batches), cause));
      else this.giveBack(batches, cause);
      return;
    }
    for (const batch of batches) note(batch);
    this.settle();
  }

  private hold(work: () => Promise<void>): void {
    this.held = work()
      .catch((cause: unknown) => this.giveBack([], cause))
      .then(() => {
        this.held = undefined;
        if (this.failure === undefined || this.queue.some((batch) => batch.durable)) this.flush();
      });
  }

  private async synced<T>(value: T): Promise<T> {
    await this.syncing;
    return value;
  }

  private take(): Batch[] {
    const batches = this.queue;
    this.queue = [];
    this.queued = 0;
    return batches;
  }

  private write(file: DiskFile, batches: Batch[]): void {
    const began = this.ports.monotonic();
    const { text, placed } = place(this.ports.key, this.tail, batches);
    const bytes = Buffer.from(text, "utf8");
    this.dirty = true;
    faultPoint("bus.journal.before-write");
    writeAllNow(file, bytes, this.tail.offset);
    this.dirty = false;
    this.unsynced.add(this.tail.offset, bytes);
    const end = (placed.at(-1) as Written).end;
    this.counters.writes += 1;
    this.counters.records += end.seq - this.tail.seq;
    this.counters.bytes += bytes.length;
    this.counters.write_ms += this.ports.monotonic() - began;
    this.tail = end;
    this.pages.push(...placed);
  }

  /** Tells what needs no sync (any more), and syncs for the rest. */
  private settle(): void {
    if (this.syncing) return;
    this.tell(0);
    if (this.pages.length > 0 || this.unsynced.size > MAX_UNSYNCED_BYTES)
      this.syncing = this.sync(this.file as DiskFile);
  }

  private async sync(file: DiskFile): Promise<void> {
    do {
      const count = this.pages.length;
      try {
        await this.syncPages(file);
      } catch (cause) {
        this.syncing = undefined;
        this.giveBack([], cause);
        return;
      }
      this.tell(count);
    } while (this.pages.length > 0);
    this.syncing = undefined;
  }

  /** What was written before the call is on the disk; or it is in doubt, all of it. */
  private async syncPages(file: DiskFile): Promise<void> {
    const parts = this.unsynced.count;
    const began = this.ports.monotonic();
    try {
      faultPoint("bus.journal.before-sync");
      await file.datasync();
    } catch (cause) {
      this.dirty = true;
      this.syncFailed = true;
      throw cause;
    }
    this.counters.syncs += 1;
    this.counters.write_ms += this.ports.monotonic() - began;
    this.unsynced.confirm(parts);
  }

  /**
   * Tells the first `count` batches, and those behind them up to the next that must be durable. Each sees the journal
   * end with itself, so that a checkpoint taken in between is true.
   */
  private tell(count: number): void {
    let end = count;
    while (end < this.pages.length && !this.pages[end]?.batch.durable) end += 1;
    if (end === 0) return;
    if (count > 0 || !this.syncFailed) this.recovered();
    faultPoint("bus.journal.before-apply");
    const told = this.pages.splice(0, end);
    for (const written of told) {
      this.position = written.end;
      written.batch.written(written.records);
    }
    if (this.waiters.length > 0) this.wake();
  }

  private recovered(): void {
    if (this.failure !== undefined) this.ports.log.info("the journal can be written again");
    this.failure = undefined;
    this.syncFailed = false;
  }

  private wake(): void {
    const ripe = this.waiters.filter(({ seq }) => this.pages.length === 0 || seq <= this.position.seq);
    this.waiters = this.waiters.filter((waiter) => !ripe.includes(waiter));
    for (const { resolve } of ripe) resolve();
  }

  private isReady(): boolean {
    return this.file !== undefined && !this.dirty && this.tail.offset < this.segmentBytes;
  }

  private get segmentBytes(): number {
    return this.ports.segmentBytes ?? JOURNAL_SEGMENT_BYTES;
  }

  /** Makes the file free of what does not count; closes a full segment and begins the next. */
  private async prepare(): Promise<void> {
    await this.syncing; // then all is told, or given up: `tail` is `position`
    if (this.file && this.dirty) await this.mend(this.file);
    if (!this.isReady()) await this.rotate();
  }

  /** Cuts off what does not count, and writes again what does and may not be on the disk. */
  private async mend(file: DiskFile): Promise<void> {
    faultPoint("bus.journal.before-cut-failed-write");
    await file.truncate(this.position.offset);
    await this.unsynced.writeAgain(file);
    this.dirty = false;
  }

  private async rotate(): Promise<void> {
    const old = this.file;
    // First: a segment must not stand behind one that may still lose its end.
    if (old && this.unsynced.size > 0) await this.syncPages(old);
    const first = this.position.seq + 1;
    const { disk, dir } = this.ports;
    faultPoint("bus.segment.before-make");
    const file = await disk.open(segmentPath(dir, first), "w+");
    try {
      faultPoint("bus.segment.before-sync-directory");
      await disk.syncDir(dir);
    } catch (cause) {
      await file.close().catch(() => {});
      throw cause;
    }
    this.file = file;
    this.position = { ...this.position, segment: first, offset: 0, lines: 0 };
    this.tail = this.position;
    await old?.close().catch(() => {}); // all of it is on the disk
  }

  /** Nothing behind `position` counts: `tried` was not written, the pages were not made durable. */
  private giveBack(tried: Batch[], cause: unknown): void {
    const error = ioError("writing the journal", this.ports.dir, cause, "STORAGE");
    this.counters.failures += 1;
    this.failedAt = this.ports.monotonic();
    this.lastError = error;
    if (this.failure === undefined) this.ports.log.error(error.message);
    this.failure = `state cannot be written: ${String(error.data.errno)}`;
    const answered = this.pages.map(({ batch }) => batch);
    const waiting = [...tried, ...this.take()];
    if (answered.length > 0) this.dirty = true;
    this.pages = [];
    this.tail = this.position;
    this.unsynced.cut(this.position.offset);
    const reads = [...answered, ...waiting.filter((batch) => !batch.required)].filter((b) => !b.durable);
    const kept = reads.slice(-MAX_KEPT_READS);
    this.counters.dropped += reads.length - kept.length;
    this.queue = kept;
    this.queued = kept.reduce((sum, batch) => sum + batch.records.length, 0);
    for (const batch of answered) if (batch.durable) batch.failed(error);
    for (const batch of waiting) {
      if (batch.durable) batch.failed(error);
      else note(batch, batch.required ? error : undefined);
    }
    this.wake();
    this.mendNow();
  }

  /** What was refused should not come back if the bus dies now. Where it cannot be cut off, the next try does it first. */
  private mendNow(): void {
    const { file } = this;
    if (this.held || !file || !this.dirty) return;
    const mended = this.mend(file).then(
      () => this.syncPages(file),
      () => {},
    );
    this.hold(() => mended.catch(() => {}));
  }

  /** Writes what is queued, then closes. */
  async close(): Promise<void> {
    this.closed = true;
    await this.idle();
    this.flush();
    await this.idle();
    this.counters.dropped += this.take().length; // nothing is written behind the end
    const { file } = this;
    if (!file) return;
    try {
      if (this.dirty) await this.mend(file);
      if (this.unsynced.size > 0) await this.syncPages(file);
    } catch (cause) {
      this.giveBack([], cause);
      await this.idle();
    }
    this.file = undefined;
    await file.close().catch(() => {}); // what counts is on the disk, or was said not to be
  }

  private async idle(): Promise<void> {
    while (this.held || this.syncing) await (this.held ?? this.syncing);
  }
}

/** Once: a batch that was kept is written again later. */
function note(batch: Batch, error?: BusbarError): void {
  const { noted } = batch;
  batch.noted = undefined;
  noted?.(error);
}
