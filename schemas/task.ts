// The normalised spec of a task and of a run, and the state of a task. What a person writes is in
// `plan/`; it is turned into these shapes before anything is submitted.

import { z } from "zod";
import { Limits } from "./limit-spec.ts";
import { MAX_TASKS_PER_RUN, MAX_TIMEOUT_S, MAX_WORKERS, MIN_TIMEOUT_S } from "./limits.ts";
import { SandboxSaid } from "./sandbox.ts";
import { Id, Oid, RepoPath } from "./shapes.ts";
import type { Verdict } from "./verdict.ts";

/** One criterion: a command that must end with 0, a sentence for the agent, or both. */
export const Acceptance = z.strictObject({ text: z.string().optional(), run: z.string().optional() });

/** Which agent works: a profile by name. `command` runs any command line and needs no key. */
export const AgentChoice = z.strictObject({
  use: z.string(),
  model: z.string().optional(),
  args: z.array(z.string()).default([]),
});

const EnvName = z.string().regex(/^[A-Za-z_][A-Za-z0-9_]*$/);

/**
 * Where a secret is read when a process needs it: `env:NAME` of where the scheduler runs, `file:PATH` (absolute, or
 * below the home with `~/`), `cmd:COMMAND` (what it prints). The value stands in no plan, journal or file.
 */
export const SecretSource = z
  .string()
  .regex(
    /^(?:env:[A-Za-z_][A-Za-z0-9_]*|file:~?\/.+|cmd:.*\S.*)$/s,
    "must be env:NAME, file:/PATH, file:~/PATH or cmd:COMMAND",
  );

export const EnvSpec = z.strictObject({
  /** Names passed through from where the scheduler runs. */
  pass: z.array(EnvName).default([]),
  set: z.record(EnvName, z.string()).default({}),
  /** Names (of `pass` or `set`) whose values are redacted from every log. */
  secret: z.array(z.string()).default([]),
  /** Names and where their values come from; for the one process that they are written for. */
  secrets: z.record(EnvName, SecretSource).optional(),
});

export const NO_ENV = { pass: [], set: {}, secret: [] } satisfies z.infer<typeof EnvSpec>;

export const TaskSpec = z.strictObject({
  id: Id,
  goal: z.string(),
  interface: z.string().default(""),
  /** Shell command line; set exactly when `agent.use` is `command`. */
  command: z.string().optional(),
  agent: AgentChoice,
  /** Smaller goes first. */
  priority: z.int().default(100),
  depends_on: z.array(Id).default([]),
  /** Globs, schemas/globs.ts; never empty. */
  allowed_files: z.array(z.string()).min(1),
  forbidden_files: z.array(z.string()).default([]),
  context_files: z.array(RepoPath).default([]),
  acceptance: z.array(Acceptance).default([]),
  prohibited_actions: z.array(z.string()).default([]),
  timeout_s: z.number().min(MIN_TIMEOUT_S).max(MAX_TIMEOUT_S),
  retries: z.int().min(0).max(100),
  limits: Limits.default({}),
  env: EnvSpec.default(NO_ENV),
  tags: z.array(z.string()).default([]),
  /** What the workspace holds. */
  checkout: z.enum(["full", "sparse"]).default("full"),
  /** Whether an attempt that changed nothing is done (`ok`) or failed with cause no_changes (`fail`). */
  no_changes: z.enum(["fail", "ok"]).default("fail"),
  /** True: waits for `busctl approve` before it lands. */
  review: z.boolean().default(false),
  /** Contract files of the plan that this task declares to change. */
  changes_contracts: z.boolean().default(false),
});
export type TaskSpec = z.infer<typeof TaskSpec>;
export type Acceptance = z.infer<typeof Acceptance>;
export type EnvSpec = z.infer<typeof EnvSpec>;

export const Check = z.strictObject({
  name: z.string().min(1).max(80),
  run: z.string().min(1),
  inputs: z.array(z.string()).default([]),
  timeout_s: z.number().min(MIN_TIMEOUT_S).max(MAX_TIMEOUT_S),
  limits: Limits.default({}),
  /** Beside the task's `pass` and `set`; the only place from which a check gets secrets. */
  env: EnvSpec.optional(),
});
export type Check = z.infer<typeof Check>;

export const SetupStep = z.strictObject({ run: z.string().min(1), key: z.array(z.string()).default([]) });
export type SetupStep = z.infer<typeof SetupStep>;

/** A tree broken on purpose: the gate must find it red once per run before its green counts. */
export const Canary = z.strictObject({ file: RepoPath, append: z.string() });

export const Gate = z.strictObject({
  setup: z.array(SetupStep).default([]),
  shallow: z.array(Check).default([]),
  middle: z.array(Check).default([]),
  deep: z.array(Check).default([]),
  canary: Canary.optional(),
});
export type Gate = z.infer<typeof Gate>;

export const RunSpec = z.strictObject({
  /** Wished name; the bus appends -2, -3 ... when an ended run has it. */
  run: Id,
  /** The repository's common git directory, absolute and real. */
  repo: z.string(),
  /** Full id of the commit that the run starts from; resolved at submit, never again. */
  base: Oid,
  /** What the person wrote for it, or the branch it was taken from; for people. */
  base_name: z.string(),
  /** Branch moved to the result at the end, if asked. */
  into: z.string().optional(),
  workers: z.int().min(1).max(MAX_WORKERS),
  schedule: z.enum(["eager", "waves"]).default("eager"),
  reads: z.enum(["dependencies", "run"]).default("dependencies"),
  /** The checks common to all tasks, or "none" said aloud: then only each task's acceptance is proof. */
  gate: z.union([Gate, z.literal("none")]),
  /** Globs of files restored from the base before every check. */
  protect: z.array(z.string()).default([]),
  /** Files and directories of the user's checkout that are in no commit, for every workspace and clean place. */
  copy: z.array(RepoPath).optional(),
  /** Globs of files that may hold what looks like a secret; never one that was given to the agent. */
  may_hold_secrets: z.array(z.string()).optional(),
  /** Globs of public files: tasks that may touch one go one after the other. */
  serial: z.array(z.string()).default([]),
  /** Globs of files read-only to every task that does not declare `changes_contracts`. */
  contracts: z.array(z.string()).default([]),
  /** Absent: what the host says, else the default. */
  sandbox: SandboxSaid.exactOptional(),
  /** False: every check runs, whatever was proven before. */
  reuse_verdicts: z.boolean().optional(),
  tasks: z.array(TaskSpec).min(1).max(MAX_TASKS_PER_RUN),
});
export type RunSpec = z.infer<typeof RunSpec>;

// --- state ---------------------------------------------------------------------------------------

export const STATES = [
  "pending",
  "ready",
  "running",
  "passed",
  "failed",
  "retrying",
  "blocked",
  "cancelled",
] as const;
export type StateName = (typeof STATES)[number];

/** Why an attempt failed. `innocent` causes never use up the retries meant for bad work (design section 4). */
export const CAUSES = [
  "agent_error",
  "timeout",
  "memory",
  "pids",
  "cpu",
  "fsize",
  "disk",
  /** Of earlier versions, which did not say which. */
  "limit",
  "scope",
  "check",
  "check_after_merge",
  "conflict",
  "no_changes",
  "rejected",
  "rate_limited",
  "infra",
  "lost",
] as const;
export const Cause = z.enum(CAUSES);
export type Cause = z.infer<typeof Cause>;
export const INNOCENT_CAUSES: ReadonlySet<Cause> = new Set(["rate_limited", "infra", "lost"]);

export const Phase = z.enum(["prepare", "agent", "capture", "prove"]);
export type Phase = z.infer<typeof Phase>;

/** How the evidence begins when all that is out of scope is of the plan's `protect`: no grant helps there. */
export const PROTECTED_SUMMARY = "protected by the plan: ";
/** How it begins when all that is wrong is that files hold secrets. */
export const SECRET_SUMMARY = "secret in the change: ";
/** How it begins when all that is wrong is what no change may hold, whatever the scope. */
export const REFUSED_SUMMARY = "no change may hold this: ";

/** What a person, and the next attempt, is told about a failure. Bounded and redacted. */
export const Evidence = z.strictObject({
  /** One sentence that names the fact: check, path, exit, limit. */
  summary: z.string(),
  /** The relevant end of the log. */
  log: z.string().default(""),
  /** Paths that the failure is about. */
  paths: z.array(z.string()).default([]),
  /** Tasks landed since the attempt's base (for check_after_merge and conflict). */
  landed_since: z.array(z.string()).default([]),
  check: z.string().optional(),
  exit: z.int().nullable().optional(),
  /** A fact of the machine, established by the scheduler, that explains an innocent end (bus/state/innocence.ts). */
  machine: z.string().optional(),
});
export type Evidence = z.infer<typeof Evidence>;

export const SnapshotInfo = z.strictObject({
  /** 0 is the base. */
  version: z.int().min(0),
  commit: Oid,
  tree: Oid,
  changed_count: z.int(),
});
export type SnapshotInfo = z.infer<typeof SnapshotInfo>;

/** What a blocked task needs from a person, or from upstream. */
export type Need =
  | { kind: "retries_used"; cause: Cause; evidence: Evidence }
  | { kind: "files"; paths: string[]; reason: string }
  | { kind: "review"; snapshot: SnapshotInfo }
  | { kind: "upstream"; root: string; state: "blocked" | "cancelled"; cause: string };

/** The third answer about a shim: neither alive nor dead. `pid` 0: not even that is known. */
export interface Doubt {
  pid: number;
  why: string;
  since: string;
}

/** Its work is done but cannot be written down: where, why, and what to do. It goes on by itself when that is mended. */
export interface Held {
  why: string;
  since: string;
}

/** Each state carries only the facts true in it. Times are ISO 8601, UTC. */
export type TaskState =
  | { name: "pending"; waits_for: string[] }
  | { name: "ready"; since: string }
  | {
      name: "running";
      attempt: number;
      worker: string;
      phase: Phase;
      since: string;
      lease_until: string;
      workspace: string;
      base: string;
      /** Set by request_files; the attempt ends as blocked. */
      wants?: { paths: string[]; reason: string };
      /** Nobody can say whether its shim works. It is left alone; without a sign of life it is lost at `lease_until`. */
      doubt?: Doubt;
      held?: Held;
    }
  | {
      name: "passed";
      attempt: number;
      since: string;
      snapshot: SnapshotInfo | null;
      base: string;
      /** The landed commit, once the branch holds it; null for `no_changes: ok`. */
      merged: { commit: string | null; at: string } | null;
      /** Its landing cannot be written down; never beside `merged`. */
      held?: Held;
    }
  | { name: "failed"; attempt: number; since: string; cause: Cause; evidence: Evidence }
  | { name: "retrying"; attempts: number; not_before: string; cause: Cause; evidence: Evidence }
  | { name: "blocked"; since: string; needs: Need }
  | { name: "cancelled"; since: string; by: string };

/** One ended or running try, kept for people. */
export interface AttemptRecord {
  attempt: number;
  worker: string;
  base: string;
  workspace: string;
  /** Part of what its tokens are made from: another attempt that is given the same number after a loss has other tokens. */
  nonce?: string;
  started: string;
  ended?: string;
  result?: "passed" | "needs_files" | "cancelled" | Cause;
  evidence?: Evidence;
  snapshots: SnapshotInfo[];
  verdicts: Verdict[];
  /** Newest word of the agent itself; shown, never believed. */
  progress?: { status: string; message: string; percent?: number; at: string };
  usage?: { rss: number; cpu_ms: number; processes: number };
  /** Landed commits since the base touched what this attempt had read. */
  inputs_changed?: string[];
  /** Its processes, as the shims reported them. */
  procs?: ProcRecord[];
}

/** A process that a shim registered, and how it ended once that is known. `pid` 0: it never registered. */
export interface ProcRecord {
  kind: "agent" | "check";
  name: string;
  pid: number;
  start_time: string;
  ended?: Pick<
    import("./job.ts").Outcome,
    "reason" | "exit" | "signal" | "started" | "ended" | "peak_rss" | "cpu_ms" | "sandbox"
  > & {
    /** What met a limit, also where the process itself went on: `node (pid 812), 96 MiB, killed at ...`. */
    limit_hits?: string[];
    /** Limits that were asked for and could not be set, each with the reason; absent where there is none. */
    limits_missing?: string[];
  };
}

export interface Task {
  run: string;
  spec: TaskSpec;
  wave: number;
  state: TaskState;
  /** Grows by one with every event of the task; late reports are recognised by it. */
  state_version: number;
  attempts: AttemptRecord[];
  /** Attempts up to this number were begun, but their records are lost (a gap in the journal): not numbered again. */
  lost_attempts?: number;
  /** Failed tries per cause; never reset but by a person's retry. */
  counts: Partial<Record<Cause, number>>;
  /** Paths granted beyond `allowed_files`. */
  granted: string[];
  /** A person's words for the next attempt. */
  feedback?: string;
}

export interface Run {
  run: string;
  spec: Omit<RunSpec, "tasks">;
  /** Hash of the normalised spec as submitted: the same plan again is the same run. */
  plan_hash: string;
  created: string;
  by: string;
  paused: boolean;
  /** Why, where the one who paused it said so. */
  paused_why?: string;
  /** Head of the integration branch as the bus knows it. */
  head: string;
  /** Landings in order. */
  landed: Landing[];
  /** Task ids in the order of the plan. */
  order: string[];
  /** What became of `spec.into`, once it was tried. */
  into?: IntoResult;
}

export interface IntoResult {
  branch: string;
  /** What was to be brought there. */
  head: string;
  moved: boolean;
  /** Why it was not, with the command that does it; "" when it was. */
  why: string;
  at: string;
}

export interface Landing {
  task: string;
  attempt: number;
  commit: string;
  tree: string;
  at: string;
  /** Landed by this attempt of a state that was lost; found on the branch, proven anew by `attempt` and taken over. */
  recovered?: number;
}

/** Derived, never stored: a run is live while any task can still move by itself. */
export type RunStatus = "active" | "paused" | "merged" | "incomplete" | "cancelled";
