// What the rest of the bus may see of the state, and what a call carries with it. Types only.

import type { Former } from "../../schemas/answers.ts";
import type { AnyEvent, ChangedPath, JournalRecord } from "../../schemas/events.ts";
import type { AttemptRef } from "../../schemas/ids.ts";
import type { MethodName, Role } from "../../schemas/methods.ts";
import type { Run, SnapshotInfo, Task } from "../../schemas/task.ts";

/** A snapshot as the state holds it: the tree's hash and the changed paths against `base`, never a full list. */
export interface Snapshot extends SnapshotInfo {
  attempt: number;
  base: string;
  changed: ReadonlyMap<string, ChangedPath>;
}

/** Immutable values; a reader may keep one across ticks. */
export interface StateView {
  run(run: string): Run | undefined;
  runs(): Iterable<Run>;
  task(run: string, task: string): Task | undefined;
  /** In the order of the plan. */
  tasks(run: string): Iterable<Task>;
  /** Snapshots of one attempt (default: the newest attempt that has one), version 0 = the base of that attempt. */
  snapshots(run: string, task: string, attempt?: number): readonly Snapshot[];
  /** What an attempt was shown or asked for: path -> object id ("" where nothing was there). */
  readSet(run: string, task: string, attempt: number): ReadonlyMap<string, string>;
}

/** An event on its way into the journal. */
export interface EventDraft {
  run?: string;
  task?: string;
  attempt?: number;
  event: AnyEvent;
}

/** A read on its way into the audit log. */
export type AccessDraft = Required<
  Pick<JournalRecord, "actor" | "method" | "request_id" | "response_time_ms" | "access">
> &
  Pick<JournalRecord, "run" | "task" | "attempt">;

/** Who calls what; made by the connection, handed to every handler. */
export interface CallContext {
  actor: string;
  role: Role;
  method: MethodName;
  requestId: string;
  /** Clock.monotonic() when the request had arrived. */
  arrived: number;
  /** For role agent and shim: the attempt that the token stands for. */
  attempt?: AttemptRef;
  /** For subscriptions and pushed notifications. */
  peer: Peer;
}

/** The other end of a connection. */
export interface Peer {
  notify(method: string, params: unknown): void;
  onClose(fn: () => void): void;
}

/** The one writer of durable state (bus/state/store.ts). */
export interface StateStore {
  /** Committed and durable; never shows what could still be lost. */
  readonly view: StateView;
  /** Sequence number of the newest durable record. */
  readonly seq: number;
  /** Why nothing can be written at present. */
  readonly degraded: string | undefined;
  /** The repository was run before with a state that is not this one. */
  readonly former?: Former | undefined;
  /**
   * `decide` sees the state with all accepted but not yet durable events. It returns the events, or throws and
   * nothing happens. The promise is fulfilled after the events are durable and applied; rejected with STORAGE
   * when they could not be written (then nothing is applied).
   */
  transact<T>(
    ctx: Pick<CallContext, "actor" | "method" | "requestId">,
    decide: (draft: StateView) => { events: EventDraft[]; result: T },
  ): Promise<T>;
  /**
   * Records a call. Fulfilled when the record is written (with all of this tick, to the page cache): only then may
   * the answer leave. While nothing can be written it is kept for later, up to a bound; what is `required` is
   * rejected with STORAGE instead.
   */
  access(record: AccessDraft, required?: boolean): Promise<void>;
  /** Called for every record once it is durable, in order. Returns the way off. */
  onRecord(fn: (record: JournalRecord) => void): () => void;
}
