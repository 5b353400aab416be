// From the facts of an ended process to the Outcome that is reported. Pure.

import type { EndReason, Outcome, ShimJob } from "../schemas/job.ts";
import type { GroupFacts } from "./group.ts";
import type { LogSummary } from "./log.ts";
import type { Ending } from "./process.ts";

/** Times and figures of one process. */
export interface Measured {
  /** ISO 8601, UTC. */
  started: string;
  ended: string;
  duration_ms: number;
  peak_rss: number;
  cpu_ms: number;
  /** By the control group, where there is one. */
  group: GroupFacts;
  limits_missing: string[];
}

/** A shell says a signal of its child as 128 + number. */
const SHELL_SIGNAL = 128;
const SIGKILL = 9;
const SIGXCPU = 24;
const SIGXFSZ = 25;

/** `redact` is applied to all text that came from the process. */
export function makeOutcome(
  job: ShimJob,
  ending: Ending,
  log: LogSummary,
  measured: Measured,
  redact: (text: string) => string,
): Outcome {
  const named = (list: Ending["leftovers"]) => list.map((p) => ({ pid: p.pid, command: redact(p.command) }));
  const limit = limitHit(job.limits, measured.group, ending);
  const detail = limit?.detail ?? ending.detail;
  const outcome: Outcome = {
    v: 1,
    ref: job.ref,
    kind: job.kind,
    name: job.name,
    reason: limit?.reason ?? ending.reason,
    exit: ending.exit,
    signal: ending.signal,
    started: measured.started,
    ended: measured.ended,
    duration_ms: Math.round(measured.duration_ms),
    killed_with: ending.killed_with,
    leftovers: named(ending.leftovers),
    survivors: named(ending.survivors),
    certain: ending.certain,
    peak_rss: Math.max(measured.peak_rss, measured.group.memoryPeak ?? 0),
    cpu_ms: measured.cpu_ms,
    log_bytes: log.bytes,
    log_dropped: log.dropped,
    log_tail: log.tail,
    limits_missing: measured.limits_missing,
  };
  if (job.sandbox !== undefined && ending.reason !== "spawn_failed") outcome.sandbox = job.sandbox.said;
  if (measured.group.memoryKills !== undefined) outcome.memory_kills = measured.group.memoryKills;
  if (detail !== undefined) outcome.detail = redact(detail);
  return outcome;
}

/** An ending of a process that never ran. */
export function notStarted(reason: EndReason, detail: string): Ending {
  return {
    reason,
    exit: null,
    signal: null,
    killed_with: [],
    leftovers: [],
    survivors: [],
    certain: true,
    detail,
  };
}

/** Which limit ended the process, as far as its own end and the kernel's counts show. An agent that lives on is not ended. */
function limitHit(
  limits: ShimJob["limits"],
  group: GroupFacts,
  ending: Ending,
): { reason: "limit" | "memory"; detail: string } | undefined {
  if ((ending.reason !== "exit" && ending.reason !== "signal") || ending.exit === 0) return undefined;
  const by = (name: string, number: number) =>
    ending.signal === name || ending.exit === SHELL_SIGNAL + number;
  const limit = (detail: string) => ({ reason: "limit" as const, detail });
  if (limits.cpu_s !== undefined && by("SIGXCPU", SIGXCPU))
    return limit(`cpu_s: a process used more than ${limits.cpu_s} s of CPU time`);
  if (limits.fsize !== undefined && by("SIGXFSZ", SIGXFSZ))
    return limit(`fsize: a process wrote a file of more than ${limits.fsize} bytes`);
  if (group.memoryKills !== undefined && group.memoryKills > 0)
    return {
      reason: "memory",
      detail: `memory: ${by("SIGKILL", SIGKILL) ? "it was" : `${group.memoryKills} of its processes were`} killed at the limit of ${limits.memory} bytes for all together`,
    };
  if (group.pidsHit) return limit(`pids: it had reached its limit of ${limits.pids} processes`);
  return undefined;
}
