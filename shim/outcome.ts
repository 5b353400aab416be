// From the facts of an ended process to the Outcome that is reported. Pure.

import type { EndReason, Outcome, ShimJob } from "../schemas/job.ts";
import { limitWords, sizeWords } from "../schemas/limit-words.ts";
import type { GroupFacts } from "./group.ts";
import type { LogSummary } from "./log.ts";
import type { Killed } from "./oom.ts";
import type { Ending } from "./process.ts";
import type { Largest } from "./tree.ts";

/** Times and figures of one process. */
export interface Measured {
  /** ISO 8601, UTC. */
  started: string;
  ended: string;
  duration_ms: number;
  peak_rss: number;
  cpu_ms: number;
  /** The process that held most memory when all held most. */
  largest?: Largest | undefined;
  /** By the control group, where there is one. */
  group: GroupFacts;
  /** Whom the kernel killed for memory, as far as it says so. */
  killed: Killed[];
  /** It wrote more than it may: what and where. */
  disk: string | undefined;
  limits_missing: string[];
}

/** A shell says a signal of its child as 128 + number. */
const SHELL_SIGNAL = 128;
const SIGXCPU = 24;
const SIGXFSZ = 25;
/** Of processes that died, in one sentence. */
const MAX_NAMED = 3;

/** `redact` is applied to all text that came from the process. */
export function makeOutcome(
  job: ShimJob,
  ending: Ending,
  log: LogSummary,
  measured: Measured,
  redact: (text: string) => string,
): Outcome {
  const named = (list: Ending["leftovers"]) => list.map((p) => ({ pid: p.pid, command: redact(p.command) }));
  const hits = limitHits(job.limits, measured, ending);
  const limit = ownEnd(ending) ? hits[0] : hits.find(({ reason }) => reason === "disk");
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
  if (hits.length > 0) outcome.limit_hits = hits.map((hit) => redact(hit.detail));
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

/**
 * A process that ended well, or was ended by us, was not ended by a limit, whatever became of its children. What it may
 * write is another matter: too much is too much, however it ended.
 */
function ownEnd({ reason, exit }: Ending): boolean {
  return (reason === "exit" || reason === "signal") && exit !== 0;
}

interface Hit {
  reason: "memory" | "pids" | "cpu" | "fsize" | "disk";
  detail: string;
}

/** What met a limit, as far as its own end and the kernel's counts show; what says most comes first. */
function limitHits(limits: ShimJob["limits"], measured: Measured, ending: Ending): Hit[] {
  const { memoryKills = 0, pidsHit } = measured.group;
  const { cpu_s, fsize, memory, pids } = limits;
  const by = (name: string, number: number) =>
    ending.signal === name || ending.exit === SHELL_SIGNAL + number;
  const hits: Hit[] = [];
  const { reason, detail } = ending;
  if ((reason === "cpu" || reason === "disk") && detail !== undefined) hits.push({ reason, detail });
  else if (measured.disk !== undefined) hits.push({ reason: "disk", detail: measured.disk });
  if (cpu_s !== undefined && by("SIGXCPU", SIGXCPU))
    hits.push({ reason: "cpu", detail: `${limitWords("cpu_s", cpu_s)}: a process used more CPU time` });
  if (fsize !== undefined && by("SIGXFSZ", SIGXFSZ))
    hits.push({ reason: "fsize", detail: `${limitWords("fsize", fsize)}: a process wrote a larger file` });
  if (memoryKills > 0 && memory !== undefined)
    hits.push({
      reason: "memory",
      detail: `${limitWords("memory", memory)} for all together: ${whoDied(measured, ending, memoryKills)}`,
    });
  if (pidsHit && pids !== undefined)
    hits.push({ reason: "pids", detail: `${limitWords("pids", pids)}: no further process could be made` });
  return hits;
}

function whoDied({ killed, largest, group }: Measured, ending: Ending, kills: number): string {
  const peak = group.memoryPeak === undefined ? "" : `; at most ${sizeWords(group.memoryPeak)} were held`;
  if (killed.length > 0) {
    const named = killed.slice(0, MAX_NAMED).map((k) => `${k.name} (pid ${k.pid}, ${sizeWords(k.rss)})`);
    const more = killed.length > MAX_NAMED ? ` and ${killed.length - MAX_NAMED} more` : "";
    return `the kernel killed ${named.join(", ")}${more}${peak}`;
  }
  if (ending.signal === "SIGKILL") return `the kernel killed it${peak}`;
  const guess = largest
    ? `, of which the largest seen was ${largest.command} (${sizeWords(largest.rss)})`
    : "";
  const count = kills === 1 ? "one of its processes" : `${kills} of its processes`;
  return `the kernel killed ${count}${guess}${peak}`;
}
