// Takes over a landing that stands on the branch and that the state has forgotten: the state came back older than the
// world (a backup was restored, the end of the journal is lost). Nothing is run again, and nothing is believed:
//
// 1. An attempt of its own, without an agent, is claimed for it (attempts.ts); the verdicts alone were lost of one that
//    waits for the train still: then it is that one.
// 2. What the commit changed must be the task's to change, by the plan that the state has.
// 3. Every check that a landing needs runs on exactly that commit's tree. The bus asks for the proof as ever.
// 4. `land` says so, with the attempt of the trailers as `recovered`. The branch is not moved.
// 5. Red: nothing lands on it and nothing is undone. The run is held with LANDED_RED until a person has looked.

import { parseRaw, showName } from "../bus/git/tree.ts";
import { BusbarError, isCode } from "../schemas/errors.ts";
import type { ChangedPath } from "../schemas/events.ts";
import { faultPoint } from "../schemas/fault-points.ts";
import { integrationRef, snapshotRef } from "../schemas/ids.ts";
import type { Evidence, Run, Task } from "../schemas/task.ts";
import type { Canaries } from "./canary.ts";
import { controlGit } from "./control.ts";
import { errorEvidence, evidence } from "./evidence.ts";
import { checksFor } from "./gate.ts";
import { type GateResult, runGate } from "./gate-runner.ts";
import type { Attempt, Kit } from "./kit.ts";
import { createRef } from "./refs.ts";
import { inScope } from "./scope.ts";
import { scopeOf } from "./scope-rules.ts";
import { settleFailed, whileAway } from "./settle.ts";
import type { AheadLanding } from "./train.ts";

export type TakenOver =
  | { kind: "landed" }
  /** The branch holds what must not have landed by this plan. */
  | { kind: "red"; error: BusbarError }
  /** Nothing was found out: the same again. */
  | { kind: "later"; why: string };

export interface Recovery {
  kit: Kit;
  attempt: Attempt;
  task: Task;
  run: Run;
  landing: AheadLanding;
  canaries: Canaries;
  /** The attempt was claimed for this; else it is the one that landed. */
  claimed: boolean;
}

/** What makes an end free of charge that only came of an older state. */
export const OLDER = "the state of the bus came back older than the integration branch";

/** Never rejects. */
export async function takeOver(at: Recovery): Promise<TakenOver> {
  const { kit, attempt, landing } = at;
  try {
    return await proveAndTell(at);
  } catch (error) {
    const { signal } = attempt.abort;
    const why = `taking over ${landing.commit.slice(0, 12)}: ${String(error)}`;
    kit.log.warn("a landing that the state has forgotten could not be taken over", { ...attempt.ref, why });
    if (!signal.aborted)
      await letGo(at, errorEvidence("taking over a landing", error)).catch((again) =>
        kit.log.error("and it could not be settled; its lease will end", {
          ...attempt.ref,
          error: String(again),
        }),
      );
    return { kind: "later", why };
  }
}

async function proveAndTell(at: Recovery): Promise<TakenOver> {
  const { kit, attempt, task, run, landing, claimed } = at;
  const { old, commit, tree } = landing;
  const changed = await changesBetween(kit, old, commit);
  const mayChange = inScope(scopeOf(task, run));
  const strays = changed.map(({ path }) => path).filter((path) => !mayChange(path));
  if (strays.length > 0) return await red(at, `it changes ${strays.slice(0, 3).join(", ")}, out of scope`);
  if (claimed) await publish(at, changed);
  const result = await prove(at);
  attempt.abort.signal.throwIfAborted();
  switch (result.kind) {
    case "fail":
      return await red(at, `check ${result.check} is red on it: ${result.evidence.summary}`);
    case "infra":
      await letGo(at, result.evidence);
      return { kind: "later", why: result.evidence.summary };
    case "pass":
      break;
    default:
      return result satisfies never;
  }
  try {
    await whileAway(kit, attempt, () => {
      const recovered = claimed ? { recovered: landing.attempt } : {};
      faultPoint("scheduler.recover.before-tell-bus");
      return kit.bus.call("land", { ...attempt.ref, old_head: old, commit, tree, ...recovered });
    });
  } catch (error) {
    if (!isCode(error, "FENCED", "ILLEGAL_MOVE", "STALE_HEAD")) throw error;
    return { kind: "later", why: error.message };
  }
  kit.log.info("a landing that the state had forgotten was proven anew and taken over", {
    ...attempt.ref,
    landed_by: landing.attempt,
    commit,
  });
  return { kind: "landed" };
}

async function changesBetween(kit: Kit, from: string, to: string): Promise<ChangedPath[]> {
  const args = ["diff-tree", "-r", "-z", "--raw", "--no-renames", "--no-abbrev", from, to];
  const { stdoutBuffer } = await controlGit(kit.control, args, { encoding: "buffer" });
  return parseRaw(stdoutBuffer).map(({ mode, oid, status, name }) => {
    const path = showName(name);
    return status === "D" ? { path, mode: null, oid: null } : { path, mode, oid };
  });
}

/** The commit is the attempt's snapshot, kept alive like any. */
async function publish({ kit, attempt, landing }: Recovery, changed: ChangedPath[]): Promise<void> {
  const { old, commit, tree } = landing;
  await createRef(kit.control, snapshotRef(attempt.ref, 1), commit);
  await whileAway(kit, attempt, () => {
    faultPoint("scheduler.recover.before-publish");
    return kit.bus.call("publish_snapshot", { ...attempt.ref, base: old, commit, tree, changed });
  });
  await whileAway(kit, attempt, () => {
    faultPoint("scheduler.recover.before-phase");
    return kit.bus.call("attempt_update", { ...attempt.ref, phase: "prove" });
  });
}

async function prove(at: Recovery): Promise<GateResult> {
  const { kit, attempt, task, run, landing, canaries } = at;
  const canary = await canaries.ask(kit, at);
  if (canary.kind !== "trusted") return { kind: "infra", evidence: evidence(canary.why) };
  const { commit, tree } = landing;
  const checks = checksFor(task.spec, run.spec.gate, { kind: "candidate", proven: false });
  return await runGate(kit, { attempt, task, run, commit, tree, checks, signal: attempt.abort.signal });
}

async function red(at: Recovery, what: string): Promise<TakenOver> {
  const { landing, attempt } = at;
  const { commit, old, task } = landing;
  const back = `git update-ref ${integrationRef(attempt.ref.run)} ${old}`;
  const message = `${commit} landed as ${task}#${landing.attempt} before the state was lost, but ${what}. Nothing was undone; to run ${task} anew instead: ${back}`;
  const error = new BusbarError("LANDED_RED", message, { commit, old, task, attempt: landing.attempt });
  await letGo(at, evidence(message));
  return { kind: "red", error };
}

/** An attempt that was claimed for this alone ends, free of charge: nobody worked. */
async function letGo({ kit, attempt, claimed }: Recovery, said: Evidence): Promise<void> {
  if (claimed) await settleFailed(kit, attempt, "infra", { machine: OLDER, ...said });
}
