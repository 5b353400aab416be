// Decisions about an attempt at work: claim, signs of life, words of the agent, snapshots, verdicts. Pure.
// A report that says what is known already makes no event and gets the same answer (B6).

import { BusbarError } from "../../schemas/errors.ts";
import { compilePathSet } from "../../schemas/globs.ts";
import { type AttemptRef, showId, taskKey } from "../../schemas/ids.ts";
import type { Outcome } from "../../schemas/job.ts";
import { LEASE_MS } from "../../schemas/limits.ts";
import type { Parsed, Result } from "../../schemas/methods.ts";
import { nextAttempt } from "../../schemas/next-attempt.ts";
import { newestVerdict } from "../../schemas/proof.ts";
import { pathFault } from "../../schemas/repo-path.ts";
import type { AttemptRecord, Task } from "../../schemas/task.ts";
import type { Earlier, Verdict } from "../../schemas/verdict.ts";
import { type Draft, newestAttempt } from "./draft.ts";
import { inputsChanged } from "./inputs.ts";
import { hasOutcome, hasProc } from "./procs.ts";
import { stateWords } from "./task-machine.ts";

/** A lease is written again only when the written one has less than this part left; most heartbeats cost no event. */
const RENEW_BELOW = 2 / 3;

export interface Claimed {
  attempt: number;
  state_version: number;
  lease_until: string;
  task: Task;
}

/**
 * Compare-and-swap on state_version: STALE when it differs, NOT_CLAIMABLE when not ready or paused. The same claim
 * again (its workspace says which it is) gets the same answer: the first one may have been lost on its way.
 */
export function claim(d: Draft, p: Parsed<"claim">, leaseMs = LEASE_MS, nonce?: string): Claimed {
  const run = d.mustRun(p.run);
  const task = d.mustTask(p.run, p.task);
  const key = showId(taskKey(p.run, p.task));
  const s = task.state;
  if (s.name === "running" && s.worker === p.worker && s.workspace === p.workspace && s.base === p.base) {
    const { attempt, lease_until } = s;
    return { attempt, state_version: task.state_version, lease_until, task };
  }
  if (task.state_version !== p.state_version) {
    throw new BusbarError(
      "STALE",
      `claim of ${key}: state_version is ${task.state_version}, not ${p.state_version}`,
      {
        expected: p.state_version,
        actual: task.state_version,
      },
    );
  }
  const due = task.state.name === "retrying" && p.recovers !== undefined;
  if ((task.state.name !== "ready" && !due) || run.paused) {
    const why = run.paused ? "the run is paused" : `it is ${stateWords(task.state)}`;
    throw new BusbarError("NOT_CLAIMABLE", `claim of ${key}: ${why}`, { state: task.state.name });
  }
  if (due) d.emitTask(task, { type: "task.ready" });
  const attempt = nextAttempt(task);
  const lease_until = leaseFrom(d, leaseMs);
  const { worker, base, workspace } = p;
  const claimed = d.emitTask(task, {
    type: "task.claimed",
    attempt,
    worker,
    base,
    workspace,
    lease_until,
    ...(nonce !== undefined && { nonce }),
  });
  return { attempt, state_version: claimed.state_version, lease_until, task: claimed };
}

function leaseFrom(d: Draft, leaseMs: number): string {
  return new Date(d.now + leaseMs).toISOString();
}

/** Says the phase and that its worker lives; or what is not known about its shim, which is no sign of life. */
export function attemptUpdate(
  d: Draft,
  p: Parsed<"attempt_update">,
  leaseMs = LEASE_MS,
): Result<"attempt_update"> {
  let task = running(d, p);
  const s = task.state;
  if (p.phase && s.name === "running" && s.phase !== p.phase) {
    task = d.emitTask(task, { type: "task.phase", attempt: p.attempt, phase: p.phase });
  }
  if (p.doubt !== undefined) doubt(d, task, p.doubt);
  const now = d.mustTask(p.run, p.task);
  const lease_until =
    p.doubt && now.state.name === "running" ? now.state.lease_until : renew(d, now, leaseMs);
  return { state_version: d.mustTask(p.run, p.task).state_version, lease_until };
}

function doubt(d: Draft, task: Task, said: { pid: number; why: string } | null): void {
  const s = task.state;
  if (s.name !== "running" || s.doubt?.why === said?.why) return;
  d.emitTask(task, { type: "task.doubt", attempt: s.attempt, doubt: said });
}

/** The attempt's work, or its landing, waits for a disk; null: it goes on. The same again is one event. */
export function holdAttempt(d: Draft, p: Parsed<"hold_attempt">): Result<"hold_attempt"> {
  const task = d.mustTask(p.run, p.task);
  newestAttempt(task, p.attempt);
  const s = task.state;
  if (s.name !== "running" && (s.name !== "passed" || s.merged !== null)) throw over(task, p.attempt);
  if (s.held?.why === (p.why ?? undefined)) return { state_version: task.state_version };
  const held = p.why === null ? null : { why: p.why };
  return { state_version: d.emitTask(task, { type: "task.held", attempt: p.attempt, held }).state_version };
}

export interface Alive {
  lease_until: string;
  /** Why the process should end at once: its task was cancelled. */
  end?: string;
}

/** A shim says that it starts. */
export function register(d: Draft, ref: AttemptRef, p: Parsed<"register">, leaseMs = LEASE_MS): Alive {
  const task = reporting(d, ref);
  const { kind, name, pid, start_time } = p;
  const proc = { kind, name, pid, start_time };
  if (task.state.name !== "cancelled" && !hasProc(newestAttempt(task, ref.attempt).procs, proc)) {
    d.emitTask(task, { type: "proc.registered", attempt: ref.attempt, ...proc });
  }
  return alive(d, d.mustTask(ref.run, ref.task), p.kind, leaseMs);
}

/** A shim says that it lives. */
export function heartbeat(
  d: Draft,
  ref: AttemptRef,
  p: Parsed<"heartbeat"> = { kind: "agent" },
  leaseMs = LEASE_MS,
): Alive {
  return alive(d, reporting(d, ref), p.kind, leaseMs, p.usage);
}

function alive(
  d: Draft,
  task: Task,
  kind: "agent" | "check",
  leaseMs: number,
  usage?: AttemptRecord["usage"],
): Alive {
  const s = task.state;
  if (s.name === "cancelled") return { lease_until: leaseFrom(d, leaseMs), end: `cancelled by ${s.by}` };
  if (s.name === "running" && !speaksFor(task, kind)) return { lease_until: s.lease_until };
  if (kind === "agent") doubt(d, task, null); // whatever the scheduler could not see: here it is
  return {
    lease_until: renew(d, d.mustTask(task.run, task.spec.id), leaseMs, kind === "agent" ? usage : undefined),
  };
}

/** While the agent is at work only its own shim says that the attempt lives: a check beside it knows nothing of it. */
export function speaksFor({ state }: Task, kind: "agent" | "check"): boolean {
  return kind === "agent" || state.name !== "running" || state.phase !== "agent";
}

/** The written lease, renewed when it runs low. A passed task has none; its checks are bounded by time-outs. */
function renew(d: Draft, task: Task, leaseMs: number, usage?: AttemptRecord["usage"]): string {
  const s = task.state;
  if (s.name !== "running") return leaseFrom(d, leaseMs);
  const left = Date.parse(s.lease_until) - d.now;
  // More than a whole lease: the clock was set back.
  if (left >= leaseMs * RENEW_BELOW && left <= leaseMs) return s.lease_until;
  const lease_until = leaseFrom(d, leaseMs);
  d.emitTask(task, { type: "task.lease", attempt: s.attempt, lease_until, ...(usage && { usage }) });
  return lease_until;
}

/** The ending of a process; late ones of the newest attempt are still recorded. */
export function complete(d: Draft, ref: AttemptRef, outcome: Outcome): Result<"complete"> {
  const task = d.mustTask(ref.run, ref.task);
  if (hasOutcome(newestAttempt(task, ref.attempt).procs, outcome)) return { accepted: true };
  d.emitTask(task, { type: "proc.completed", attempt: ref.attempt, outcome });
  return { accepted: true };
}

export function progress(
  d: Draft,
  ref: AttemptRef,
  p: Omit<Parsed<"task_status_update">, "task_id">,
): Result<"task_status_update"> {
  const task = running(d, ref);
  const last = newestAttempt(task, ref.attempt).progress;
  if (last && last.status === p.status && last.message === p.message && last.percent === p.percent) {
    return { state_version: task.state_version };
  }
  const { status, message, percent } = p;
  const event = { status, message, ...(percent !== undefined && { percent }) };
  return {
    state_version: d.emitTask(task, { type: "task.progress", attempt: ref.attempt, ...event }).state_version,
  };
}

/** Paths that the spec or a grant allows are granted at once; the rest ends the attempt as blocked when it settles. */
export function requestFiles(d: Draft, ref: AttemptRef, p: Parsed<"request_files">): Result<"request_files"> {
  const task = running(d, ref);
  // Files are asked for by name: a pattern could ask a person for the whole tree in one word.
  for (const path of p.paths) {
    const fault = pathFault(path) ?? (/[*?]/.test(path) ? "is a pattern; name the file" : undefined);
    if (fault) throw new BusbarError("BAD_PATH", `asking for ${showId(path)}: it ${fault}`, { path });
  }
  const allowed = compilePathSet([...task.spec.allowed_files, ...task.granted]);
  const forbidden = compilePathSet(task.spec.forbidden_files);
  const isGranted = (path: string) =>
    task.granted.includes(path) || (allowed.matches(path) && !forbidden.matches(path));
  const granted = p.paths.filter(isGranted);
  const pending = p.paths.filter((path) => !isGranted(path));
  const wants = task.state.name === "running" ? task.state.wants : undefined;
  const fresh = pending.filter((path) => !wants?.paths.includes(path));
  if (fresh.length > 0) {
    const paths = [...(wants?.paths ?? []), ...new Set(fresh)];
    const reason = p.reason || wants?.reason || "";
    d.emitTask(task, { type: "task.files_requested", attempt: ref.attempt, paths, reason });
  }
  return { granted, pending };
}

export function askPublish(d: Draft, ref: AttemptRef): void {
  d.emitTask(running(d, ref), { type: "task.publish_requested", attempt: ref.attempt });
}

/** The same commit again is the same version. */
export function publishSnapshot(d: Draft, p: Parsed<"publish_snapshot">): Result<"publish_snapshot"> {
  let task = d.mustTask(p.run, p.task);
  const shots = d.snapshots(p.run, p.task, newestAttempt(task, p.attempt).attempt);
  const known = shots.find((s) => s.version > 0 && s.commit === p.commit);
  if (known) {
    return {
      version: known.version,
      inputs_changed: newestAttempt(task, p.attempt).inputs_changed ?? [],
    };
  }
  task = running(d, p);
  const version = (shots.at(-1)?.version ?? 0) + 1;
  const { attempt, base, commit, tree, changed } = p;
  const snapshot = { version, commit, tree, changed_count: changed.length };
  task = d.emitTask(task, { type: "task.snapshot", attempt, snapshot, base, changed });
  const { paths } = inputsChanged(d, p);
  if (paths.length > 0 && !sameList(newestAttempt(task, attempt).inputs_changed, paths)) {
    d.emitTask(task, { type: "task.inputs_changed", attempt, paths });
  }
  return { version, inputs_changed: paths };
}

function sameList(a: readonly string[] | undefined, b: readonly string[]): boolean {
  return a !== undefined && a.length === b.length && a.every((x, i) => x === b[i]);
}

/**
 * A verdict has no number: the same again, word for word and in time, is the last one of that check told once more (its
 * answer was lost). A check that really ran twice and said the same is one verdict then, which changes nothing: the newest
 * counts. Behind another verdict of the same check it is news, even when an older one looks alike.
 */
export function recordVerdict(d: Draft, p: Parsed<"record_verdict">): Result<"record_verdict"> {
  const task = d.mustTask(p.run, p.task);
  const newest = newestVerdict(newestAttempt(task, p.attempt).verdicts, p.verdict);
  if (JSON.stringify(newest) === JSON.stringify(p.verdict)) {
    return { state_version: task.state_version };
  }
  const event = { type: "task.verdict", attempt: p.attempt, verdict: p.verdict } as const;
  if (task.state.name !== "running" && task.state.name !== "passed") throw over(task, p.attempt);
  if (p.verdict.cached) mustBeBorneOut(d, p.verdict, p.verdict.cached);
  return { state_version: d.emitTask(task, event).state_version };
}

/** A cached verdict stands only for a pass that this state holds: of the same key and command, by a run of its own. */
function mustBeBorneOut(d: Draft, verdict: Verdict, { run, task, attempt, tree, at }: Earlier): void {
  const record = d.task(run, task)?.attempts.find((one) => one.attempt === attempt);
  const earlier = record?.verdicts.find(
    (one) =>
      one.key !== undefined &&
      one.key === verdict.key &&
      one.tree === tree &&
      one.at === at &&
      one.command === verdict.command &&
      one.cached === undefined &&
      one.verdict === "pass",
  );
  if (earlier && verdict.verdict === "pass") return;
  const where = `${showId(taskKey(run, task))}#${attempt}`;
  const what = `verdict of ${verdict.check}: ${where} has no pass of the same input on tree ${tree} that could stand for it`;
  throw new BusbarError("UNPROVEN", what, { tree: verdict.tree, missing: [verdict.check] });
}

/** The task, running this very attempt; FENCED when that is over. */
function running(d: Draft, ref: AttemptRef): Task {
  const task = d.mustTask(ref.run, ref.task);
  newestAttempt(task, ref.attempt);
  if (task.state.name !== "running") throw over(task, ref.attempt);
  return task;
}

/** A task whose shims may still report: at work, being proven, or cancelled (then they are told to end). */
function reporting(d: Draft, ref: AttemptRef): Task {
  const task = d.mustTask(ref.run, ref.task);
  newestAttempt(task, ref.attempt);
  if (!["running", "passed", "cancelled"].includes(task.state.name)) throw over(task, ref.attempt);
  return task;
}

export function over(task: Task, attempt: number): BusbarError {
  const key = showId(taskKey(task.run, task.spec.id));
  return new BusbarError(
    "FENCED",
    `attempt ${attempt} of ${key} is over: the task is ${stateWords(task.state)}`,
    {
      run: task.run,
      task: task.spec.id,
      attempt,
      state: task.state.name,
    },
  );
}
