// Runs checks on exactly one commit, in a clean place that no agent has touched.
//
// 1. A clean place is taken from the pool (place-pool.ts); files of `protect` are restored from the run's base. Before
//    every further check all files of the tree are put back, and what the check before laid beside them goes: checks run
//    the candidate's code, which may write, and proof is for exactly the tree that lands. What set-up and `copy` put
//    there stays, and so does what is ignored (node_modules, builds).
// 2. Set-up steps of the gate, then the checks (gate.ts says which), each under a shim of kind check with its own
//    HOME, TMPDIR, caches and PORT, one after the other. The first red ends it.
// 3. Each verdict is recorded with the command, its exit and the tree that it ran on.
// 4. The place is given back or removed. Logs stay with the attempt: checks/<n>-<name>.log.
// 5. A check whose input was green before does not run (verdict-cache.ts). Red beside such ones: all of them run.
// 6. What says nothing about the tree is tried again in a new place; gate.ts decides how often and what it means then.

import { readdirSync } from "node:fs";
import { join } from "node:path";
import { faultPoint } from "../schemas/fault-points.ts";
import { compilePathSet } from "../schemas/globs.ts";
import type { Evidence } from "../schemas/task.ts";
import type { Verdict } from "../schemas/verdict.ts";
import type { Beside } from "./beside.ts";
import { confined } from "./confine.ts";
import { cureOf } from "./cure.ts";
import { gateDir, makeHomes, makePrivateDir } from "./dirs.ts";
import { jobBase, randomHex } from "./edges.ts";
import type { SecretValues } from "./environment.ts";
import { errorEvidence, evidence } from "./evidence.ts";
import { afterTrouble, hintOf, judge, type PlannedCheck, type Trouble } from "./gate.ts";
import type { GateOrder } from "./gate-order.ts";
import { checkEnvSpecs, checkJob, type JobPlace } from "./jobs.ts";
import type { Kit } from "./kit.ts";
import { copyLocal } from "./local-copies.ts";
import { clearWay } from "./open-tree.ts";
import { whileAway } from "./settle.ts";
import { type Ended, explained, isListening, lookAtMachine } from "./trouble.ts";
import { fromRecord } from "./verdict-cache.ts";

export type GateResult =
  | { kind: "pass" }
  /** `lost`: nobody saw a red verdict; the check was lost again and again, by its own doing. Else `of` is the check. */
  | { kind: "fail"; check: string; of?: PlannedCheck; evidence: Evidence; lost?: true }
  /** `cure`: only a person mends it (cure.ts), no further go does. */
  | { kind: "infra"; evidence: Evidence; cure?: string };

/** A pass of the gate that ended in trouble: red (`verdict: fail`) with a hint, or without a verdict. */
interface Troubled {
  kind: "trouble";
  trouble: Trouble;
  verdict: "fail" | "infra";
  check: string;
  of?: PlannedCheck;
  evidence: Evidence;
  cure?: string;
}

type PassResult = Exclude<GateResult, { kind: "infra" }> | Troubled;

/** Never rejects but for an abort of `signal`. */
export async function runGate(kit: Kit, order: GateOrder): Promise<GateResult> {
  if (order.checks.length === 0) return { kind: "pass" };
  const { keys, left } = await fromRecord(kit, order);
  if (left.length === 0) return { kind: "pass" };
  const result = await untilClear(kit, { ...order, checks: left, keys });
  if (result.kind !== "fail" || left.length === order.checks.length) return result;
  // Nobody is blamed where what did not run might have left something that these need.
  kit.log.info("red after checks that did not run; all of them run", {
    ...order.attempt.ref,
    tree: order.tree,
  });
  return await untilClear(kit, { ...order, keys });
}

async function untilClear(kit: Kit, order: GateOrder): Promise<GateResult> {
  const troubles: Trouble[] = [];
  for (;;) {
    const result = await onePass(kit, order);
    order.signal.throwIfAborted();
    if (result.kind !== "trouble") return result;
    troubles.push(result.trouble);
    const { evidence: said, check, of, cure } = result;
    if (cure !== undefined) return { kind: "infra", evidence: said, cure };
    switch (afterTrouble(troubles)) {
      case "infra":
        return { kind: "infra", evidence: said };
      case "fail":
        return result.verdict === "fail"
          ? { kind: "fail", check, evidence: said, ...(of && { of }) }
          : { kind: "fail", check, evidence: lostAgain(said, troubles.length), lost: true };
      case "again":
        kit.log.warn("checks met trouble that says nothing about the tree", {
          ...order.attempt.ref,
          tree: order.tree,
          go: troubles.length,
          why: said.summary,
        });
    }
  }
}

function lostAgain(said: Evidence, times: number): Evidence {
  const why = `${times} times in a row, and no fact of the machine explains it: what it runs ends its own supervisor`;
  return { ...said, summary: `${said.summary}, ${why}` };
}

async function onePass(kit: Kit, order: GateOrder): Promise<PassResult> {
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
      submodules: place.submodules,
    };
    const result = await inPlace(kit, order, { at, tree: place.tree });
    keep = result.kind !== "trouble";
    return result;
  } catch (error) {
    order.signal.throwIfAborted();
    return withoutVerdict("making a clean place for the checks", "", error);
  } finally {
    lease.release();
    kit.places.give({ dir }, keep);
  }
}

async function inPlace(
  kit: Kit,
  order: GateOrder,
  place: { at: JobPlace; tree: string },
): Promise<PassResult> {
  const there = { dir: place.at.dir, work: place.at.work, tree: place.tree };
  await copyLocal(kit, order.run, place.at.work);
  const setup = (await isSetUp(kit, order, place)) ? [] : setupChecks(order);
  order.signal.throwIfAborted();
  const checks = [...setup, ...order.checks];
  let before: Beside | undefined;
  for (const [i, check] of checks.entries()) {
    if (i > 0) await kit.places.renew(there, before);
    if (i === setup.length && i + 1 < checks.length)
      before = await kit.places.beside(there, order.run.spec.protect);
    const result = await runCheck(kit, order, place.at, check);
    order.signal.throwIfAborted();
    if (result.kind !== "pass") return result;
  }
  return { kind: "pass" };
}

/** By what a set-up with the same key left in a workspace (setup-cache.ts). */
async function isSetUp(
  kit: Kit,
  { run, task }: GateOrder,
  { at, tree }: { at: JobPlace; tree: string },
): Promise<boolean> {
  const { gate } = run.spec;
  if (gate === "none") return false;
  const key = await kit.setups.keyOf(gate.setup, tree, {
    specs: checkEnvSpecs(kit, task.spec.env),
    copied: run.spec.copy ?? [],
  });
  return key !== undefined && (await kit.setups.place(key, at.work));
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
  order: Pick<GateOrder, "attempt" | "task" | "run" | "tree" | "signal"> &
    Partial<Pick<GateOrder, "as" | "keys">>,
  place: JobPlace,
  check: PlannedCheck,
): Promise<PassResult> {
  const { attempt, task, run, tree } = order;
  const logDir = join(attempt.dir, "checks");
  await clearWay(logDir, "directory");
  makePrivateDir(logDir);
  const n = nextNumber(logDir);
  const specs = checkEnvSpecs(kit, task.spec.env, check.env);
  let sources: SecretValues;
  try {
    sources = await kit.secrets.read(specs, order.signal);
  } catch (error) {
    order.signal.throwIfAborted();
    return withoutVerdict(`starting ${check.name}`, check.name, error);
  }
  const open = checkJob(jobBase(kit), place, { ...check, n, logDir }, { specs, sources });
  const job = confined(kit, run, check.tier === "setup" ? "setup" : "check", open, place);
  const before = await lookAtMachine(kit.stateDir);
  const ended = await explained(kit.stateDir, before, await kit.processes.run(job, order.signal));
  order.signal.throwIfAborted();
  const { outcome, machine } = ended;
  const judged = judge(check, outcome, { machine, takenPort: takenPort(ended) });
  const keyed = order.keys?.get(check);
  const verdict: Verdict = {
    check: check.name,
    tier: order.as ?? check.tier,
    tree,
    verdict: judged.verdict,
    exit: outcome.exit,
    duration_ms: outcome.duration_ms,
    command: check.run,
    summary: judged.summary,
    ...(keyed && { ...keyed, at: new Date(kit.clock.now()).toISOString() }),
  };
  if (keyed?.again && judged.verdict === "fail")
    kit.log.warn("a check is red whose input was green before: that verdict stands for nothing any more", {
      ...attempt.ref,
      check: check.name,
      before: keyed.again,
    });
  await whileAway(kit, attempt, () => {
    faultPoint("scheduler.gate.before-record-verdict");
    return kit.bus.call("record_verdict", { ...attempt.ref, verdict });
  });
  const { verdict: value, trouble } = judged;
  if (value === "pass") return { kind: "pass" };
  const said = evidence(judged.summary, {
    log: outcome.log_tail,
    check: check.name,
    exit: outcome.exit,
    ...(machine !== undefined && value === "infra" ? { machine } : {}),
  });
  const told = { check: check.name, of: check, evidence: said };
  return trouble === undefined
    ? { kind: "fail", ...told }
    : { kind: "trouble", trouble, verdict: value, ...told };
}

function withoutVerdict(step: string, check: string, error: unknown): Troubled {
  const cure = cureOf(error);
  const said = errorEvidence(step, error);
  return {
    kind: "trouble",
    trouble: "fact",
    verdict: "infra",
    check,
    evidence: said,
    ...(cure !== undefined && { cure }),
  };
}

/** The port that a red check found taken, if somebody holds it still. */
function takenPort({ outcome }: Ended): number | undefined {
  if (outcome.reason !== "exit" || outcome.exit === 0) return undefined;
  const port = hintOf(outcome)?.port;
  return port !== undefined && isListening(port) ? port : undefined;
}

/** One more than the highest number in use. */
function nextNumber(logDir: string): number {
  return 1 + Math.max(0, ...readdirSync(logDir).map((name) => Number.parseInt(name, 10) || 0));
}
