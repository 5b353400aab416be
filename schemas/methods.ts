// The method table: name, roles, params, result, idempotent. The truth for dispatch, client types and
// PROTOCOL.md. Handlers parse nothing: dispatch has checked the params by this table.

import { z } from "zod";
import type {
  ClaimAnswer,
  FileAnswer,
  Gap,
  HelloAnswer,
  ListAnswer,
  Ping,
  Removed,
  RunSummary,
  VerifyAnswer,
  WorkerAnswer,
} from "./answers.ts";
import { ROLES, type Role } from "./answers.ts";
import { AuditTime } from "./audit-time.ts";
import type { JournalRecord } from "./events.ts";
import { LimitFacts } from "./limit-plan.ts";
import { OutcomeShape } from "./outcome.ts";
import { Id, Oid, Place } from "./shapes.ts";
import type { Run, Task } from "./task.ts";
import { Cause, Evidence, Phase, RunSpec, SnapshotInfo, STATES } from "./task.ts";
import { type Earlier, Verdict, VerdictKey } from "./verdict.ts";

/** `T` as a phantom: the result's type, for client stubs. */
interface MethodDef<P extends z.ZodType = z.ZodType, R = unknown> {
  /** Who may call it; "any" also before `hello`. */
  roles: readonly Role[] | "any";
  params: P;
  /** Calling it twice with the same params has the effect of once. */
  idempotent: boolean;
  /** Reads are recorded as accesses; changes as events. */
  reads: boolean;
  readonly __result?: R;
}

function method<R>() {
  return <P extends z.ZodType>(def: Omit<MethodDef<P, R>, "__result">): MethodDef<P, R> => def;
}

const none = z.strictObject({});
const OfTask = { run: Id, task: Id };
const OfAttempt = { ...OfTask, attempt: z.int().positive() };
const Text = z.string().max(16_384);

/** What agents, people and the scheduler read. */
const READ = { roles: ["agent", "person", "scheduler"], idempotent: true, reads: true } as const;
/** What a shim reports. */
const REPORTED = { roles: ["shim"], idempotent: true, reads: false } as const;
/** What the scheduler says, and may say again. */
const TOLD = { roles: ["scheduler"], idempotent: true, reads: false } as const;
/** What it asks. */
const ASKED = { ...TOLD, reads: true } as const;

export const METHODS = {
  // --- any, also before hello
  ping: method<Ping>()({ roles: "any", params: z.looseObject({}), idempotent: true, reads: true }),
  hello: method<HelloAnswer>()({
    roles: "any",
    params: z.strictObject({
      protocol: z.strictObject({ min: z.int(), max: z.int() }),
      role: z.enum(ROLES),
      token: z.string().max(400),
      client: z.string().max(200),
    }),
    idempotent: true,
    reads: true,
  }),

  // --- agent: the connection is the attempt
  get_task: method<{ task: Task; attempt?: number; run: Run }>()({
    ...READ,
    params: z.strictObject({ run: Id.optional(), task: Id.optional() }),
  }),
  get_file: method<FileAnswer>()({
    ...READ,
    params: z.strictObject({
      run: Id.optional(),
      task_id: Id.optional(),
      path: z.string().max(8192),
      version: z.int().min(0).optional(),
      fresh: z.boolean().optional(),
    }),
  }),
  list_files: method<ListAnswer>()({
    ...READ,
    params: z.strictObject({
      run: Id.optional(),
      task_id: Id.optional(),
      prefix: z.string().max(8192).optional(),
      version: z.int().min(0).optional(),
      fresh: z.boolean().optional(),
      limit: z.int().positive().optional(),
      after: z.string().max(8192).optional(),
    }),
  }),
  task_status_update: method<{ state_version: number }>()({
    roles: ["agent"],
    params: z.strictObject({
      task_id: Id.optional(),
      status: z.string().min(1).max(80),
      message: Text.default(""),
      percent: z.number().min(0).max(100).optional(),
    }),
    idempotent: true,
    reads: false,
  }),
  request_files: method<{ granted: string[]; pending: string[] }>()({
    roles: ["agent"],
    params: z.strictObject({
      paths: z.array(z.string().min(1).max(4096)).min(1).max(100),
      reason: Text.default(""),
    }),
    idempotent: true,
    reads: false,
  }),
  /** Asks the scheduler for a new snapshot of the workspace; answered when it is published. */
  publish: method<SnapshotInfo>()({ roles: ["agent"], params: none, idempotent: false, reads: false }),

  // --- shim: the token is the attempt
  register: method<{ heartbeat_ms: number; lease_until: string }>()({
    ...REPORTED,
    params: z.strictObject({
      kind: z.enum(["agent", "check"]),
      name: z.string().max(120),
      pid: z.int().positive(),
      start_time: z.string().max(80),
    }),
  }),
  heartbeat: method<{ lease_until: string }>()({
    ...REPORTED,
    params: z.strictObject({
      kind: z.enum(["agent", "check"]),
      usage: z.strictObject({ rss: z.number(), cpu_ms: z.number(), processes: z.int() }).optional(),
    }),
  }),
  complete: method<{ accepted: boolean }>()({
    ...REPORTED,
    params: z.strictObject({
      outcome: OutcomeShape,
    }),
  }),

  // --- scheduler
  register_worker: method<WorkerAnswer>()({
    ...TOLD,
    params: z.strictObject({
      worker: Id,
      host: z.string().max(200),
      pid: z.int().positive(),
      start_time: z.string().max(80),
      slots: z.int().positive(),
      limits: LimitFacts.exactOptional(),
      sandbox: z
        .strictObject({
          works: z.boolean(),
          said: z.string().max(500),
          cure: z.string().max(500).exactOptional(),
        })
        .exactOptional(),
    }),
  }),
  claim: method<ClaimAnswer>()({
    ...TOLD,
    params: z.strictObject({
      ...OfTask,
      state_version: z.int(),
      worker: Id,
      base: Oid,
      /** Used once: the same workspace again is the same claim, and gets the same answer. */
      workspace: Place,
      /** To prove a landing anew that the state has forgotten: no back-off is waited for. */
      recovers: Oid.exactOptional(),
    }),
  }),
  /** Says the phase and renews the lease. With a `doubt` about the shim (null: none any more) nothing is renewed. */
  attempt_update: method<{ state_version: number; lease_until: string }>()({
    ...TOLD,
    params: z.strictObject({
      ...OfAttempt,
      phase: Phase.optional(),
      doubt: z
        .strictObject({ pid: z.int().min(0), why: z.string().min(1).max(400) })
        .nullable()
        .exactOptional(),
    }),
  }),
  /** The work of an attempt waits for a disk that cannot be written, or (null) goes on. */
  hold_attempt: method<{ state_version: number }>()({
    ...TOLD,
    params: z.strictObject({ ...OfAttempt, why: z.string().min(1).max(8192).nullable() }),
  }),
  publish_snapshot: method<{ version: number; inputs_changed: string[] }>()({
    ...TOLD,
    params: z.strictObject({
      ...OfAttempt,
      base: Oid,
      commit: Oid,
      tree: Oid,
      changed: z.array(
        z.strictObject({ path: z.string(), mode: z.string().nullable(), oid: Oid.nullable() }),
      ),
    }),
  }),
  record_verdict: method<{ state_version: number }>()({
    ...TOLD,
    params: z.strictObject({ ...OfAttempt, verdict: Verdict }),
  }),
  /** Of these keys, the passes that may stand for a check; `uses`: how often each has been recorded. */
  find_verdicts: method<{ found: { key: string; uses: number; earlier: Earlier }[] }>()({
    ...ASKED,
    params: z.strictObject({ ...OfAttempt, keys: z.array(VerdictKey).max(400) }),
  }),
  /** Ends the attempt's work; the bus decides what follows (retrying, blocked, review, passed). */
  settle_attempt: method<{ state: (typeof STATES)[number]; state_version: number }>()({
    ...TOLD,
    params: z.strictObject({
      ...OfAttempt,
      result: z.union([
        z.strictObject({ kind: z.literal("passed"), snapshot: SnapshotInfo.nullable(), base: Oid }),
        z.strictObject({ kind: z.literal("needs_files") }),
        z.strictObject({ kind: z.literal("failed"), cause: Cause, evidence: Evidence }),
      ]),
    }),
  }),
  /**
   * The branch was moved from `old_head` to `commit`. A second report of the same landing is accepted. `recovered`: the
   * running attempt has proven anew what that attempt of a lost state had landed.
   */
  land: method<{ state_version: number; ready: string[] }>()({
    ...TOLD,
    params: z.strictObject({
      ...OfAttempt,
      old_head: Oid,
      commit: Oid,
      tree: Oid,
      recovered: z.int().positive().exactOptional(),
    }),
  }),
  /** What became of the branch that the run was to be brought into (`into`). The same again is one event. */
  report_into: method<{ recorded: boolean }>()({
    ...TOLD,
    params: z.strictObject({
      run: Id,
      branch: z.string().min(1).max(1_000),
      head: Oid,
      moved: z.boolean(),
      why: Text.default(""),
    }),
  }),
  /** Paths of what landed since `base` that the attempt had read or changed itself, and all tasks landed since. */
  inputs_changed: method<{ paths: string[]; landed_since: string[] }>()({
    ...ASKED,
    params: z.strictObject({ ...OfAttempt }),
  }),
  /** Writes workspace_manifest.json and .workspace_commit into the attempt's directory (W3). */
  write_manifest: method<{ manifest: string; files: number }>()({
    roles: ["scheduler"],
    params: z.strictObject({ ...OfAttempt }),
    idempotent: true,
    reads: true,
  }),

  // --- people
  submit_run: method<{ run: string; attached: boolean; tasks: number }>()({
    roles: ["person"],
    params: z.strictObject({ spec: RunSpec, add_to: Id.optional() }),
    idempotent: true,
    reads: false,
  }),
  list_runs: method<{ runs: RunSummary[]; gaps?: Gap[] }>()({
    roles: ["person", "scheduler"],
    params: none,
    idempotent: true,
    reads: true,
  }),
  get_run: method<{ run: Run; summary: RunSummary; tasks: Task[]; seq: number }>()({
    roles: ["person", "scheduler"],
    params: z.strictObject({ run: Id }),
    idempotent: true,
    reads: true,
  }),
  list_tasks: method<{ tasks: Task[] }>()({
    roles: ["person", "scheduler"],
    params: z.strictObject({ run: Id.optional(), states: z.array(z.enum(STATES)).optional() }),
    idempotent: true,
    reads: true,
  }),
  /** Without `task`: the whole run. */
  cancel: method<{ cancelled: string[] }>()({
    roles: ["person"],
    params: z.strictObject({ run: Id, task: Id.optional() }),
    idempotent: true,
    reads: false,
  }),
  retry_task: method<{ state_version: number }>()({
    roles: ["person"],
    params: z.strictObject({ ...OfTask, feedback: Text.optional() }),
    idempotent: false,
    reads: false,
  }),
  approve: method<{ state_version: number }>()({
    roles: ["person"],
    params: z.strictObject(OfTask),
    idempotent: false,
    reads: false,
  }),
  reject: method<{ state_version: number }>()({
    roles: ["person"],
    params: z.strictObject({ ...OfTask, reason: Text }),
    idempotent: false,
    reads: false,
  }),
  grant_files: method<{ state_version: number; granted: string[] }>()({
    roles: ["person"],
    params: z.strictObject({ ...OfTask, paths: z.array(z.string().min(1)).optional() }),
    idempotent: true,
    reads: false,
  }),
  /** The scheduler may, too: when somebody else moved the integration branch. */
  pause: method<{ paused: boolean; changed: boolean }>()({
    roles: ["person", "scheduler"],
    params: z.strictObject({ run: Id, why: Text.exactOptional() }),
    idempotent: true,
    reads: false,
  }),
  resume: method<{ paused: boolean; changed: boolean }>()({
    roles: ["person"],
    params: z.strictObject({ run: Id }),
    idempotent: true,
    reads: false,
  }),
  /** Then `event` notifications come, from the record after `from_seq` (default: from now on). */
  subscribe: method<{ seq: number }>()({
    roles: ["person", "scheduler"],
    params: z.strictObject({
      run: Id.optional(),
      from_seq: z.int().min(0).optional(),
      accesses: z.boolean().optional(),
    }),
    idempotent: false,
    reads: true,
  }),
  query_audit: method<{ records: JournalRecord[]; next?: number; removed?: Removed }>()({
    roles: ["person"],
    params: z.strictObject({
      run: Id.optional(),
      task: Id.optional(),
      method: z.string().max(80).optional(),
      actor: z.string().max(200).optional(),
      request_id: z.string().max(200).optional(),
      kind: z.enum(["event", "access"]).optional(),
      since: AuditTime.optional(),
      until: AuditTime.optional(),
      after_seq: z.int().min(0).optional(),
      limit: z.int().positive().max(10_000).default(1_000),
      /** Newest first instead of oldest first. */
      newest: z.boolean().default(false),
    }),
    idempotent: true,
    reads: true,
  }),
  /** Proves the hash chain of the whole journal, compares it with its anchors, and replays it. */
  verify: method<VerifyAnswer>()({
    roles: ["person"],
    params: none,
    idempotent: true,
    reads: true,
  }),
  metrics: method<{ text: string }>()({ roles: ["person"], params: none, idempotent: true, reads: true }),
  /** Ends scheduler and bus; running agents are cancelled first unless `leave_running`. */
  shutdown: method<{ ok: true }>()({
    roles: ["person"],
    params: z.strictObject({ leave_running: z.boolean().default(false) }),
    idempotent: true,
    reads: false,
  }),
} as const;

export type MethodName = keyof typeof METHODS;
/** What a caller passes (defaults may be left out). */
export type Params<M extends MethodName> = z.input<(typeof METHODS)[M]["params"]>;
/** What a handler gets (defaults filled in). */
export type Parsed<M extends MethodName> = z.output<(typeof METHODS)[M]["params"]>;
export type Result<M extends MethodName> =
  (typeof METHODS)[M] extends MethodDef<z.ZodType, infer R> ? R : never;

export type {
  ClaimAnswer,
  HelloAnswer,
  ListAnswer,
  Notifications,
  Ping,
  RunSummary,
  WorkerAnswer,
} from "./answers.ts";
export { ROLES, type Role };
