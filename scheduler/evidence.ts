// What a person, and the next attempt, is told about a failure. Bounded; logs come redacted from the shim.

import { BusbarError } from "../schemas/errors.ts";
import { EVIDENCE_BYTES } from "../schemas/limits.ts";
import type { Cause, Evidence } from "../schemas/task.ts";
import { type Ended, machineFault } from "./trouble.ts";

const MAX_EVIDENCE_PATHS = 50;
export const MAX_SUMMARY_CHARS = 1_000;

export function evidence(summary: string, more: Partial<Evidence> = {}): Evidence {
  const paths = more.paths ?? [];
  const cut =
    paths.length > MAX_EVIDENCE_PATHS ? ` (the first ${MAX_EVIDENCE_PATHS} of ${paths.length} paths)` : "";
  return {
    ...more,
    summary: `${summary}${cut}`.slice(0, MAX_SUMMARY_CHARS),
    log: endOf(more.log ?? ""),
    paths: paths.slice(0, MAX_EVIDENCE_PATHS),
    landed_since: more.landed_since ?? [],
  };
}

/** The end of a text, at most EVIDENCE_BYTES, cut at a line. */
export function endOf(text: string): string {
  const bytes = Buffer.from(text);
  if (bytes.length <= EVIDENCE_BYTES) return text;
  const tail = bytes.subarray(bytes.length - EVIDENCE_BYTES).toString();
  const line = tail.indexOf("\n");
  return line >= 0 && line < 400 ? tail.slice(line + 1) : tail;
}

/** An error of ours on the way: names the step. */
export function errorEvidence(step: string, error: unknown): Evidence {
  const text = error instanceof Error ? error.message : String(error);
  const code = error instanceof BusbarError ? ` (${error.code}: ${error.help})` : "";
  const machine = machineFault(error);
  return evidence(`${step}: ${text}${code}`, machine === undefined ? {} : { machine });
}

/** What it means to meet each limit, in words that go on with who did. */
export const MET = {
  memory: "used up its memory",
  pids: "could not make a further process",
  cpu: "used up its CPU time",
  fsize: "wrote too large a file",
  disk: "wrote more than it may",
  limit: "met a limit",
} as const satisfies Partial<Record<Cause, string>>;

export type AgentEnd = { kind: "clean" } | { kind: "failed"; cause: Cause; evidence: Evidence };

/** What the end of an agent's process means, before anybody looks at what it made. Exit 0 proves nothing. */
export function agentEnd({ outcome, machine, filled }: Ended): AgentEnd {
  const note = filled === undefined ? "" : `; ${filled}`;
  const failed = (cause: Cause, summary: string): AgentEnd => ({
    kind: "failed",
    cause,
    evidence: evidence(`${summary}${note}`, { log: outcome.log_tail, exit: outcome.exit }),
  });
  /** Nobody's doing, as far as it goes; the bus counts what no fact of the machine explains. */
  const innocent = (cause: "infra" | "lost", summary: string): AgentEnd => {
    if (machine === undefined) return failed(cause, summary);
    const said = { log: outcome.log_tail, exit: outcome.exit, machine };
    return { kind: "failed", cause, evidence: evidence(`${summary} (${machine})`, said) };
  };
  const after = `after ${(outcome.duration_ms / 1000).toFixed(1)} s`;
  switch (outcome.reason) {
    case "exit":
      if (outcome.exit === 0 && filled !== undefined)
        return failed("disk", `the agent ended with exit code 0 ${after}`);
      return outcome.exit === 0
        ? { kind: "clean" }
        : failed("agent_error", `the agent ended with exit code ${outcome.exit} ${after}`);
    case "signal":
      return failed("agent_error", `the agent was ended by ${outcome.signal ?? "a signal"} ${after}`);
    case "timeout":
      return failed("timeout", `the agent did not end in time and was stopped ${after}`);
    case "memory":
    case "pids":
    case "cpu":
    case "fsize":
    case "disk":
    case "limit":
      return failed(
        outcome.reason,
        `the agent ${MET[outcome.reason]} ${after}: ${outcome.detail ?? "see the log"}`,
      );
    case "cancelled":
      return innocent("infra", `the agent was stopped from outside ${after}`);
    case "spawn_failed":
      return innocent("infra", `the agent could not be started: ${outcome.detail ?? "no reason was given"}`);
    case "lost":
      return innocent("lost", `the agent's process was lost: ${outcome.detail ?? "nobody saw it end"}`);
    default:
      return innocent("infra", `the shim reported an unknown end: ${String(outcome.reason satisfies never)}`);
  }
}
