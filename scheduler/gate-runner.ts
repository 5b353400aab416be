// Runs checks on exactly one commit, in a clean place that no agent has touched.
//
// 1. A clean place is taken from the pool (place-pool.ts); files of `protect` are restored from the run's base. Before
//    every further check all files of the tree are put back: set-up and checks run the candidate's code, which may
//    write, and proof is for exactly the tree that lands. What they put beside it (node_modules, builds) stays.
// 2. Set-up steps of the gate, then the checks (gate.ts says which), each under a shim of kind check with its own
//    HOME, TMPDIR, caches and PORT, one after the other. The first red ends it.
// 3. Each verdict is recorded with the command, its exit and the tree that it ran on.
// 4. The place is given back or removed. Logs stay with the attempt: checks/<n>-<name>.log.
// 5. What is nobody's fault (infra) is tried again in a new place, at most twice. It never blames the task.

import { readdirSync } from "node:fs";
import { join } from "node:path";
import { compilePathSet } from "../schemas/globs.ts";
import type { Evidence, Run, Task, Verdict } from "../schemas/task.ts";
import { gateDir, makeHomes, makePrivateDir } from "./dirs.ts";
import { jobBase, randomHex } from "./edges.ts";
import { errorEvidence, evidence } from "./evidence.ts";
import { judge, type PlannedCheck } from "./gate.ts";
import { checkJob, type JobPlace } from "./jobs.ts";
import type { Attempt, Kit } from "./kit.ts";
import { DETACH } from "./processes.ts";

export interface GateOrder {
  attempt: Attempt;
  task: Task;
  run: Run;
  commit: string;
  tree: string;
  checks: readonly PlannedCheck[];
  /** Recorded instead of the checks' own tiers. */
  as?: "canary";
  signal: AbortSignal;
}

export type GateResult =
  | { kind: "pass" }
  | { kind: "fail"; check: string; evidence: Evidence }
  | { kind: "infra"; evidence: Evidence };

/** Tries after the first, when nothing was said about the tree. */
const INFRA_RETRIES = 2;

/** Never rejects but for an abort of `signal`. */
export async function runGate(kit: Kit, order: GateOrder): Promise<GateResult> {
  if (order.checks.length === 0) return { kind: "pass" };
  let result: GateResult = { kind: "infra", evidence: evidence("no check was run") };
  for (let go = 0; go <= INFRA_RETRIES; go += 1) {
    result = await onePass(kit, order);
    order.signal.throwIfAborted();
    if (result.kind !== "infra") return result;
    kit.log.warn("checks met trouble that says nothing about the tree", {
      ...order.attempt.ref,
      tree: order.tree,
      go,
      why: result.evidence.summary,
    });
  }
  return result;
}

async function onePass(kit: Kit, order: GateOrder): Promise<GateResult> {
  const { attempt, run } = order;
  const dir = gateDir(kit.stateDir, attempt.ref, randomHex(kit.random, 6));
  const lease = kit.ports.lease();
  let keep = false;
  try {
    const homes = makeHomes(dir);
    const protect = run.spec.protect;
    const place = await kit.places.take({
      control: kit.control,
      dir,
      commit: order.commit,
      tree: order.tree,
      ...(protect.length > 0
        ? { protect: { base: run.spec.base, matches: compilePathSet(protect).matches } }
        : {}),
    });
    const at: JobPlace = {
      ref: attempt.ref,
      tokens: attempt.tokens,
      work: place.work,
      dir,
      homes,
      port: lease.port,
    };
    const result = await inPlace(kit, order, at, () => kit.places.renew({ ...place, dir }));
    keep = result.kind !== "infra";
    return result;
  } catch (error) {
    order.signal.throwIfAborted();
    return { kind: "infra", evidence: errorEvidence("making a clean place for the checks", error) };
  } finally {
    lease.release();
    if (order.signal.reason !== DETACH) kit.places.give({ dir }, keep);
  }
}

async function inPlace(
  kit: Kit,
  order: GateOrder,
  place: JobPlace,
  renew: () => Promise<void>,
): Promise<GateResult> {
  for (const [i, check] of [...setupChecks(order), ...order.checks].entries()) {
    if (i > 0) await renew();
    const result = await runCheck(kit, order, place, check);
    order.signal.throwIfAborted();
    if (result.kind !== "pass") return result;
  }
  return { kind: "pass" };
}

function setupChecks(order: GateOrder): PlannedCheck[] {
  const gate = order.run.spec.gate;
  return gate === "none" ? [] : setupOf(gate.setup, order.task.spec.timeout_s);
}

/** Set-up steps in the form of checks. */
export function setupOf(steps: readonly { run: string }[], timeout_s: number): PlannedCheck[] {
  return steps.map((step, index) => ({
    name: `setup-${index + 1}`,
    tier: "setup",
    run: step.run,
    timeout_s,
    limits: {},
  }));
}

/** One command under a shim; its verdict is recorded. */
export async function runCheck(
  kit: Kit,
  order: Pick<GateOrder, "attempt" | "task" | "tree" | "as" | "signal">,
  place: JobPlace,
  check: PlannedCheck,
): Promise<GateResult> {
  const { attempt, task, tree } = order;
  const logDir = join(attempt.dir, "checks");
  makePrivateDir(logDir);
  const n = nextNumber(logDir);
  const job = checkJob(jobBase(kit), place, { ...check, n, logDir }, task.spec.env);
  const outcome = await kit.processes.run(job, order.signal);
  order.signal.throwIfAborted();
  const judged = judge(check, outcome);
  const verdict: Verdict = {
    check: check.name,
    tier: order.as ?? check.tier,
    tree,
    verdict: judged.verdict,
    exit: outcome.exit,
    duration_ms: outcome.duration_ms,
    command: check.run,
    summary: judged.summary,
  };
  await kit.bus.call("record_verdict", { ...attempt.ref, verdict });
  if (judged.verdict === "pass") return { kind: "pass" };
  const said = evidence(judged.summary, { log: outcome.log_tail, check: check.name, exit: outcome.exit });
  return judged.verdict === "fail"
    ? { kind: "fail", check: check.name, evidence: said }
    : { kind: "infra", evidence: said };
}

/** One more than the highest number in use. */
function nextNumber(logDir: string): number {
  return 1 + Math.max(0, ...readdirSync(logDir).map((name) => Number.parseInt(name, 10) || 0));
}
