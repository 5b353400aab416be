// The processes of an attempt as the bus heard of them: `register` brings one, `complete` says how it ended.
// Pure. A report that is already there changes nothing, so shims may repeat themselves (B6).

import type { TaskEvent } from "../../schemas/events.ts";
import type { Outcome } from "../../schemas/job.ts";
import type { ProcRecord } from "../../schemas/task.ts";

type Registered = Omit<Extract<TaskEvent, { type: "proc.registered" }>, "type" | "attempt">;
/** Older ones are forgotten beyond this: checks of one attempt may run many times. */
const MAX_PROCS = 64;

export function hasProc(procs: readonly ProcRecord[] | undefined, p: Registered): boolean {
  return (procs ?? []).some(
    (q) => q.kind === p.kind && q.name === p.name && q.pid === p.pid && q.start_time === p.start_time,
  );
}

/** True when this very ending was reported before. One name may run several times; `started` tells them apart. */
export function hasOutcome(procs: readonly ProcRecord[] | undefined, o: Outcome): boolean {
  return (procs ?? []).some((q) => q.kind === o.kind && q.name === o.name && q.ended?.started === o.started);
}

export function addProc(procs: readonly ProcRecord[] = [], p: Registered): ProcRecord[] {
  if (hasProc(procs, p)) return [...procs];
  const { kind, name, pid, start_time } = p;
  return [...procs, { kind, name, pid, start_time }].slice(-MAX_PROCS);
}

export function addOutcome(procs: readonly ProcRecord[] = [], o: Outcome): ProcRecord[] {
  if (hasOutcome(procs, o)) return [...procs];
  const { reason, exit, signal, started, ended, peak_rss, cpu_ms, limits_missing, limit_hits, sandbox } = o;
  // Journals of earlier versions hold outcomes as they were sent, unchecked.
  const missing = limits_missing?.length > 0 ? { limits_missing } : {};
  const hits = limit_hits === undefined ? {} : { limit_hits };
  const facts = {
    reason,
    exit,
    signal,
    started,
    ended,
    peak_rss,
    cpu_ms,
    ...missing,
    ...hits,
    ...(sandbox && { sandbox }),
  };
  const open = procs.findLastIndex((q) => q.kind === o.kind && q.name === o.name && !q.ended);
  if (open < 0) {
    return [...procs, { kind: o.kind, name: o.name, pid: 0, start_time: "", ended: facts }].slice(-MAX_PROCS);
  }
  return procs.map((q, i) => (i === open ? { ...q, ended: facts } : q));
}
