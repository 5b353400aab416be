// Which checks a tree needs, and what the end of a check means. Pure; gate-runner.ts does it.
//
// 1. Captured tree (in the attempt): the acceptance commands of the task, then the shallow checks.
// 2. Candidate tree (in the train): the same again unless this very tree has passed them, then middle and deep.
//    `gate: none` leaves the acceptance commands only.
// 3. Canary (once per run): all tiers on a tree broken on purpose. The first red is what is wanted.
// 4. Cheap first: the order above, and the order of the plan inside a tier. The first red ends the rest.
// 5. The definition comes from the plan as submitted; nothing in a candidate's tree can change it.
// 6. Verdict: exit 0 is pass. Any other end of the command is fail. infra is what says nothing about the tree, and it
//    needs a fact that we established ourselves: the command could not be started, its shim was lost or stopped, the
//    disk is full, the port that it wanted is taken (case 52 gate-not-isolated). What a log says is a hint and no fact.
// 7. Trouble (infra, or red with a hint) is looked at again in a new place; `afterTrouble` says how often, and what it
//    means when it does not end.

import type { Outcome } from "../schemas/job.ts";
import type { Limits } from "../schemas/limit-spec.ts";
import { acceptanceName } from "../schemas/proof.ts";
import type { EnvSpec, Gate, RunSpec, TaskSpec } from "../schemas/task.ts";
import type { Verdict } from "../schemas/verdict.ts";
import { MET } from "./evidence.ts";

export interface PlannedCheck {
  name: string;
  tier: Verdict["tier"];
  run: string;
  timeout_s: number;
  limits: Limits;
  /** Of the check itself. */
  env?: EnvSpec;
  /** Globs of the files that alone decide it. Absent: everything may. */
  inputs?: readonly string[];
}

export type CheckOf =
  | { kind: "captured" }
  /** `proven`: this tree has passed acceptance and shallow checks. */
  | { kind: "candidate"; proven: boolean }
  | { kind: "canary" };

export function checksFor(
  spec: Pick<TaskSpec, "acceptance" | "timeout_s" | "limits">,
  gate: RunSpec["gate"],
  of: CheckOf,
): PlannedCheck[] {
  const common = gate === "none" ? undefined : gate;
  switch (of.kind) {
    case "captured":
      return [...acceptanceOf(spec), ...tierOf(common, "shallow")];
    case "candidate":
      return [
        ...(of.proven ? [] : [...acceptanceOf(spec), ...tierOf(common, "shallow")]),
        ...tierOf(common, "middle"),
        ...tierOf(common, "deep"),
      ];
    case "canary":
      return [...tierOf(common, "shallow"), ...tierOf(common, "middle"), ...tierOf(common, "deep")];
    default:
      return of satisfies never;
  }
}

function acceptanceOf(spec: Pick<TaskSpec, "acceptance" | "timeout_s" | "limits">): PlannedCheck[] {
  return spec.acceptance.flatMap((criterion, index) =>
    criterion.run === undefined
      ? []
      : [
          {
            name: acceptanceName(index),
            tier: "acceptance" as const,
            run: criterion.run,
            timeout_s: spec.timeout_s,
            limits: spec.limits,
          },
        ],
  );
}

function tierOf(gate: Gate | undefined, tier: "shallow" | "middle" | "deep"): PlannedCheck[] {
  return (gate?.[tier] ?? []).map((check) => ({
    name: check.name,
    tier,
    run: check.run,
    timeout_s: check.timeout_s,
    limits: check.limits,
    ...(check.env === undefined ? {} : { env: check.env }),
    ...(check.inputs.length === 0 ? {} : { inputs: check.inputs }),
  }));
}

/** Why the end of a check may say nothing about the tree. */
export type Trouble =
  /** Nobody saw it end. It may have killed its own shim. */
  | "lost"
  /** Red, and its log has words of a machine in trouble. */
  | "hint"
  /** A fact of the machine, or of ours, that no check can bring about alone. */
  | "fact";

export interface Judged {
  verdict: Verdict["verdict"];
  /** One sentence that names the fact. */
  summary: string;
  trouble?: Trouble;
}

/** What was established beside the outcome. */
export interface GateFacts {
  /** Of trouble.ts. */
  machine?: string | undefined;
  /** The port of the hint, when somebody listens there now that the check has ended. */
  takenPort?: number | undefined;
}

/** Words of the machine, not of the project: a port or the disk was taken. */
const MACHINE_WORDS = /^.*\b(EADDRINUSE|ENOSPC|EMFILE|ENFILE)\b.*$/m;

/** The line of a red check's log that hints at the machine, and the port that it names. */
export function hintOf(outcome: Pick<Outcome, "log_tail">): { line: string; port?: number } | undefined {
  const line = MACHINE_WORDS.exec(outcome.log_tail)?.[0].trim().slice(0, 300);
  if (line === undefined) return undefined;
  const port = line.includes("EADDRINUSE") ? Number(/(?:\D|^)(\d{2,5})\D*$/.exec(line)?.[1]) : Number.NaN;
  return port > 0 && port < 65_536 ? { line, port } : { line };
}

export function judge(
  check: Pick<PlannedCheck, "name" | "timeout_s">,
  outcome: Outcome,
  facts: GateFacts = {},
): Judged {
  const fail = (summary: string): Judged => ({ verdict: "fail", summary: `${check.name} ${summary}` });
  const infra = (trouble: Trouble, summary: string): Judged => ({ verdict: "infra", summary, trouble });
  switch (outcome.reason) {
    case "exit":
      return outcome.exit === 0 ? { verdict: "pass", summary: "" } : judgeRed(check, outcome, facts);
    case "signal":
      return fail(`was ended by ${outcome.signal ?? "a signal"}`);
    case "timeout":
      return fail(`did not end within ${check.timeout_s} s`);
    case "memory":
    case "pids":
    case "cpu":
    case "fsize":
    case "disk":
    case "limit":
      return fail(`${MET[outcome.reason]}: ${outcome.detail ?? "see its log"}`);
    case "spawn_failed":
      return infra("fact", `${check.name} could not be started: ${outcome.detail ?? ""}`);
    case "cancelled":
      return infra("fact", `${check.name} was stopped from outside`);
    case "lost":
      return infra(
        facts.machine === undefined ? "lost" : "fact",
        `nobody saw the end of ${check.name}${facts.machine === undefined ? "" : `: ${facts.machine}`}`,
      );
    default:
      return infra("fact", `unknown end ${String(outcome.reason satisfies never)}`);
  }
}

function judgeRed(check: Pick<PlannedCheck, "name">, outcome: Outcome, facts: GateFacts): Judged {
  const ended = `${check.name} ended with exit code ${outcome.exit}${missingProgram(outcome)}`;
  if (facts.machine !== undefined)
    return { verdict: "infra", trouble: "fact", summary: `${ended} while ${facts.machine}` };
  const hint = hintOf(outcome);
  if (hint === undefined) return { verdict: "fail", summary: ended };
  if (facts.takenPort !== undefined)
    return {
      verdict: "infra",
      trouble: "fact",
      summary: `${ended}; port ${facts.takenPort} is taken: ${hint.line}`,
    };
  return {
    verdict: "fail",
    trouble: "hint",
    summary: `${ended}; its log names trouble of the machine, no fact confirms it: ${hint.line}`,
  };
}

/** A shell's codes for a program that is not there, or cannot be executed. */
export function lacksProgram({ exit }: { exit?: number | null | undefined }): boolean {
  return exit === 127 || exit === 126;
}

/** With the shell's own words where the log has them. */
function missingProgram({ exit, log_tail }: Pick<Outcome, "exit" | "log_tail">): string {
  if (!lacksProgram({ exit })) return "";
  const line = /^.*(?:not found|No such file or directory|[Pp]ermission denied|cannot execute).*$/m.exec(
    log_tail,
  );
  const said = line === null ? "" : `: ${line[0].trim().slice(0, 200)}`;
  return ` (a program ${exit === 127 ? "is missing" : "cannot be executed"}${said})`;
}

/** Passes of a gate that may end in trouble before it ends the gate. */
const MAX_TROUBLES = 3;
/** A red check with a hint is run once more. */
const MAX_HINTS = 2;

/**
 * What the troubles of one gate on one tree mean, the newest last. A check that is lost each time, while there is no
 * fact of the machine, ends its own shim: that is a failure like any other. Table-tested.
 */
export function afterTrouble(troubles: readonly Trouble[]): "again" | "fail" | "infra" {
  if (troubles.at(-1) === "hint" && troubles.filter((one) => one === "hint").length >= MAX_HINTS)
    return "fail";
  if (troubles.length < MAX_TROUBLES) return "again";
  return troubles.includes("fact") ? "infra" : "fail";
}
