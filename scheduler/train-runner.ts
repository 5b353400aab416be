// Lands passed tasks, one after the other per run (design section 3.5). For the first of the queue (train.ts):
//
// 1. Candidate: the snapshot merged onto the head of the integration branch. A conflict goes back with its paths; a
//    change that the head holds already has nothing left to land.
// 2. Proof on exactly the candidate's tree: acceptance and shallow unless this tree passed them in the attempt, then
//    middle and deep. Red goes back as check_after_merge, with the tasks landed since its base (case 46).
// 3. The branch is moved by compare-and-swap from the head that was tested on. Somebody moved it: the caller reconciles.
// 4. `land` tells the bus, again and again while it is away: asking twice lands once. No (the task was cancelled
//    meanwhile): the branch goes back. Trouble of the bus's own: nobody knows, and the caller compares branch and bus
//    before anything else (reconcile.ts), which reports it again.
//
// A ref whose lock somebody holds is waited for. Trouble of ours sends nothing back, it rejects: the agent's work is proven
// and kept, and the turn is taken again (trains.ts bounds it).
//
// Killed between 3 and 4, the next scheduler finds the branch ahead of the bus and reports the landing: the trailers
// of the commit say whose it is (`reconcile`).

import { setTimeout as delay } from "node:timers/promises";
import { type BusbarError, isCode } from "../schemas/errors.ts";
import { faultPoint } from "../schemas/fault-points.ts";
import { candidateRef, integrationRef } from "../schemas/ids.ts";
import type { Evidence, Run, SnapshotInfo, Task } from "../schemas/task.ts";
import type { Bases } from "./bases.ts";
import { buildCandidate, type CandidateOutcome, commitMessage } from "./candidate.ts";
import { endingWith } from "./control.ts";
import { evidence } from "./evidence.ts";
import { checksFor } from "./gate.ts";
import type { GateResult } from "./gate-runner.ts";
import type { Attempt, Kit } from "./kit.ts";
import { withNewObjects } from "./new-objects.ts";
import { DETACH } from "./processes.ts";
import { nameLandedPatch } from "./publish.ts";
import { type Moved, moveRef, readRef } from "./refs.ts";
import { settleFailed, whileAway } from "./settle.ts";

export interface Passenger {
  kit: Kit;
  bases: Bases;
  attempt: Attempt;
  task: Task;
  run: Run;
  snapshot: SnapshotInfo;
}

export type Landed =
  | { kind: "landed"; commit: string }
  /** The task went back, with evidence. */
  | { kind: "returned" }
  /** Cancelled meanwhile; nothing was moved, or it was moved back. */
  | { kind: "dropped" }
  /** The branch is not where the bus says; the run must be reconciled first. */
  | { kind: "foreign" }
  /** Nothing of the run can be proven, by no task's doing (bases.ts). */
  | { kind: "held"; why: string };

type Candidate = Extract<CandidateOutcome, { kind: "candidate" }>;

/** One turn. Rejects with errors of ours only. */
export async function landOne(passenger: Passenger): Promise<Landed> {
  const { kit, attempt, run } = passenger;
  const { signal } = attempt.abort;
  // The bus knows the head; whether the branch still stands there is asked by the compare-and-swap of the move.
  const head = kit.mirror.runs.get(run.run)?.run.head ?? run.head;
  // The branch itself is moved, and moved back, whatever becomes of the turn.
  const control = endingWith(kit.control, signal);
  const built = await buildKept({ ...passenger, kit: { ...kit, control } }, head);
  switch (built.kind) {
    case "conflict": {
      const since = await landedSince(passenger);
      const names = built.paths.slice(0, 5).join(", ");
      const said = evidence(`conflict in ${names} with what landed since ${attempt.base.slice(0, 12)}`, {
        paths: built.paths,
        landed_since: since,
      });
      return await sendBack(passenger, "conflict", said);
    }
    case "empty":
      return await sendBack(
        passenger,
        "no_changes",
        evidence("the integration branch holds this change already"),
      );
    case "candidate": {
      const proof = await proveCandidate({ ...passenger, kit: { ...kit, control } }, head, built);
      if (signal.aborted) return { kind: "dropped" };
      if (proof.kind === "held") return proof;
      if (proof.kind === "pass") return await moveAndReport(passenger, head, built);
      return await sendBack(passenger, ...(await redCandidate(passenger, proof)));
    }
    default:
      return built satisfies never;
  }
}

/** A candidate is named by a ref of the run before anything is done with it, and until the branch has it. */
function buildKept(
  { kit, attempt, task, run, snapshot }: Passenger,
  head: string,
): Promise<CandidateOutcome> {
  return withNewObjects(kit.control, async ({ control, store }) => {
    const built = await buildCandidate({
      control,
      head,
      base: attempt.base,
      commit: snapshot.commit,
      message: commitMessage({ ref: attempt.ref, goal: task.spec.goal, proof: proofOf(run, snapshot) }),
      identity: kit.config.identity,
    });
    if (built.kind === "candidate") {
      await store(built.commit, [head, snapshot.commit]);
      await keepAlive(kit, run, built.commit);
    }
    return built;
  });
}

function proofOf(run: Run, snapshot: SnapshotInfo): string {
  return run.spec.gate === "none"
    ? `acceptance of the task; no common gate; snapshot ${snapshot.commit}`
    : `acceptance and gate of the plan; snapshot ${snapshot.commit}`;
}

async function proveCandidate(
  passenger: Passenger,
  head: string,
  candidate: Candidate,
): ReturnType<Bases["prove"]> {
  const { kit, bases, attempt, task, run, snapshot } = passenger;
  const proven = candidate.tree === snapshot.tree;
  const checks = checksFor(task.spec, run.spec.gate, { kind: "candidate", proven });
  if (checks.length === 0) return { kind: "pass" };
  const { commit, tree } = candidate;
  const order = { attempt, task, run, commit, tree, checks, signal: attempt.abort.signal };
  return await bases.prove(kit, order, head);
}

async function redCandidate(
  passenger: Passenger,
  result: Exclude<GateResult, { kind: "pass" }>,
): Promise<["check" | "check_after_merge" | "infra", Evidence]> {
  if (result.kind === "infra") return ["infra", result.evidence];
  const since = await landedSince(passenger);
  if (since.length === 0) return ["check", result.evidence];
  const summary = `${result.evidence.summary} on the merged tree (landed since: ${since.join(", ")})`;
  return ["check_after_merge", evidence(summary, { ...result.evidence, landed_since: since })];
}

/** Tasks on the branch that the attempt's base does not have. */
async function landedSince(passenger: Passenger): Promise<string[]> {
  const { kit, attempt } = passenger;
  const answer = await whileAway(kit, attempt, () => kit.bus.call("inputs_changed", { ...attempt.ref }));
  return answer.landed_since;
}

async function sendBack(
  passenger: Passenger,
  cause: "conflict" | "check" | "check_after_merge" | "no_changes" | "infra",
  said: Evidence,
): Promise<Landed> {
  const settled = await settleFailed(passenger.kit, passenger.attempt, cause, said);
  return settled === "settled" ? { kind: "returned" } : { kind: "dropped" };
}

/** A candidate is only an object until it lands; this keeps the user's git gc from it. One lands at a time in a run. */
async function keepAlive(kit: Kit, run: Run, commit: string): Promise<void> {
  const ref = candidateRef(run.run);
  const old = await readRef(kit.control, ref);
  faultPoint("scheduler.candidate.before-keep");
  await moveRef(kit.control, ref, old ?? "0".repeat(commit.length), commit);
}

async function moveAndReport(passenger: Passenger, head: string, candidate: Candidate): Promise<Landed> {
  const { kit, attempt, run } = passenger;
  const { commit, tree } = candidate;
  const { signal } = attempt.abort;
  const ref = integrationRef(run.run);
  const forward = () => {
    faultPoint("scheduler.land.before-move-ref");
    return moveRef(kit.control, ref, head, commit);
  };
  if ((await patiently(forward, () => signal.aborted)) === "stale") return { kind: "foreign" };
  const refused = await tellBus(passenger, { old_head: head, commit, tree });
  if (refused) return await takeBack(passenger, ref, { from: commit, to: head }, refused);
  kit.log.info("landed", { ...attempt.ref, commit, tree });
  const landedHere = kit.mirror.runs.get(run.run);
  if (landedHere) landedHere.run = { ...landedHere.run, head: commit };
  nameLandedPatch(kit, attempt, passenger.snapshot.version);
  return { kind: "landed", commit };
}

/** A lock is held for a moment by whoever works with git; git itself waits some seconds of this. */
const LOCK_PATIENCE_MS = 15_000;
const LOCK_LOOK_MS = 250;

/** A move of a ref, tried again while git cannot do it. */
async function patiently(move: () => Promise<Moved>, stop: () => boolean): Promise<Moved> {
  for (const end = performance.now() + LOCK_PATIENCE_MS; ; await delay(LOCK_LOOK_MS)) {
    try {
      return await move();
    } catch (error) {
      if (!isCode(error, "GIT_FAILED") || stop() || performance.now() > end) throw error;
    }
  }
}

interface Landing {
  old_head: string;
  commit: string;
  tree: string;
}

/** Undefined: the bus has it. Else why it refused. Rejects when nobody can say: the caller brings branch and bus together. */
async function tellBus({ kit, attempt }: Passenger, landing: Landing): Promise<BusbarError | undefined> {
  try {
    await whileAway(kit, attempt, () => {
      faultPoint("scheduler.land.before-tell-bus");
      return kit.bus.call("land", { ...attempt.ref, ...landing });
    });
    return undefined;
  } catch (error) {
    if (isOver(error) || isCode(error, "STALE_HEAD")) return error as BusbarError;
    throw error;
  }
}

/** The bus says that the attempt is not on its way any more. */
const isOver = (error: unknown) => isCode(error, "FENCED", "ILLEGAL_MOVE", "NO_SUCH_TASK", "NO_SUCH_RUN");

/** The bus did not take a landing: the branch goes back. */
async function takeBack(
  { kit, attempt }: Passenger,
  ref: string,
  { from, to }: { from: string; to: string },
  refused: BusbarError,
): Promise<Landed> {
  const { signal } = attempt.abort;
  const move = () => {
    faultPoint("scheduler.land.before-move-back");
    return moveRef(kit.control, ref, from, to);
  };
  const back = await patiently(move, () => signal.reason === DETACH).catch((error) => String(error));
  const facts = { ...attempt.ref, commit: from, back, why: String(refused) };
  kit.log.warn("the bus did not take a landing; the branch goes back", facts);
  if (back !== "moved" || isCode(refused, "STALE_HEAD")) return { kind: "foreign" };
  return { kind: "dropped" };
}
