// The one writer of durable state. A change is:
//   decide (on committed state + all that is accepted but not yet durable) -> journal, durable -> applied -> answered.
// Two layers: `base` is committed; `pending` holds what is on its way. A failed write drops the pending layer, and
// with it every change that was decided on it: nothing happened. Reads see `base` only.

import { join } from "node:path";
import type { Former, Gap, VerifyAnswer } from "../../schemas/answers.ts";
import { BusbarError, ioError } from "../../schemas/errors.ts";
import type { AnyEvent, JournalRecord } from "../../schemas/events.ts";
import { CHECKPOINT_EVERY_EVENTS } from "../../schemas/limits.ts";
import type { Clock, Log } from "../../schemas/ports.ts";
import { Anchorer, type AnchorPort } from "./anchor.ts";
import { writeAnchorNote } from "./anchor-note.ts";
import type { Base } from "./base.ts";
import { BorneOut } from "./borne-out.ts";
import { takeCheckpoint } from "./checkpoint.ts";
import { type Disk, systemDisk } from "./disk.ts";
import { Draft } from "./draft.ts";
import type { DocumentPorts } from "./durable-document.ts";
import { isGuest, type Repository } from "./former.ts";
import type { Journal, Position, Unplaced } from "./journal.ts";
import { type IndexedView, Layer } from "./layer.ts";
import type { Keep } from "./outlived.ts";
import { PackedFault } from "./packed.ts";
import { type AuditFilter, type AuditPage, queryAudit, recordsAfter, type StreamFilter } from "./query.ts";
import { type Recovered, recover } from "./recovery.ts";
import { verifyJournal } from "./verify.ts";
import type { AccessDraft, EventDraft, StateStore, StateView } from "./view.ts";

/** Who brings a change about; `method` and `requestId` are absent for what the bus does by itself. */
export interface ChangeContext {
  actor: string;
  method?: string;
  requestId?: string;
}

export interface StorePorts {
  /** The bus's own directory: key, journal/, checkpoint/. */
  dir: string;
  clock: Clock;
  log: Log;
  disk?: Disk;
  segmentBytes?: number;
  /** Where the head of the journal is anchored; absent: nowhere. */
  anchor?: AnchorPort;
  /** Refs of the repository that keep the work of attempts. */
  attemptRefs?: () => Promise<string[]>;
  /** What the repository's refs tell of runs; absent: nobody asks. */
  repository?: Repository;
  /** How much of the journal is kept; absent: all of it. */
  keep?: Keep;
}

export class Store implements StateStore {
  private readonly pending: Layer;
  private readonly listeners = new Set<(record: JournalRecord) => void>();
  private inFlight: Promise<unknown> | undefined;
  private checkpointing: Promise<void> | undefined;
  private eventsSince: number;
  /** A checkpoint that could not be written is not tried again for every event. */
  private dueAbove = 0;
  private closed = false;
  private readonly anchorer: Anchorer | undefined;
  private readonly borneOut: BorneOut;
  /** The repository was run before with a state that is not this one, and that was not given up. */
  readonly former: Former | undefined;
  readonly counters = { events: 0, accesses: 0, refused: 0, checkpoints: 0, checkpoint_ms: 0 };

  private constructor(
    private readonly ports: StorePorts & { disk: Disk },
    private readonly base: Base,
    private readonly journal: Journal,
    /** The secret of this bus; tokens are made from it too. */
    readonly key: Buffer,
    private dirty: Set<string>,
    /** Run -> up to which record its document is. */
    private readonly docs: Map<string, number>,
    { replayed, noted, former }: Pick<Recovered, "replayed" | "noted" | "former">,
  ) {
    this.pending = new Layer(base);
    this.eventsSince = replayed;
    this.former = former;
    this.borneOut = new BorneOut(ports.clock);
    const { anchor: port, clock, log } = ports;
    const note = (newest: Parameters<typeof writeAnchorNote>[1]) => writeAnchorNote(this.documents(), newest);
    if (port) this.anchorer = new Anchorer({ port, note, noted, journal, key, clock, log });
  }

  /** Documents of this directory, or of one below it. */
  private documents(below = ""): DocumentPorts {
    const { disk, dir, clock } = this.ports;
    return { disk, dir: join(dir, below), key: this.key, monotonic: () => clock.monotonic() };
  }

  /** Throws JOURNAL_DAMAGED, STATE_TOO_NEW, STORAGE. */
  static async open(ports: StorePorts): Promise<Store> {
    const disk = ports.disk ?? systemDisk;
    const found = await recover({ ...ports, disk }).catch((error: unknown) => {
      throw asStorage("opening the state", ports.dir, error);
    });
    const { base, journal, key, dirty, docs, checkpoint } = found;
    const store = new Store({ ...ports, disk }, base, journal, key, dirty, docs, found);
    if (checkpoint) store.tidy(checkpoint);
    return store;
  }

  get view(): IndexedView {
    return this.base;
  }
  get seq(): number {
    return this.journal.position.seq;
  }
  /** Parts of the journal that are lost. */
  get gaps(): readonly Gap[] {
    return this.base.gaps;
  }
  get degraded(): string | undefined {
    return this.journal.failure;
  }
  get journalCounters(): Journal["counters"] {
    return this.journal.counters;
  }
  /** Events that a start would have to replay. */
  get eventsSinceCheckpoint(): number {
    return this.eventsSince;
  }

  /** `transact` for deciders that emit into a draft: no event is applied twice. */
  change<T>(ctx: ChangeContext, decide: (draft: Draft) => T): Promise<T> {
    const draft = new Draft(this.pending, this.ports.clock.now());
    let result: T;
    try {
      result = decide(draft);
    } catch (error) {
      // Nothing has happened. A refusal may rest on what is still to be written: when that fails, it is asked anew.
      if (!this.inFlight) return Promise.reject(error);
      return this.inFlight.then(
        () => Promise.reject(error),
        () => this.change(ctx, decide),
      );
    }
    if (draft.events.length === 0) {
      // True only once what it rests on is durable.
      return this.inFlight ? this.inFlight.then(() => result) : Promise.resolve(result);
    }
    const written = this.commit(ctx, draft);
    const done = () => {
      if (this.inFlight === written) this.inFlight = undefined;
    };
    this.inFlight = written;
    written.then(done, done);
    return written.then(() => result);
  }

  transact<T>(
    ctx: ChangeContext,
    decide: (draft: StateView) => { events: EventDraft[]; result: T },
  ): Promise<T> {
    return this.change(ctx, (draft) => {
      const { events, result } = decide(draft);
      for (const { event, ...target } of events) draft.emit(target, event);
      return result;
    });
  }

  private commit(ctx: ChangeContext, draft: Draft): Promise<void> {
    return new Promise((resolve, reject) => {
      this.journal.append({
        records: toRecords(ctx, draft),
        durable: true,
        written: (records) => {
          this.apply(draft, records);
          resolve();
        },
        failed: (error) => {
          this.counters.refused += 1;
          this.pending.clear();
          reject(error);
        },
      });
      this.pending.absorb(draft);
    });
  }

  private apply(draft: Draft, records: JournalRecord[]): void {
    this.base.absorb(draft);
    this.pending.release(draft);
    for (const task of draft.taskTable.values()) this.base.trimReads(task);
    for (const { run } of draft.events) if (run !== undefined) this.dirty.add(run);
    this.counters.events += records.length;
    this.eventsSince += records.length;
    if (records.some(({ event }) => event?.type === "task.landed")) this.anchorer?.want();
    this.tell(records);
  }

  private tell(records: JournalRecord[]): void {
    for (const record of records) {
      for (const listener of this.listeners) {
        try {
          listener(record);
        } catch (error) {
          this.ports.log.error("a listener failed", { seq: record.seq, why: String(error) });
        }
      }
    }
  }

  access(record: AccessDraft, required = false): Promise<void> {
    const full: Unplaced = { ts: this.#stamp(), kind: "access", ...record };
    return new Promise((resolve, reject) =>
      this.journal.append({
        records: [full],
        durable: false,
        required,
        noted: (error) => {
          if (error) return reject(error);
          if (this.base.noteRead(record) && record.run !== undefined) this.dirty.add(record.run);
          resolve();
        },
        written: this.#told,
        failed: nothing,
      }),
    );
  }

  #told = (records: JournalRecord[]): void => {
    this.counters.accesses += records.length;
    this.tell(records);
  };

  /** The time of a record; made into text once a millisecond. */
  #stamp(): string {
    const now = this.ports.clock.now();
    if (now !== this.#stampOf) {
      this.#stampOf = now;
      this.#stampText = new Date(now).toISOString();
    }
    return this.#stampText;
  }
  #stampOf = Number.NaN;
  #stampText = "";

  onRecord(fn: (record: JournalRecord) => void): () => void {
    this.listeners.add(fn);
    return () => this.listeners.delete(fn);
  }

  /** Written records after `seq`, up to the newest at the time of the call. */
  recordsAfter(seq: number, filter: StreamFilter = {}): AsyncIterable<JournalRecord> {
    return this.reading(recordsAfter(this.journal, seq, filter));
  }

  /** Records before `seq`, newest first. */
  async *recordsBefore(seq: number): AsyncGenerator<JournalRecord> {
    for await (const page of this.reading(this.journal.readBack(seq))) yield* page;
  }

  /** Sees every call that was answered before. */
  async query(filter: AuditFilter): Promise<AuditPage> {
    await this.journal.settled();
    return queryAudit(this.journal, filter).catch((error: unknown) => {
      throw this.unreadable(error);
    });
  }

  /** Proves the chain, compares it with the anchors, and replays it: it must lead to the state as it is. */
  async verify(): Promise<VerifyAnswer> {
    const { anchor, repository } = this.ports;
    await this.anchorer?.settled(); // a landing of this moment is anchored before anybody misses its anchor
    return verifyJournal({
      journal: this.journal,
      base: this.base,
      documents: this.documents(),
      noted: this.anchorer?.noted,
      ...(anchor && { anchor }),
      ...(repository && { repository }),
    }).catch((error: unknown) => {
      throw this.unreadable(error);
    });
  }

  private async *reading<T>(source: AsyncIterable<T>): AsyncGenerator<T> {
    try {
      yield* source;
    } catch (error) {
      throw this.unreadable(error);
    }
  }

  private unreadable(error: unknown): BusbarError {
    return asStorage("reading the journal in", this.ports.dir, error);
  }

  /** True when a checkpoint would spare a start much work; large runs are written more rarely. */
  get checkpointDue(): boolean {
    let tasks = 0;
    for (const run of this.dirty) tasks += this.base.run(run)?.order.length ?? 0;
    return this.eventsSince >= Math.max(CHECKPOINT_EVERY_EVENTS, tasks / 2, this.dueAbove);
  }

  /** Writes what changed since the last one; one at a time. A failure is said in the log: the journal has it all. */
  checkpoint(): Promise<void> {
    if (this.closed) return Promise.resolve();
    this.checkpointing ??= this.writeCheckpoint().finally(() => {
      this.checkpointing = undefined;
    });
    return this.checkpointing;
  }

  private async writeCheckpoint(): Promise<void> {
    if (this.dirty.size === 0 && this.eventsSince === 0) return;
    const { clock, log } = this.ports;
    const began = clock.monotonic();
    const dirty = this.dirty;
    const events = this.eventsSince;
    this.dirty = new Set();
    this.eventsSince = 0;
    const position = this.journal.position;
    const write = takeCheckpoint(this.documents("checkpoint"), this.base, position, dirty, this.docs);
    try {
      // A checkpoint that rests on more than the disk has would look like a journal that was cut.
      await this.journal.durable();
      await write();
      this.dueAbove = 0;
      if (!isGuest(this.base, this.former)) this.anchorer?.want();
      this.tidy(position);
      this.counters.checkpoints += 1;
      this.counters.checkpoint_ms += clock.monotonic() - began;
    } catch (error) {
      for (const run of dirty) this.dirty.add(run);
      this.eventsSince += events;
      this.dueAbove = this.eventsSince + CHECKPOINT_EVERY_EVENTS;
      log.warn("the checkpoint could not be written; the journal holds everything", {
        why: error instanceof BusbarError ? error.message : String(error),
      });
    }
  }

  private tidy(position: Position): void {
    const { keep, clock } = this.ports;
    const retire = keep && {
      keep,
      now: () => clock.now(),
      believed: (isOver: () => boolean) =>
        this.borneOut.now(this.journal.readBack(Number.POSITIVE_INFINITY), isOver),
      record: (event: AnyEvent) =>
        this.change({ actor: "bus" }, (d) => {
          d.emit({}, event);
          return d.at;
        }),
    };
    void this.journal.tidy(position, retire);
  }

  /** Writes what waits, then a last checkpoint. Changes after this are refused with SHUTTING_DOWN. */
  async close(): Promise<void> {
    await this.journal.close();
    await this.checkpointing;
    await this.checkpoint();
    if (!isGuest(this.base, this.former)) await this.anchorer?.finish();
    this.closed = true;
    this.listeners.clear();
  }
}

const nothing = () => {};

/** What the disk said, as an error of ours; errors of ours stay. */
function asStorage(deed: string, dir: string, error: unknown): BusbarError {
  if (error instanceof BusbarError) return error;
  if (error instanceof PackedFault)
    return new BusbarError(
      "JOURNAL_DAMAGED",
      `${deed} ${dir}: ${error.message}; \`busctl verify\` names the place`,
    );
  const { code, path } = error as NodeJS.ErrnoException;
  if (code === undefined || code.startsWith("ERR_")) throw error; // a mistake in the program, not of the disk
  return ioError(deed, path ?? dir, error, "STORAGE");
}

function toRecords(ctx: ChangeContext, draft: Draft): Unplaced[] {
  const { actor, method, requestId } = ctx;
  return draft.events.map(({ run, task, attempt, event }, i) => {
    const state_version = draft.versions[i];
    return {
      ts: draft.at,
      kind: "event",
      actor,
      ...(requestId !== undefined && { request_id: requestId }),
      ...(run !== undefined && { run }),
      ...(task !== undefined && { task }),
      ...(attempt !== undefined && { attempt }),
      ...(method !== undefined && { method }),
      event,
      ...(state_version !== undefined && { state_version }),
    };
  });
}
