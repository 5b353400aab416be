// Decisions of people about one task: cancel, retry, approve, reject, grant files. Pure.

import { BusbarError } from "../../schemas/errors.ts";
import { globFault } from "../../schemas/globs.ts";
import { whyNoGrant } from "../../schemas/grantable.ts";
import { showId, taskKey } from "../../schemas/ids.ts";
import type { Parsed, Result } from "../../schemas/methods.ts";
import type { Random } from "../../schemas/ports.ts";
import type { Task } from "../../schemas/task.ts";
import {
  blockDownstream,
  openDeps,
  readyAmong,
  rootAbove,
  unblockDownstream,
  waveHolder,
} from "./cascade.ts";
import { afterFailure } from "./decide-settle.ts";
import type { Draft } from "./draft.ts";
import { stateWords } from "./task-machine.ts";

/** What is downstream is blocked and names this task. A second cancel changes nothing. */
export function cancelTask(d: Draft, run: string, id: string, by: string): string[] {
  const task = d.mustTask(run, id);
  if (task.state.name === "cancelled") return [id];
  const wasBlocked = task.state.name === "blocked" && task.state.needs.kind !== "upstream";
  const cancelled = d.emitTask(task, { type: "task.cancelled", by });
  if (wasBlocked) unblockDownstream(d, cancelled); // those that named the old reason learn the new one
  blockDownstream(d, cancelled);
  return [id];
}

/** Blocked, failed and cancelled tasks start over with all their tries, and with a person's words if given. */
export function retryTask(d: Draft, p: Parsed<"retry_task">, by: string): Result<"retry_task"> {
  const task = d.mustTask(p.run, p.task);
  const s = task.state;
  if (s.name === "blocked" && s.needs.kind === "upstream") throw waitsForRoot(task, s.needs.root);
  const { feedback } = p;
  const back = d.emitTask(task, {
    type: "task.retry_asked",
    by,
    ...(feedback !== undefined && { feedback }),
    waits_for: openDeps(d, task),
  });
  return { state_version: comeBack(d, back) };
}

/** The root moves again: it waits, or is ready, or stands behind another root; what it held is freed. */
function comeBack(d: Draft, task: Task): number {
  const needs = rootAbove(d, task) ?? waveHolder(d, task)(task.wave);
  if (needs) d.emitTask(task, { type: "task.blocked", needs });
  readyAmong(d, task.run, [task.spec.id]);
  unblockDownstream(d, task);
  return d.mustTask(task.run, task.spec.id).state_version;
}

export function approve(d: Draft, p: Parsed<"approve">, by: string): Result<"approve"> {
  const task = d.mustTask(p.run, p.task);
  const passed = d.emitTask(task, { type: "task.approved", by });
  unblockDownstream(d, passed);
  return { state_version: passed.state_version };
}

/** The work goes back with the reason as evidence; it uses up a try like any bad work. */
export function reject(d: Draft, p: Parsed<"reject">, by: string, random: Random): Result<"reject"> {
  const task = d.mustTask(p.run, p.task);
  const failed = d.emitTask(task, { type: "task.rejected", by, reason: p.reason });
  afterFailure(d, failed, random);
  unblockDownstream(d, failed); // back to pending, or the new reason when no try was left
  return { state_version: d.mustTask(p.run, p.task).state_version };
}

/** Default: the paths asked for. Granting what is granted already changes nothing. */
export function grantFiles(d: Draft, p: Parsed<"grant_files">, by: string): Result<"grant_files"> {
  const task = d.mustTask(p.run, p.task);
  const s = task.state;
  const asked =
    s.name === "blocked" && s.needs.kind === "files"
      ? s.needs.paths
      : s.name === "running"
        ? (s.wants?.paths ?? [])
        : [];
  const paths = p.paths ?? asked;
  const waiting = s.name === "blocked" && s.needs.kind === "files";
  if (paths.length === 0) {
    const key = showId(taskKey(p.run, p.task));
    throw new BusbarError(
      "ILLEGAL_MOVE",
      `grant to ${key}: it asked for no files and none were named; it is ${stateWords(s)}`,
    );
  }
  for (const path of paths) {
    const fault = globFault(path);
    if (fault) throw new BusbarError("BAD_PATH", `grant of ${showId(path)}: it ${fault}`, { path });
  }
  mustBeGrantable(task, d.mustRun(p.run).spec.protect, paths);
  if (!waiting && paths.every((path) => task.granted.includes(path))) {
    return { state_version: task.state_version, granted: task.granted };
  }
  const granted = d.emitTask(task, { type: "task.files_granted", by, paths });
  const state_version = waiting ? comeBack(d, granted) : granted.state_version;
  return { state_version, granted: granted.granted };
}

/** The scope would refuse the change all the same, or it would never be captured. */
function mustBeGrantable({ spec }: Task, protect: string[], paths: readonly string[]): void {
  for (const path of paths) {
    const no = whyNoGrant(path, { protect, forbidden: spec.forbidden_files });
    if (no) throw new BusbarError("BAD_PATH", `grant of ${showId(path)}: ${no.why}`, { path, help: no.help });
  }
}

function waitsForRoot(task: Task, root: string): BusbarError {
  const key = showId(taskKey(task.run, task.spec.id));
  return new BusbarError(
    "ILLEGAL_MOVE",
    `retry of ${key}: it is ${stateWords(task.state)}; retry ${showId(root)}, which holds it`,
    { root, help: `It comes back by itself with that one: busctl retry ${task.run}/${root}.` },
  );
}
