// Events: what happened, in order. State is what the events made of it (bus/state/task-machine.ts).
// Every event of a task carries the attempt it is about, where there is one.

import type { Outcome } from "./job.ts";
import type { AttemptRecord, Cause, Evidence, Need, Phase, RunSpec, SnapshotInfo, TaskSpec } from "./task.ts";
import type { Verdict } from "./verdict.ts";

/** One changed path of a snapshot against its base; null mode and oid = deleted. */
export interface ChangedPath {
  path: string;
  mode: string | null;
  oid: string | null;
}

export type TaskEvent =
  | { type: "task.ready" }
  | {
      type: "task.claimed";
      attempt: number;
      worker: string;
      base: string;
      workspace: string;
      lease_until: string;
      /** Goes into the attempt's tokens; absent in records of earlier versions. */
      nonce?: string;
    }
  | { type: "task.phase"; attempt: number; phase: Phase }
  | { type: "task.lease"; attempt: number; lease_until: string; usage?: AttemptRecord["usage"] }
  /** Nobody can say whether the shim works; null: that is over. */
  | { type: "task.doubt"; attempt: number; doubt: { pid: number; why: string } | null }
  /** Its work waits until it can be written down; null: it goes on. */
  | { type: "task.held"; attempt: number; held: { why: string } | null }
  | { type: "task.progress"; attempt: number; status: string; message: string; percent?: number }
  | { type: "task.files_requested"; attempt: number; paths: string[]; reason: string }
  | { type: "task.publish_requested"; attempt: number }
  | { type: "task.snapshot"; attempt: number; snapshot: SnapshotInfo; base: string; changed: ChangedPath[] }
  | { type: "task.verdict"; attempt: number; verdict: Verdict }
  | { type: "task.inputs_changed"; attempt: number; paths: string[] }
  | { type: "task.passed"; attempt: number; snapshot: SnapshotInfo | null; base: string }
  /** `recovered`: it stood on the branch already, landed by this attempt of a state that was lost. */
  | {
      type: "task.landed";
      attempt: number;
      commit: string | null;
      tree: string | null;
      recovered?: number;
    }
  | { type: "task.failed"; attempt: number; cause: Cause; evidence: Evidence }
  | { type: "task.retrying"; not_before: string; cause: Cause; evidence: Evidence }
  | { type: "task.blocked"; needs: Need }
  | { type: "task.unblocked"; waits_for: string[] }
  | { type: "task.retry_asked"; by: string; feedback?: string; waits_for: string[] }
  | { type: "task.files_granted"; by: string; paths: string[] }
  | { type: "task.approved"; by: string }
  | { type: "task.rejected"; by: string; reason: string }
  | { type: "task.cancelled"; by: string }
  | {
      type: "proc.registered";
      attempt: number;
      kind: "agent" | "check";
      name: string;
      pid: number;
      start_time: string;
    }
  | { type: "proc.completed"; attempt: number; outcome: Outcome };

export type RunEvent =
  | { type: "run.submitted"; spec: Omit<RunSpec, "tasks">; plan_hash: string; by: string; tasks: NewTask[] }
  | { type: "run.tasks_added"; by: string; tasks: NewTask[] }
  | { type: "run.paused"; by: string; why?: string }
  | { type: "run.resumed"; by: string }
  | { type: "run.head_moved"; head: string; why: string }
  /** What became of `into`; `head` is what was to be brought there, `why` says why it was not ("" when it was). */
  | { type: "run.into"; branch: string; head: string; moved: boolean; why: string };

export type BusEvent =
  | { type: "worker.registered"; worker: string; host: string; slots: number; pid: number }
  | { type: "worker.gone"; worker: string }
  /**
   * Records `from` to `to` are missing before this one, for ever. `used`: attempts of the lost part, by task, that are
   * not numbered again. `state`: documents of runs as in the checkpoint, where replay alone does not lead to the state.
   */
  | {
      type: "journal.gap";
      from: number;
      to: number;
      why: string;
      used: Record<string, number>;
      state?: unknown[];
      former?: GivenUp;
    }
  /** Attempts that have a directory or refs, but no record: not numbered again. What is lost beside them is not known. */
  | { type: "attempts.passed_over"; used: Record<string, number> }
  /** The configuration's `audit` does not keep records `from` to `to` any more: their files go after this is durable. */
  | { type: "journal.removed"; from: number; to: number; rule: string };

/** The newest anchor of a former state, as it stands in the repository, and its runs. */
export interface GivenUp {
  anchor?: string;
  runs: string[];
}

export interface NewTask {
  spec: TaskSpec;
  wave: number;
  waits_for: string[];
}

export type AnyEvent = TaskEvent | RunEvent | BusEvent;

/** A line of the journal, before the chain's `mac` is appended. */
export interface JournalRecord {
  v: 1;
  seq: number;
  /** ISO 8601, UTC, milliseconds. */
  ts: string;
  kind: "event" | "access";
  /** person, scheduler:<worker>, shim:<attempt>, agent:<attempt>, bus. */
  actor: string;
  request_id?: string;
  run?: string;
  task?: string;
  attempt?: number;
  /** The method that brought it about; for accesses always there. */
  method?: string;
  /** For accesses: time from the arrival of the request to its answer. */
  response_time_ms?: number;
  /** Events only. */
  event?: AnyEvent;
  /** The task's state_version after this event. */
  state_version?: number;
  /** Accesses only: what was asked, and the error's code if it failed. */
  access?: { path?: string; oid?: string; version?: number; error?: string; slow?: string; params?: unknown };
}

/** What a subscriber gets: the record without the chain. */
export type EventNotice = JournalRecord;
