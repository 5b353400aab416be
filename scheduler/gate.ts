// Which checks a tree needs, and what the end of a check means. Pure; gate-runner.ts does it.
//
// 1. Captured tree (in the attempt): the acceptance commands of the task, then the shallow checks.
// 2. Candidate tree (in the train): the same again unless this very tree has passed them, then middle and deep.
//    `gate: none` leaves the acceptance commands only.
// 3. Canary (once per run): all tiers on a tree broken on purpose. The first red is what is wanted.
// 4. Cheap first: the order above, and the order of the plan inside a tier. The first red ends the rest.
// 5. The definition comes from the plan as submitted; nothing in a candidate's tree can change it.
// 6. Verdict: exit 0 is pass. Any other end of the command is fail. infra is what says nothing about the tree: the
//    command could not be started, its shim was lost or stopped, the machine had no port or no space left
//    (case 52 gate-not-isolated). infra is tried again and never blames the task.

import type { Outcome } from "../schemas/job.ts";
import { acceptanceName } from "../schemas/proof.ts";
import type { Gate, Limits, RunSpec, TaskSpec, Verdict } from "../schemas/task.ts";

export interface PlannedCheck {
  name: string;
  tier: Verdict["tier"];
  run: string;
  timeout_s: number;
  limits: Limits;
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
  }));
}

export interface Judged {
  verdict: Verdict["verdict"];
  /** One sentence that names the fact. */
  summary: string;
}

/** Words of the machine, not of the project: a port or the disk was taken. */
const MACHINE_TROUBLE = /^.*\b(EADDRINUSE|ENOSPC|EMFILE|ENFILE)\b.*$/m;

export function judge(check: Pick<PlannedCheck, "name" | "timeout_s">, outcome: Outcome): Judged {
  switch (outcome.reason) {
    case "exit": {
      if (outcome.exit === 0) return { verdict: "pass", summary: "" };
      const trouble = MACHINE_TROUBLE.exec(outcome.log_tail)?.[0];
      if (trouble !== undefined)
        return {
          verdict: "infra",
          summary: `${check.name} met trouble of the machine: ${trouble.trim().slice(0, 300)}`,
        };
      return { verdict: "fail", summary: `${check.name} ended with exit code ${outcome.exit}` };
    }
    case "signal":
      return { verdict: "fail", summary: `${check.name} was ended by ${outcome.signal ?? "a signal"}` };
    case "timeout":
      return { verdict: "fail", summary: `${check.name} did not end within ${check.timeout_s} s` };
    case "memory":
      return { verdict: "fail", summary: `${check.name} used up its memory` };
    case "limit":
      return { verdict: "fail", summary: `${check.name} met a limit: ${outcome.detail ?? "see its log"}` };
    case "spawn_failed":
      return { verdict: "infra", summary: `${check.name} could not be started: ${outcome.detail ?? ""}` };
    case "cancelled":
      return { verdict: "infra", summary: `${check.name} was stopped from outside` };
    case "lost":
      return { verdict: "infra", summary: `nobody saw the end of ${check.name}` };
    default:
      return { verdict: "infra", summary: `unknown end ${String(outcome.reason satisfies never)}` };
  }
}
