// Decisions at the end of an attempt: settle, retry policy, landing, lost leases, back-off over. Pure.
//
// A failure:  failed -> retrying while tries are left for its cause, else blocked{retries_used} with the evidence.
//             Innocent causes (infra, lost, rate_limited) have their own bound and never use up the spec's retries (S6),
//             as long as the task is not found to bring them about itself (innocence.ts).
// Pause before try n+1: RETRY_BASE_MS * RETRY_FACTOR^n, at most RETRY_MAX_MS, +-20 % so that many do not return at once.

import { BusbarError } from "../../schemas/errors.ts";
import { type AttemptRef, showId, taskKey } from "../../schemas/ids.ts";
import {
  FREE_LOSSES,
  FREE_WAVES,
  MAX_INNOCENT_RETRIES,
  RETRY_BASE_MS,
  RETRY_FACTOR,
  RETRY_MAX_MS,
} from "../../schemas/limits.ts";
import type { Parsed, Result } from "../../schemas/methods.ts";
import type { Random } from "../../schemas/ports.ts";
import { requiredChecks, unproven } from "../../schemas/proof.ts";
import {
  type AttemptRecord,
  CAUSES,
  type Cause,
  type Evidence,
  INNOCENT_CAUSES,
  type Task,
} from "../../schemas/task.ts";
import { blockDownstream, openDeps, readyAfter, readyAmong } from "./cascade.ts";
import { over } from "./decide-attempt.ts";
import { type Draft, newestAttempt } from "./draft.ts";
import { countedLosses, isDoubted, lossesOf, neighboursOf } from "./innocence.ts";
import { stateWords } from "./task-machine.ts";

type Settle = Parsed<"settle_attempt">;
type Answer = Result<"settle_attempt">;

export function settle(d: Draft, p: Settle, random: Random): Answer {
  const task = d.mustTask(p.run, p.task);
  const attempt = newestAttempt(task, p.attempt);
  const word = p.result.kind === "failed" ? p.result.cause : p.result.kind;
  // "passed" reported again after it passed; a failure reported again after it failed
  if (attempt.result === word) return answer(task);
  switch (p.result.kind) {
    case "passed":
      settlePassed(d, task, p, p.result, random);
      break;
    case "needs_files":
      settleFiles(d, task, p.attempt);
      break;
    case "failed":
      fail(d, task, p.result.cause, p.result.evidence, random);
      break;
  }
  return answer(d.mustTask(p.run, p.task));
}

function answer(task: Task): Answer {
  return { state: task.state.name, state_version: task.state_version };
}

function settlePassed(
  d: Draft,
  task: Task,
  ref: AttemptRef,
  result: Extract<Settle["result"], { kind: "passed" }>,
  random: Random,
): void {
  if (task.state.name !== "running") throw over(task, ref.attempt);
  const { snapshot, base } = result;
  if (snapshot === null && task.spec.no_changes === "fail") {
    fail(d, task, "no_changes", evidence("the attempt changed nothing"), random);
    return;
  }
  const passed = d.emitTask(task, { type: "task.passed", attempt: ref.attempt, snapshot, base });
  if (snapshot === null) {
    const done = d.emitTask(passed, {
      type: "task.landed",
      attempt: ref.attempt,
      commit: null,
      tree: null,
    });
    readyAfter(d, done);
  } else if (task.spec.review) {
    blockDownstream(d, d.emitTask(passed, { type: "task.blocked", needs: { kind: "review", snapshot } }));
  }
}

/** The agent asked for more files. What was granted while it ran is not asked again. */
function settleFiles(d: Draft, task: Task, attempt: number): void {
  if (task.state.name !== "running") throw over(task, attempt);
  const wants = task.state.wants ?? { paths: [], reason: "" };
  const paths = wants.paths.filter((path) => !task.granted.includes(path));
  const blocked = d.emitTask(task, {
    type: "task.blocked",
    needs: { kind: "files", paths, reason: wants.reason },
  });
  if (paths.length > 0) {
    blockDownstream(d, blocked);
    return;
  }
  d.emitTask(blocked, { type: "task.unblocked", waits_for: [] });
  readyAmong(d, task.run, [task.spec.id]);
}

/** `task` fails and goes on: to another try, or to a person. */
export function fail(d: Draft, task: Task, cause: Cause, proof: Evidence, random: Random): void {
  const attempt = task.attempts.at(-1)?.attempt ?? 0;
  const s = task.state;
  if (s.name !== "running" && !(s.name === "passed" && !s.merged)) throw over(task, attempt);
  afterFailure(d, d.emitTask(task, { type: "task.failed", attempt, cause, evidence: proof }), random);
}

/** From failed to retrying or blocked. `task` must be failed. */
export function afterFailure(d: Draft, task: Task, random: Random): void {
  if (task.state.name !== "failed") return;
  const { cause, evidence: proof } = task.state;
  const { tries, bound, doubted } = triesUsed(d, task, cause);
  const said = doubted ? withDoubt(proof) : proof;
  if (tries > bound) {
    const needs = { kind: "retries_used", cause, evidence: said } as const;
    blockDownstream(d, d.emitTask(task, { type: "task.blocked", needs }));
    return;
  }
  const not_before = new Date(d.now + backOff(tries - 1, random)).toISOString();
  d.emitTask(task, { type: "task.retrying", not_before, cause, evidence: said });
}

/** Failed tries that count against the same bound as `cause`: all bad work together, each innocent cause by itself. */
function triesUsed(d: Draft, task: Task, cause: Cause): { tries: number; bound: number; doubted: boolean } {
  const all = lossesOf(task);
  const neighbours = () => neighboursOf(d.tasks(task.run), task.spec.id);
  const losses = countedLosses(all, neighbours);
  const doubted = isDoubted(cause) && losses > countedLosses(all.slice(0, -1), neighbours);
  if (INNOCENT_CAUSES.has(cause) && !doubted)
    return { tries: task.counts[cause] ?? 0, bound: MAX_INNOCENT_RETRIES, doubted };
  const bad = CAUSES.filter((c) => !INNOCENT_CAUSES.has(c));
  const tries = bad.reduce((sum, c) => sum + (task.counts[c] ?? 0), losses);
  return { tries, bound: task.spec.retries, doubted };
}

function withDoubt(proof: Evidence): Evidence {
  const why = `no fact of the machine explains it: after ${FREE_LOSSES} such ends, or ${FREE_WAVES} that hit others too, it counts as a failed try`;
  return { ...proof, summary: `${proof.summary}; ${why}` };
}

/** Milliseconds to wait after `n` earlier failures. */
export function backOff(n: number, random: Random): number {
  const plain = Math.min(RETRY_BASE_MS * RETRY_FACTOR ** n, RETRY_MAX_MS);
  return Math.round(plain * (0.8 + 0.4 * random()));
}

/** The branch holds `commit` now. Dependents become ready in the same transaction; a second report changes nothing. */
export function land(d: Draft, p: Parsed<"land">): Result<"land"> {
  const run = d.mustRun(p.run);
  const task = d.mustTask(p.run, p.task);
  const record = newestAttempt(task, p.attempt);
  const s = task.state;
  if (s.name === "passed" && s.merged?.commit === p.commit) {
    const ready = d.dependents(p.run, p.task).filter((id) => d.task(p.run, id)?.state.name === "ready");
    return { state_version: task.state_version, ready };
  }
  const { recovered } = p;
  if (recovered === undefined ? s.name !== "passed" || s.merged : s.name !== "running") {
    const key = showId(taskKey(p.run, p.task));
    throw new BusbarError("ILLEGAL_MOVE", `landing of ${key}: it is ${stateWords(s)}`, { state: s.name });
  }
  if (run.head !== p.old_head) {
    throw new BusbarError(
      "STALE_HEAD",
      `landing in run ${showId(p.run)}: its head is ${run.head}, not ${p.old_head}`,
      { expected: p.old_head, actual: run.head },
    );
  }
  const { attempt, commit, tree } = p;
  // Whoever reports it: the one authority lets nothing land whose proof it has not recorded.
  const missing = unproven(requiredChecks(task.spec, run.spec.gate), record.verdicts, tree);
  if (missing.length > 0) {
    const names = missing.map((one) => one.name);
    const what = `landing of ${showId(taskKey(p.run, p.task))}: no pass of ${names.join(", ")} on tree ${tree}`;
    throw new BusbarError("UNPROVEN", what, { tree, missing: names });
  }
  const passed = recovered === undefined ? task : passedAgain(d, task, p, record);
  const done = d.emitTask(passed, {
    type: "task.landed",
    attempt,
    commit,
    tree,
    ...(recovered !== undefined && { recovered }),
  });
  return { state_version: done.state_version, ready: readyAfter(d, done) };
}

/** What stands on the branch and was proven anew: no review stops it, the one before it landed is lost with the state. */
function passedAgain(d: Draft, task: Task, p: Parsed<"land">, record: AttemptRecord): Task {
  const snapshot = record.snapshots.find(({ commit }) => commit === p.commit);
  if (!snapshot || record.base !== p.old_head) {
    const what = `recovery of ${showId(taskKey(p.run, p.task))}: attempt ${p.attempt} has no snapshot ${p.commit} on ${p.old_head}`;
    throw new BusbarError("UNPROVEN", what, { tree: p.tree });
  }
  return d.emitTask(task, { type: "task.passed", attempt: p.attempt, snapshot, base: record.base });
}

/** The lease ran out without a sign of life: lost, and tried again. Nothing happens when the attempt is over. */
export function expireLease(d: Draft, ref: AttemptRef, random: Random): boolean {
  const task = d.task(ref.run, ref.task);
  if (task?.state.name !== "running" || task.state.attempt !== ref.attempt) return false;
  const { lease_until, doubt } = task.state;
  const words = doubt ? `; its shim (pid ${doubt.pid}): ${doubt.why}` : "";
  const since = `no sign of life from attempt ${ref.attempt} until ${lease_until}${words}`;
  fail(d, task, "lost", evidence(since), random);
  return true;
}

/** The back-off is over. */
export function retryDue(d: Draft, run: string, id: string): boolean {
  const task = d.task(run, id);
  if (task?.state.name !== "retrying" || openDeps(d, task).length > 0) return false;
  d.emitTask(task, { type: "task.ready" });
  return true;
}

function evidence(summary: string): Evidence {
  return { summary, log: "", paths: [], landed_since: [] };
}
