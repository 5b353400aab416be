// From the end of an agent's process to the settlement of its attempt. Also run by a scheduler that took the attempt
// over: it needs the directory and the outcome only.
//
// 1. Keep everything first, whatever the end was: the agent's own commits (harvest), then the content of the working
//    tree as a snapshot (capture), published with a patch for people.
// 2. It asked for files: needs_files. 3. Its process failed: that cause. 4. Out of scope: scope, with every path and
//    rule. 5. Nothing changed: no_changes, or done when the spec says so.
// 6. Prove: acceptance and shallow checks on the captured tree in a clean place. The canary comes first. A gate that is
//    red on the untouched base, too, holds the attempt (bases.ts).
// 7. Passed goes to the train; red goes back with the end of the log.

import { faultPoint } from "../schemas/fault-points.ts";
import {
  type Evidence,
  PROTECTED_SUMMARY,
  REFUSED_SUMMARY,
  type Run,
  SECRET_SUMMARY,
  type SnapshotInfo,
  type Task,
} from "../schemas/task.ts";
import { lifeOf } from "./bases.ts";
import type { Captured } from "./capture.ts";
import { contextOf } from "./context.ts";
import { agentEnd, evidence, MAX_SUMMARY_CHARS } from "./evidence.ts";
import { checksFor } from "./gate.ts";
import type { GateOrder } from "./gate-order.ts";
import type { GateResult } from "./gate-runner.ts";
import { refuseGone } from "./gone.ts";
import { promptOf } from "./prompt.ts";
import { publishCapture } from "./publish.ts";
import { inScope, scopeFaults } from "./scope.ts";
import { forbiddenFor, scopeOf } from "./scope-rules.ts";
import { type Settled, settle, settleFailed, settlePassed, whileAway } from "./settle.ts";
import { type Concluding, keep } from "./snapshot.ts";
import { withoutToldWords } from "./told-words.ts";
import type { Ended } from "./trouble.ts";

/** Rejects only with what makes going on impossible; the caller settles that as infra. */
export async function conclude(at: Concluding, ended: Ended): Promise<Settled> {
  const { kit, attempt, run } = at;
  await phase(at, "capture");
  // The newest word of the bus: files asked for, versions published, grants.
  const { task } = await whileAway(kit, attempt, () =>
    kit.bus.call("get_task", { run: attempt.ref.run, task: attempt.ref.task }),
  );
  const captured = await keep({ ...at, task });
  const snapshot = await publishCapture(kit, attempt, captured);
  if (task.state.name === "running" && task.state.wants) return settle(kit, attempt, { kind: "needs_files" });
  const log_tail = withoutToldWords(ended.outcome.log_tail, toldIn(at, task));
  const end = agentEnd({ ...ended, outcome: { ...ended.outcome, log_tail } });
  if (end.kind === "failed") return settleFailed(kit, attempt, end.cause, end.evidence);
  const hits = ended.outcome.limit_hits ?? [];
  const faults = faultsOf(task, run, captured);
  if (faults) return settleFailed(kit, attempt, "scope", withHits(faults, hits));
  if (captured.changed.length === 0 || snapshot === null) {
    if (task.spec.no_changes === "ok") return settlePassed(kit, attempt, null);
    const said = evidence("the agent ended with exit code 0 and changed no file", {
      log: log_tail,
    });
    return settleFailed(kit, attempt, "no_changes", withHits(await withStrays({ ...at, task }, said), hits));
  }
  return prove({ ...at, task }, snapshot, hits);
}

/** Prompt and context of the attempt, but for what git was asked for them. */
function toldIn({ attempt, run }: Concluding, task: Task): string[] {
  const nothing = { contextFiles: [], history: [] };
  const context = contextOf(task, attempt.ref.attempt, attempt.base, forbiddenFor(task, run), nothing);
  return [promptOf(context), JSON.stringify(context, null, 2)];
}

async function prove(at: Concluding, snapshot: SnapshotInfo, hits: readonly string[]): Promise<Settled> {
  const { kit, attempt, task, run } = at;
  const { signal } = attempt.abort;
  await phase(at, "prove");
  const untold = await withoutCanary(at);
  signal.throwIfAborted();
  if (untold !== undefined) return troubled(at, evidence(untold));
  const { commit, tree } = snapshot;
  const checks = checksFor(task.spec, run.spec.gate, { kind: "captured" });
  const order = { attempt, task, run, commit, tree, checks, signal };
  const result = await provenUnlessHeld(at, order);
  signal.throwIfAborted();
  switch (result.kind) {
    case "pass":
      return settlePassed(kit, attempt, snapshot);
    case "fail":
      return settleFailed(kit, attempt, "check", withHits(result.evidence, hits));
    case "infra":
      return troubled(at, result.evidence);
    default:
      return result satisfies never;
  }
}

/** Nothing can be proven beside a base that is gone; that holds the attempt (gone.ts). */
async function troubled({ kit, attempt }: Concluding, said: Evidence): Promise<Settled> {
  await refuseGone(kit, attempt);
  return settleFailed(kit, attempt, "infra", said);
}

/** Why nobody can say whether the gate can fail; undefined when it can. A gate that cannot holds the attempt. */
async function withoutCanary(at: Concluding): Promise<string | undefined> {
  const { kit, attempt, bases, canaries } = at;
  for (;;) {
    const life = lifeOf(kit, attempt.ref.run);
    const answer = await canaries.ask(kit, at);
    attempt.abort.signal.throwIfAborted();
    if (answer.kind === "trusted") return undefined;
    if (answer.kind === "unknown") return answer.why;
    await bases.hold(kit, attempt, answer.why, life);
  }
}

/** A red gate that is not the tree's doing holds the attempt, as often as that is found. */
async function provenUnlessHeld({ kit, attempt, bases }: Concluding, order: GateOrder): Promise<GateResult> {
  for (;;) {
    const life = lifeOf(kit, attempt.ref.run);
    const result = await bases.prove(kit, order, attempt.base);
    if (result.kind !== "held") return result;
    await bases.hold(kit, attempt, result.why, life);
  }
}

/** The test runner of an agent that lived died of a limit: whoever reads why the work is bad wants to know that. */
function withHits(said: Evidence, hits: readonly string[]): Evidence {
  if (hits.length === 0) return said;
  return {
    ...said,
    summary: `${said.summary}; while the agent worked it met ${hits.join("; ")}`.slice(0, MAX_SUMMARY_CHARS),
  };
}

async function phase({ kit, attempt }: Concluding, name: "capture" | "prove"): Promise<void> {
  attempt.abort.signal.throwIfAborted();
  await whileAway(kit, attempt, () => {
    faultPoint("scheduler.conclude.before-phase");
    return kit.bus.call("attempt_update", { ...attempt.ref, phase: name });
  });
}

/** Rules that hold whatever a task may change (scope.ts): no grant helps. */
const IN_NO_CHANGE: ReadonlySet<string> = new Set(["link", "git-name", "case", "submodule"]);

function faultsOf(task: Task, run: Run, captured: Captured): Evidence | undefined {
  const faults = scopeFaults({ ...captured, ...scopeOf(task, run) });
  if (faults.length === 0) return undefined;
  const paths = [...new Set(faults.map((fault) => fault.path))];
  const lines = faults.slice(0, 100).map((fault) => `${fault.path}: ${fault.why}`);
  const more = paths.length > 3 ? ` and ${paths.length - 3} more` : "";
  if (faults.every((fault) => fault.rule === "secret"))
    return evidence(`${SECRET_SUMMARY}${faults[0]?.why}${more}`, { paths, log: lines.join("\n") });
  if (faults.every((fault) => IN_NO_CHANGE.has(fault.rule)))
    return evidence(`${REFUSED_SUMMARY}${faults[0]?.why}${more}`, { paths, log: lines.join("\n") });
  const kept = faults.every((fault) => fault.rule.startsWith("protect: "));
  const what = kept ? PROTECTED_SUMMARY : "out of scope: ";
  const advice = kept ? " (nobody may change it)" : "";
  return evidence(`${what}${paths.slice(0, 3).join(", ")}${more}${advice}`, { paths, log: lines.join("\n") });
}

/**
 * Case 27: a task changed nothing, and meanwhile files that it may change were changed in the user's own checkout: it may
 * have written to the wrong place. Only said, and of no other file: what else changes there is the user's business.
 */
async function withStrays(at: Concluding, said: Evidence): Promise<Evidence> {
  const mayChange = inScope(scopeOf(at.task, at.run));
  const strays = (await at.checkouts.changedSince(at.run.run)).filter(mayChange);
  if (strays.length === 0) return said;
  const note = `files that it may change were changed in your own checkout during the run (by whom is not known): ${strays.join(", ")}`;
  at.kit.log.warn("the user's checkout changed", { ...at.attempt.ref, paths: strays });
  return evidence(`${said.summary}; ${note}`, said.log === "" ? { ...said } : { ...said, log: said.log });
}
