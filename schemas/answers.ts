// What the methods answer (types only; the bus makes them, clients trust the bus), and the roles of callers.

import type { Config } from "./config.ts";
import type { EventNotice, GivenUp } from "./events.ts";
import type { LimitFacts } from "./limit-plan.ts";
import type { SandboxFacts } from "./sandbox.ts";
import type { Run, RunStatus, Task } from "./task.ts";

export const ROLES = ["person", "scheduler", "shim", "agent"] as const;
export type Role = (typeof ROLES)[number];

export interface FileAnswer {
  content: string;
  encoding: "utf8" | "base64";
  oid: string;
  /** "100644", "100755", or "120000": then content is the link's target, which is never followed. */
  mode: string;
  size: number;
  version: number;
  commit: string;
  request_id: string;
  response_time_ms: number;
}

export interface ListAnswer {
  version: number;
  commit: string;
  files: { path: string; mode: string; oid: string }[];
  /** Ask again with `after` set to this for more. */
  next?: string;
}

export interface RunSummary {
  run: string;
  status: RunStatus;
  /** Why it is paused, where that was said. */
  paused_why?: string;
  repo: string;
  base: string;
  base_name: string;
  branch: string;
  head: string;
  created: string;
  counts: Record<string, number>;
  total: number;
  merged: number;
  gate: "checks" | "none";
}

export interface Ping {
  name: "busbar";
  version: string;
  protocol: number;
  pid: number;
  uptime_ms: number;
  repo: string;
  state_dir: string;
  worker: string | null;
  /** What that scheduler can hold processes to. */
  limits?: LimitFacts;
  /** What the registered scheduler can shut agents in; absent without one. */
  sandbox?: SandboxFacts;
  live_tasks: number;
  /** Why nothing can be changed at present, e.g. "state cannot be written: ENOSPC". */
  degraded?: string;
  /** The repository was run before with a state that is not this one: what is known of it, and what to do. */
  former?: { why: string; help: string };
}

export interface HelloAnswer {
  protocol: number;
  version: string;
  role: Role;
  /** Sequence number of the newest durable record. */
  seq: number;
  attempt?: { run: string; task: string; attempt: number };
}

export interface ClaimAnswer {
  attempt: number;
  state_version: number;
  lease_until: string;
  shim_token: string;
  agent_token: string;
  task: Task;
}

/** What the scheduler gets once, so that configuration has one reader: the bus. */
export interface WorkerAnswer {
  worker: string;
  lease_ms: number;
  config: Config;
  state_dir: string;
  runtime_dir: string;
  runs: Run[];
  tasks: Task[];
  seq: number;
}

/** Records that were lost, once and for all; the journal goes on behind them. */
export interface Gap {
  from: number;
  to: number;
  /** When it was found. */
  at: string;
  why: string;
  /** What the repository still holds of the state that was given up. */
  former?: GivenUp;
}

/** The repository was run before with a state that is not this one. */
export interface Former extends GivenUp {
  /** As far as the facts tell. */
  kind: "gone" | "copy" | "moved" | "elsewhere" | "between" | "unknown";
  why: string;
  help: string;
  /** What its newest anchor claims. */
  seq?: number;
  at?: string;
}

/** A branch of a run that does not hold what landed on it; `unknown`: of no run. */
export interface BranchFault {
  branch: string;
  kind: "older" | "other" | "unknown";
  why: string;
}

/** The oldest records, which the configuration's `audit` did not keep. */
export interface Removed {
  /** Records 1 to this one. */
  to: number;
  /** When the newest of them was written. */
  newest: string;
  /** When they were removed the last time, and by which rule. */
  at: string;
  rule: string;
}

/** `ok` is false for every fault that is named beside it. */
export interface VerifyAnswer {
  ok: boolean;
  records: number;
  /** The first record that is not what was written, and what was done to it. */
  first_bad?: {
    kind: "changed" | "removed" | "inserted" | "reordered" | "cut" | "replaced";
    seq: number;
    file: string;
    line: number;
    why: string;
  };
  gaps?: Gap[];
  /** Not a fault: the proof begins behind them, and so does the replay, with the sealed state that they led to. */
  removed?: Removed;
  /** Anchors of the journal in the repository, and how many of them it holds; absent where they cannot be read. */
  anchors?: {
    held: number;
    newest?: { seq: number; at: string };
    /** Another hand removed or replaced them: up to which record there were some, and when that was found. */
    broken?: { seq: number; at: string };
  };
  /** What speaks against the anchors: missing, of another state, an older one put back, not to be read. */
  anchor_fault?: { kind: "missing" | "foreign" | "older" | "unread"; why: string };
  /** Another state ran this repository, and nobody has given it up yet. */
  former?: Former;
  /** Only one that belongs to no run leaves `ok` as it is. */
  branches?: BranchFault[];
  /**
   * Whether replaying the journal leads to the state as it is; `differs` names the first that it does not lead to.
   * Absent where the chain does not hold.
   */
  replay?: { same: boolean; differs?: string };
}

/** Notifications from the bus. */
export interface Notifications {
  /** To subscribers. */
  event: EventNotice;
  /** To a subscriber whose replay failed: no further events come. */
  event_error: { message: string };
  /** To a shim: end the process now. */
  cancel: { reason: string };
  /** To the scheduler: settle and go. To people: the bus ends because `by` wants it; nobody is to start it again unasked. */
  shutdown: { leave_running: boolean; by: string };
}
