// Compares a run's integration branch with the head that the bus knows, and brings them together where that is safe:
// a landing that the bus was not told is reported, or taken back when its task is not on its way any more; a branch that
// is gone is made again. A landing that the state has forgotten (it came back older than the world) or has no proof of is
// named, to be proven anew (recover.ts). Anything else stops the run's train and is said (train.ts decides).

import { isCode } from "../schemas/errors.ts";
import { faultPoint } from "../schemas/fault-points.ts";
import { candidateRef, integrationRef, isOid } from "../schemas/ids.ts";
import { type Control, controlGit } from "./control.ts";
import { goneWhy } from "./gone.ts";
import type { Kit } from "./kit.ts";
import { createRef, isAncestor, moveRef, readRef } from "./refs.ts";
import { type AheadCommit, type AheadLanding, reconcile, standingOf } from "./train.ts";

export type ReconcileAnswer =
  | { kind: "same" }
  | { kind: "reported"; count: number }
  | { kind: "forgotten"; landing: AheadLanding }
  | { kind: "foreign"; why: string };

export async function reconcileRun(kit: Kit, run: string): Promise<ReconcileAnswer> {
  const mirrored = kit.mirror.runs.get(run);
  if (!mirrored) return { kind: "same" };
  const busHead = mirrored.run.head;
  const refHead = await readRef(kit.control, integrationRef(run));
  if (refHead === null) {
    // Nothing was claimed yet: the branch is made at first use.
    const { landed, spec } = mirrored.run;
    if (mirrored.underway.size === 0 && landed.length === 0 && busHead === spec.base) return { kind: "same" };
    return await makeAgain(kit, run, busHead);
  }
  // No task lands twice: more commits than tasks on top of the bus's head are not of this run.
  const most = mirrored.tasks.size;
  const ahead = refHead === busHead ? [] : await commitsAhead(kit.control, run, busHead, refHead, most);
  const candidate = refHead === busHead ? null : await readRef(kit.control, candidateRef(run));
  const standing = (task: string, attempt: number) => standingOf(mirrored.tasks.get(task), attempt);
  const answer = reconcile(busHead, refHead, ahead, standing, candidate);
  if (answer.kind === "undo") return await takeBack(kit, run, refHead, busHead, answer.why);
  if (answer.kind !== "report") return answer;
  for (const landing of answer.landings) {
    const { task, attempt, old, commit, tree } = landing;
    try {
      faultPoint("scheduler.reconcile.before-tell-landing");
      await kit.bus.call("land", { run, task, attempt, old_head: old, commit, tree });
    } catch (error) {
      // Its verdicts are lost, or a person put it there: proof tells them apart.
      if (isCode(error, "UNPROVEN")) return { kind: "forgotten", landing };
      throw error;
    }
    kit.log.info("a landing was on the branch but not at the bus; reported", { run, task, attempt, commit });
    mirrored.run = { ...mirrored.run, head: commit };
  }
  if (answer.forgotten) return { kind: "forgotten", landing: answer.forgotten };
  return { kind: "reported", count: answer.landings.length };
}

/** Killed between branch and bus, and the task was cancelled before anybody looked: as the train would have done. */
async function takeBack(
  kit: Kit,
  run: string,
  from: string,
  to: string,
  why: string,
): Promise<ReconcileAnswer> {
  faultPoint("scheduler.reconcile.before-move-back");
  if ((await moveRef(kit.control, integrationRef(run), from, to)) === "stale")
    return { kind: "foreign", why: `${why}, and somebody else moved the branch meanwhile` };
  kit.log.warn("a landing that the bus did not take was on the branch; it went back", { run, from, to, why });
  return { kind: "same" };
}

/** The branch is gone and nobody holds another value of it: made again where the bus has it, nothing is lost. */
async function makeAgain(kit: Kit, run: string, head: string): Promise<ReconcileAnswer> {
  const ref = integrationRef(run);
  try {
    if ((await createRef(kit.control, ref, head)) === "stale")
      return { kind: "foreign", why: `${ref} was gone and somebody else made it meanwhile` };
  } catch (error) {
    if (!isCode(error, "GIT_FAILED")) throw error;
    const gone = await goneWhy(kit.control, run, head);
    if (gone !== undefined) return { kind: "foreign", why: gone };
    return {
      kind: "foreign",
      why: `the integration branch is gone and cannot be made again at ${head}: ${error.message}`,
    };
  }
  kit.log.warn("the integration branch was gone; made again at the head that the bus has", {
    run,
    ref,
    head,
  });
  return { kind: "same" };
}

async function commitsAhead(
  control: Control,
  run: string,
  from: string,
  to: string,
  most: number,
): Promise<AheadCommit[] | undefined> {
  if (!(await isAncestor(control, from, to))) return undefined;
  const trailer = (name: string) => `%(trailers:key=${name},valueonly,separator=%x2C)`;
  const format = [
    "%H",
    "%T",
    "%P",
    trailer("Busbar-Run"),
    trailer("Busbar-Task"),
    trailer("Busbar-Attempt"),
  ].join("%x1f");
  const { stdout } = await controlGit(control, [
    "log",
    "--reverse",
    "-n",
    String(most + 1),
    `--format=${format}`,
    `${from}..${to}`,
  ]);
  const lines = stdout.split("\n").filter((line) => line !== "");
  if (lines.length > most) return undefined;
  return lines.map((line) => {
    const [commit = "", tree = "", parent = "", ofRun, task, attempt] = line.split("\x1f");
    const ours = ofRun === run && task !== undefined && attempt !== undefined && /^\d+$/.test(attempt);
    return {
      commit,
      tree,
      parent: isOid(parent) ? parent : null,
      ...(ours ? { task, attempt: Number(attempt) } : {}),
    };
  });
}
