// What the scheduler gives a shim on its standard input (one JSON line), and what the shim gives back
// (outbox file and `complete`). Types only: the shim imports no schema library.

import type { AttemptRef } from "./ids.ts";
import type { GroupFeature } from "./limit-plan.ts";
import type { Limits } from "./limit-spec.ts";

export interface ShimJob {
  v: 1;
  ref: AttemptRef;
  kind: "agent" | "check";
  /** "agent", or the check's name. */
  name: string;
  /** Program and arguments; a command line is ["/bin/sh", "-c", line]. */
  argv: string[];
  cwd: string;
  /** The attempt's (or check's) own directory: logs, outbox, home. Exists, mode 0700. */
  dir: string;
  /** File names inside `dir`. */
  files: { log: string; outbox: string; done: string; pid: string };
  /** Complete environment of the process but for what the shim adds (BUSBAR_SOCKET, marker). */
  env: Record<string, string>;
  /** Values to redact, each with the name that stands in its place. */
  secrets: { name: string; value: string }[];
  timeout_ms: number;
  grace_ms: number;
  /** In force for this process, each with what is asked: for words about its end. */
  limits: Limits;
  /** The directory that holds all that it may write; where `limits.disk` is looked at. */
  writes_in: string;
  /** How they are set (scheduler/limit-plan.ts). */
  launch: LaunchPlan;
  /** Control groups of this process and all that it starts; absent where this host has none. */
  groups?: JobGroups;
  /** The process is started inside this; absent: as it is. */
  sandbox?: JobSandbox;
  /** What was asked for and is known not to be in force here; told with the limits that the shim cannot set. */
  lacking?: string[];
  bus: { socket: string; shim_token: string; agent_token?: string };
  /** Where the task socket is opened; absent for checks. */
  task_socket?: string;
  /** For tests: where fault points are armed (bus/client/fault.ts). Never in the environment of the process. */
  fault?: string;
}

export interface JobSandbox {
  /** bwrap and its options, without the `--` before the program (scheduler/sandbox.ts). */
  argv: string[];
  /** What it is, in few words, for people. */
  said: string;
}

/** A control group as a directory; the shim makes it, and whoever ends the last of its processes removes it. */
export interface GroupAt {
  /** Which version of the kernel's interface: file names differ. */
  v: 1 | 2;
  dir: string;
}

/** By what they are for; several may be one directory. */
export type JobGroups = { all: GroupAt } & Partial<Record<GroupFeature, GroupAt>>;

/** A value for a file of a control group. */
export interface GroupWrite {
  in: GroupFeature;
  file: string;
  value: string;
  /** What is missing when the kernel does not take it; absent: nothing that was asked for. */
  asked?: string;
}

export interface LaunchPlan {
  /** Commands of a POSIX shell that set limits of the process. */
  steps: string[];
  /** Program and arguments that stand before the process's own and become it. */
  wrap: string[];
  writes: GroupWrite[];
  /** Limits that were asked for and cannot be held here, each with the reason. */
  missing: string[];
}

/** Why a process ended; the first reason wins. */
export type EndReason =
  | "exit"
  | "signal"
  | "timeout"
  | "memory"
  | "pids"
  | "cpu"
  | "fsize"
  | "disk"
  /** Of earlier versions, which did not say which. */
  | "limit"
  | "cancelled"
  | "spawn_failed"
  | "lost";

export interface Outcome {
  v: 1;
  ref: AttemptRef;
  kind: "agent" | "check";
  name: string;
  reason: EndReason;
  exit: number | null;
  signal: string | null;
  started: string;
  ended: string;
  duration_ms: number;
  /** Signals sent, in order, e.g. ["TERM", "KILL"]. */
  killed_with: string[];
  /** Processes found alive after the process itself had ended, and ended by us. */
  leftovers: { pid: number; command: string }[];
  /** Those that could not be ended; empty unless something is wrong. */
  survivors: { pid: number; command: string }[];
  /** False where neither cgroup nor PID namespace could prove that nobody is left. */
  certain: boolean;
  peak_rss: number;
  cpu_ms: number;
  /** Processes that the kernel killed at the limit of memory; absent where no group counts them. */
  memory_kills?: number;
  log_bytes: number;
  /** Bytes of output left out of the log. */
  log_dropped: number;
  /** The end of the log, redacted. */
  log_tail: string;
  /** What met a limit, also where the process itself went on; absent where nothing did. */
  limit_hits?: string[];
  /** For spawn_failed and limits: which, in one sentence. */
  detail?: string;
  /** The sandbox that it was in, in few words; absent where there was none. */
  sandbox?: string;
  /** Limits asked for that could not be set here. */
  limits_missing: string[];
}
