// One good call of every method, with values that fit the bus as it is, so that handlers and deciders are reached.
// The table is complete by its type: a new method does not compile without its line.

import { METHODS, type MethodName, ROLES, type Role } from "../../schemas/methods.ts";
import { TIERS } from "../../schemas/shapes.ts";
import { CAUSES, Phase, RunSpec, STATES, TaskSpec } from "../../schemas/task.ts";
import type { Random } from "./random.ts";

/** What the values are taken from. */
export interface Facts {
  /** The run of this group of connections, and one of an earlier group. */
  run: string;
  earlier: string;
  tasks: readonly string[];
  /** Object ids that exist: a commit, a tree, blobs. */
  oids: readonly string[];
  base: string;
  paths: readonly string[];
  /** The only directory that a claim may name. */
  workspace: string;
  repo: string;
  tokens: Readonly<Record<Role, readonly string[]>>;
  seq(): number;
}

type Make = (r: Random, f: Facts) => Record<string, unknown>;

export interface Request {
  jsonrpc: "2.0";
  id?: unknown;
  method: string;
  params?: unknown;
}

const text = (r: Random) => r.pick(["", "words", 'quotes " and \\', "é😀\u2028", "x".repeat(r.below(2_000))]);
const run = (r: Random, f: Facts) => (r.chance(0.9) ? f.run : f.earlier);
const ofTask: Make = (r, f) => ({ run: run(r, f), task: r.pick(f.tasks) });
const ofAttempt: Make = (r, f) => ({ ...ofTask(r, f), attempt: 1 + r.below(3) });
const oid = (r: Random, f: Facts) => r.pick(f.oids);
const some = <T>(r: Random, key: string, value: T) => (r.chance(0.5) ? { [key]: value } : {});
const evidence = (r: Random, f: Facts) => ({
  summary: text(r),
  ...some(r, "log", text(r)),
  ...some(r, "paths", [r.pick(f.paths)]),
  ...some(r, "exit", r.pick([null, 0, 1, 255])),
});
const snapshot = (r: Random, f: Facts) => ({
  version: r.below(4),
  commit: oid(r, f),
  tree: oid(r, f),
  changed_count: r.below(5),
});
const place: Make = (r, f) => ({ ...some(r, "run", run(r, f)), ...some(r, "task_id", r.pick(f.tasks)) });
const shot: Make = (r) => ({ ...some(r, "version", r.below(3)), ...some(r, "fresh", r.chance(0.5)) });

function result(r: Random, f: Facts): unknown {
  return r.pick([
    { kind: "passed", snapshot: r.chance(0.5) ? null : snapshot(r, f), base: f.base },
    { kind: "needs_files" },
    { kind: "failed", cause: r.pick(CAUSES), evidence: evidence(r, f) },
  ]);
}

/** Some tasks that depend on those before them. */
export function specOf(
  name: string,
  f: Pick<Facts, "repo" | "base">,
  tasks: readonly string[],
  reads: string,
) {
  const specs = tasks.map((id, i) =>
    TaskSpec.parse({
      id,
      goal: "g",
      command: "true",
      agent: { use: "command" },
      allowed_files: ["src/**"],
      timeout_s: 60,
      retries: 2,
      depends_on: i > 2 ? [tasks[i - 3]] : [],
    }),
  );
  const { repo, base } = f;
  return RunSpec.parse({
    run: name,
    repo,
    base,
    base_name: "main",
    workers: 4,
    gate: "none",
    reads,
    tasks: specs,
  });
}

export const CALLS: { readonly [M in MethodName]: Make } = {
  ping: (r) => ({ ...some(r, "anything", text(r)) }),
  hello: (r, f) => {
    const role = r.pick(ROLES);
    return { protocol: { min: 1, max: 1 + r.below(3) }, role, token: r.pick(f.tokens[role]), client: "fuzz" };
  },
  get_task: (r, f) => ({ ...some(r, "run", run(r, f)), ...some(r, "task", r.pick(f.tasks)) }),
  get_file: (r, f) => ({ ...place(r, f), path: r.pick(f.paths), ...shot(r, f) }),
  list_files: (r, f) => ({
    ...place(r, f),
    ...shot(r, f),
    ...some(r, "prefix", r.pick(["", "src", "src/", "no/such"])),
    ...some(r, "limit", 1 + r.below(20)),
    ...some(r, "after", r.pick(f.paths)),
  }),
  task_status_update: (r) => ({ status: "at work", message: text(r), ...some(r, "percent", r.below(101)) }),
  request_files: (r, f) => ({ paths: [r.pick(f.paths)], reason: text(r) }),
  publish: () => ({}),
  register: (r) => ({
    kind: r.pick(["agent", "check"]),
    name: text(r).slice(0, 100),
    pid: 1 + r.below(9_999),
    start_time: String(r.below(1e6)),
  }),
  heartbeat: (r) => ({
    kind: "agent",
    ...some(r, "usage", { rss: r.below(1e9), cpu_ms: r.next(), processes: 1 }),
  }),
  complete: (r, f) => ({
    outcome: {
      v: 1,
      ref: { run: f.run, task: r.pick(f.tasks), attempt: 1 },
      kind: r.pick(["agent", "check"]),
      name: "agent",
      pid: 1 + r.below(9_999),
      start_time: String(r.below(1e6)),
      reason: r.pick(["exit", "timeout", "cancelled"]),
      exit: r.below(3),
      signal: null,
      started: "2030-01-01T00:00:00.000Z",
      ended: "2030-01-01T00:00:01.000Z",
      certain: true,
      peak_rss: 1,
      cpu_ms: 1,
      log_bytes: 0,
      log_dropped: 0,
      log_tail: text(r),
      limits_missing: [],
      leftovers: [],
      survivors: [],
    },
  }),
  register_worker: (r) => ({ worker: "w", host: "here", pid: 1 + r.below(99), start_time: "1", slots: 1 }),
  claim: (r, f) => ({
    ...ofTask(r, f),
    state_version: r.below(6),
    worker: "w",
    base: f.base,
    workspace: f.workspace,
  }),
  attempt_update: (r, f) => ({ ...ofAttempt(r, f), ...some(r, "phase", r.pick(Phase.options)) }),
  hold_attempt: (r, f) => ({ ...ofAttempt(r, f), why: r.pick([text(r), null]) }),
  publish_snapshot: (r, f) => ({
    ...ofAttempt(r, f),
    base: f.base,
    commit: oid(r, f),
    tree: oid(r, f),
    changed: [
      { path: r.pick(f.paths), mode: "100644", oid: oid(r, f) },
      { path: "src/gone.ts", mode: null, oid: null },
    ].slice(0, r.below(3)),
  }),
  record_verdict: (r, f) => ({
    ...ofAttempt(r, f),
    verdict: {
      check: "c",
      tier: r.pick([...TIERS, "acceptance", "scope"]),
      tree: oid(r, f),
      verdict: r.pick(["pass", "fail", "infra"]),
      exit: r.below(3),
      duration_ms: r.next() * 100,
      command: text(r),
    },
  }),
  settle_attempt: (r, f) => ({ ...ofAttempt(r, f), result: result(r, f) }),
  land: (r, f) => ({ ...ofAttempt(r, f), old_head: f.base, commit: oid(r, f), tree: oid(r, f) }),
  report_into: (r, f) => ({
    run: run(r, f),
    branch: "main",
    head: oid(r, f),
    moved: r.chance(0.5),
    why: text(r),
  }),
  find_verdicts: (r, f) => ({ ...ofAttempt(r, f), keys: [r.pick(["0", "f"]).repeat(64)] }),
  inputs_changed: ofAttempt,
  write_manifest: ofAttempt,
  submit_run: (r, f) => ({
    spec: specOf(`s${r.below(20)}`, f, ["a", "b", "c", "d"].slice(0, 1 + r.below(4)), "run"),
    ...some(r, "add_to", run(r, f)),
  }),
  list_runs: () => ({}),
  get_run: (r, f) => ({ run: run(r, f) }),
  list_tasks: (r, f) => ({ ...some(r, "run", run(r, f)), ...some(r, "states", [r.pick(STATES)]) }),
  cancel: (r, f) => ({ run: run(r, f), task: r.pick(f.tasks) }),
  retry_task: (r, f) => ({ ...ofTask(r, f), ...some(r, "feedback", text(r)) }),
  approve: ofTask,
  reject: (r, f) => ({ ...ofTask(r, f), reason: text(r) }),
  grant_files: (r, f) => ({ ...ofTask(r, f), ...some(r, "paths", [r.pick(f.paths)]) }),
  pause: (r, f) => ({ run: run(r, f), ...some(r, "why", text(r)) }),
  resume: (r, f) => ({ run: run(r, f) }),
  subscribe: (r, f) => ({
    ...some(r, "run", run(r, f)),
    ...some(r, "from_seq", r.chance(0.02) ? 0 : Math.max(0, f.seq() - r.below(200))),
    ...some(r, "accesses", r.chance(0.5)),
  }),
  query_audit: (r, f) => ({
    ...some(r, "run", run(r, f)),
    ...some(r, "method", r.pick(NAMES)),
    ...some(r, "after_seq", Math.max(0, f.seq() - r.below(500))),
    limit: 1 + r.below(50),
    newest: r.chance(0.7),
  }),
  verify: () => ({}),
  metrics: () => ({}),
  shutdown: () => ({ leave_running: true }),
};

export const NAMES = Object.keys(METHODS) as MethodName[];
/** Their work grows with the journal: one in so many draws is kept, or they would be all that is measured. */
const RARE: Partial<Record<MethodName, number>> = { verify: 0.02, query_audit: 0.2, subscribe: 0.2 };

/** A call that the table allows; more often than not one for `role`. */
export function goodCall(r: Random, f: Facts, role: Role | undefined): Request {
  for (;;) {
    const method = r.pick(NAMES);
    const { roles } = METHODS[method];
    if (role && roles !== "any" && !(roles as readonly Role[]).includes(role) && r.chance(0.96)) continue;
    if (r.chance(1 - (RARE[method] ?? 1))) continue;
    return { jsonrpc: "2.0", id: goodId(r), method, params: CALLS[method](r, f) };
  }
}

function goodId(r: Random): unknown {
  if (r.chance(0.8)) return r.below(1e6);
  return r.pick([null, "", "é😀\u2028", -7, 1.5, 2 ** 53 - 1, "x".repeat(r.below(300)), undefined]);
}
