// Decisions about whole runs: submit, add tasks, pause, resume, cancel. Pure; each works on a draft.
//
// submit: the same plan (by hash) under the same name, not ended -> attached to what runs. Another plan under the name
// of a live run -> RUN_EXISTS. The name of an ended run -> the next free of name-2, name-3 ...

import { createHash } from "node:crypto";
import { BusbarError } from "../../schemas/errors.ts";
import type { NewTask } from "../../schemas/events.ts";
import { idFault, showId } from "../../schemas/ids.ts";
import type { Parsed, Result } from "../../schemas/methods.ts";
import type { Run, RunSpec, Task, TaskSpec } from "../../schemas/task.ts";
import { isDone, openDeps, readyAmong, rootAbove, waveHolder } from "./cascade.ts";
import type { Draft } from "./draft.ts";
import { checkGraph } from "./graph.ts";
import { isLive } from "./status.ts";

/** sha256 of the canonical JSON (keys sorted at every depth) of a spec, hex. */
export function planHash(spec: RunSpec): string {
  return createHash("sha256").update(canonicalJson(spec)).digest("hex");
}

/** JSON with sorted keys; members that are undefined are left out, as JSON.stringify does. */
export function canonicalJson(value: unknown): string {
  if (Array.isArray(value)) return `[${value.map((v) => canonicalJson(v ?? null)).join(",")}]`;
  if (typeof value !== "object" || value === null) return JSON.stringify(value);
  const record = value as Record<string, unknown>;
  const members: string[] = [];
  for (const key of Object.keys(record).sort()) {
    if (record[key] !== undefined) members.push(`${JSON.stringify(key)}:${canonicalJson(record[key])}`);
  }
  return `{${members.join(",")}}`;
}

/** `hash` is planHash(params.spec); the caller makes it, so that a retried decision need not. */
export function submit(
  d: Draft,
  params: Parsed<"submit_run">,
  by: string,
  hash: string,
): Result<"submit_run"> {
  if (params.add_to !== undefined) return addTasks(d, params.add_to, params.spec.tasks, by);
  const { tasks, ...spec } = params.spec;
  const fault = idFault(spec.run);
  if (fault) throw new BusbarError("BAD_ID", `run id ${showId(spec.run)} ${fault}`);
  const name = freeName(d, spec.run, hash);
  if (name.attached) return { run: name.run, attached: true, tasks: tasks.length };
  const waves = checkGraph(tasks);
  const fresh = tasks.map((task) => newTask(task, waves.get(task.id)!, [...new Set(task.depends_on)]));
  d.emit(
    { run: name.run },
    { type: "run.submitted", spec: { ...spec, run: name.run }, plan_hash: hash, by, tasks: fresh },
  );
  settleNew(d, name.run, fresh);
  return { run: name.run, attached: false, tasks: tasks.length };
}

function freeName(d: Draft, wished: string, hash: string): { run: string; attached: boolean } {
  for (let n = 1; ; n++) {
    const run = n === 1 ? wished : `${wished}-${n}`;
    const there = d.run(run);
    if (!there) return { run, attached: false };
    if (!isLive(there, d.tasks(run))) continue;
    if (there.plan_hash === hash) return { run, attached: true };
    throw new BusbarError("RUN_EXISTS", `run ${showId(run)} is at work with another plan`, { run });
  }
}

/** Adds to a live or an ended run. Tasks that are there already, exactly the same, are passed over. */
function addTasks(d: Draft, id: string, specs: TaskSpec[], by: string): Result<"submit_run"> {
  const run = d.mustRun(id);
  const fresh = specs.filter((spec) => !sameSpec(d.task(id, spec.id), spec));
  if (fresh.length === 0) return { run: id, attached: true, tasks: 0 };
  const waves = checkGraph(fresh, (task) => d.task(run.run, task)?.wave);
  const added = fresh.map((spec) => newTask(spec, waves.get(spec.id)!, openDeps(d, { run: id, spec })));
  d.emit({ run: id }, { type: "run.tasks_added", by, tasks: added });
  settleNew(d, id, added);
  return { run: id, attached: false, tasks: added.length };
}

function sameSpec(task: Task | undefined, spec: TaskSpec): boolean {
  return task !== undefined && canonicalJson(task.spec) === canonicalJson(spec);
}

function newTask(spec: TaskSpec, wave: number, waits_for: string[]): NewTask {
  return { spec, wave, waits_for };
}

/** Starts what can start, and blocks what stands behind something blocked already. Lower waves first. */
function settleNew(d: Draft, run: string, added: NewTask[]): void {
  const heldByWave = waveHolder(d, { run });
  for (const { spec, wave } of [...added].sort((a, b) => a.wave - b.wave)) {
    const needs = rootAbove(d, { run, spec }) ?? heldByWave(wave);
    if (needs) d.emitTask(d.mustTask(run, spec.id), { type: "task.blocked", needs });
  }
  readyAmong(
    d,
    run,
    added.map((t) => t.spec.id),
  );
}

/** A run that is paused already is paused again only for a new reason. */
export function pause(d: Draft, run: string, by: string, why?: string): Result<"pause"> {
  const { paused, paused_why } = d.mustRun(run);
  const says = why === undefined || why === "" ? {} : { why };
  const changed = !paused || (says.why !== undefined && says.why !== paused_why);
  if (changed) d.emit({ run }, { type: "run.paused", by, ...says });
  return { paused: true, changed };
}

export function resume(d: Draft, run: string, by: string): Result<"resume"> {
  const changed = d.mustRun(run).paused;
  if (changed) d.emit({ run }, { type: "run.resumed", by });
  return { paused: false, changed };
}

export function reportInto(d: Draft, params: Parsed<"report_into">): Result<"report_into"> {
  const { run, ...result } = params;
  const { into } = d.mustRun(run);
  const known =
    into?.branch === result.branch &&
    into.head === result.head &&
    into.moved === result.moved &&
    into.why === result.why;
  if (!known) d.emit({ run }, { type: "run.into", ...result });
  return { recorded: !known };
}

/** Cancels every task of the run that is not merged. */
export function cancelRun(d: Draft, id: string, by: string): string[] {
  const run: Run = d.mustRun(id);
  const cancelled: string[] = [];
  for (const task of d.tasks(run.run)) {
    if (isDone(task) || task.state.name === "cancelled") continue;
    d.emitTask(task, { type: "task.cancelled", by });
    cancelled.push(task.spec.id);
  }
  return cancelled;
}
