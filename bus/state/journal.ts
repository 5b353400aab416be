// The journal: what happened, in order, append-only. The store talks to this interface only; a journal in a database
// can take the place of the files (test/contract/journal.test.ts is what it must pass).
//
// 1. append() queues a batch. All batches of a tick share ONE write, made synchronously (some microseconds: it goes to
//    the page cache). `noted` of a read is called right after it: no answer leaves before its record is written.
// 2. Only the fdatasync is asynchronous. One runs at a time, and only where a change of state waits for it; what is
//    written meanwhile shares the next one (group commit).
// 3. `written` is called batch by batch, in order, synchronously, once everything up to there is as durable as it was
//    asked to be: the effect is applied before anybody is answered, and before the next batch is.
// 4. Sequence number and mac are given when a batch is written, so a failed write leaves no gap.
// 5. When a write or a sync fails, every batch that waits fails too (they were decided on top of it); the file is cut
//    back to the last good byte before anything else is written. A read that must be recorded is refused; other calls
//    that were noted stay, up to a bound, for the next try. A refused change comes back only if the bus dies before it
//    could be cut off; then it is there whole.

import type { Removed } from "../../schemas/answers.ts";
import type { BusbarError } from "../../schemas/errors.ts";
import type { BusEvent, JournalRecord } from "../../schemas/events.ts";
import type { Base } from "./base.ts";
import type { Keep } from "./outlived.ts";

/** A record before it has its place. */
export type Unplaced = Omit<JournalRecord, "v" | "seq">;

/** What was done to it; `cut`: it ends before a record that is known to have been written. */
export type DamageKind = "changed" | "removed" | "inserted" | "reordered" | "cut" | "replaced";

/** Where the journal is not what it should be. */
export interface Damage {
  kind: DamageKind;
  file: string;
  line: number;
  /** The record that should stand there. */
  seq: number;
  why: string;
}

export interface Batch {
  records: Unplaced[];
  /** False: the record of a call; written, but not waited for on the disk. */
  durable: boolean;
  written(records: JournalRecord[]): void;
  /** For what is durable: it was not written, or not made durable. */
  failed(error: BusbarError): void;
  /** For what is not durable, once: it is written, or it will be later; with `error` it is not and never will be. */
  noted?: ((error?: BusbarError) => void) | undefined;
  /** Not durable, and of no use later: refused when it cannot be written now. */
  required?: boolean;
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

/** What every wanted record has: spares the reading of others. */
export interface ReadHint {
  /** Members of the record as they stand in its JSON (`term` of segment-index.ts). */
  needles?: readonly string[];
  /** Not earlier, not later; ISO 8601, UTC, milliseconds. */
  since?: string;
  until?: string;
}

/** Where the oldest records were removed: what begins instead (beginning.ts). */
export interface Beginning {
  removed: Removed;
  /** Before the first record that is there. */
  place: Position;
  /** Puts the state at that place into an empty one. */
  fill(base: Base): void;
}

/** What is to be kept, and how it is recorded that something goes: fulfilled with the time of that record, once it is durable. */
export interface Retire {
  keep: Keep;
  now(): number;
  /** How much of now the journal bears out (borne-out.ts); given up, with no time at all, once `isOver`. */
  believed(isOver: () => boolean): Promise<number>;
  record(event: Extract<BusEvent, { type: "journal.removed" }>): Promise<string>;
}

/** What `verify` found. */
export interface Proof {
  records: number;
  /** Where the proof ended: at the newest record, or before the damage. */
  end: Pick<Damage, "file" | "line" | "seq">;
  damage?: Damage;
}

export interface Journal {
  /** Records known to have been written that were not there when it was opened; the next must be a `journal.gap`. */
  readonly missing: { from: number; to: number } | undefined;
  /** Place after the newest record that was told by `written`. */
  readonly position: Position;
  /** Why the newest write failed; undefined after one that worked. */
  readonly failure: string | undefined;
  readonly counters: Readonly<JournalCounters>;
  append(batch: Batch): void;
  /** Fulfilled when all that was written at the time of the call is part of `position` (or was given up). */
  settled(): Promise<void>;
  /** Records after `seq` up to the newest written when called, some at a time; the hint may leave out others. */
  readFrom(seq: number, hint?: ReadHint): AsyncIterable<JournalRecord[]>;
  /** The same, newest first, from the one before `seq` on. */
  readBack(seq: number, hint?: ReadHint): AsyncIterable<JournalRecord[]>;
  /** The oldest records, where they were removed. */
  readonly removed: Removed | undefined;
  /**
   * A start needs nothing that lies before this place any more: closed files may be packed, and go where `retire` does
   * not keep them. In the background.
   */
  tidy(before: Position, retire?: Retire): Promise<void>;
  /**
   * Proves the chain of all that was written when called; `onRecord` gets every good record on the way, `onBeginning`
   * before them the state to begin with, where the oldest were removed.
   */
  verify(
    onRecord?: (record: JournalRecord, mac: string) => void,
    onBeginning?: (beginning: Beginning) => void,
  ): Promise<Proof>;
  /** Waits until `position` at the time of the call is on the disk, calls and all; gives that place. */
  durable(): Promise<Position>;
  /** Waits for what is queued, then gives the files back. */
  close(): Promise<void>;
}
