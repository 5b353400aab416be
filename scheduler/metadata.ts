// run_metadata.json of an attempt (W5): when, who, on what machine, with which limits. Pure but for the reading of
// the versions at the start.

import { inForceLine, type LimitFacts, missingLimits } from "../schemas/limit-plan.ts";
import type { Limits } from "../schemas/limit-spec.ts";
import type { SandboxInForce } from "../schemas/sandbox.ts";
import type { Task } from "../schemas/task.ts";
import type { MachineFacts } from "./machine.ts";
import type { UsageSample } from "./usage.ts";

export interface RunMetadata {
  v: 1;
  run: string;
  task: string;
  attempt: number;
  base: string;
  started: string;
  worker: string;
  agent: { use: string; model: string | null; args: string[] };
  machine: MachineFacts;
  versions: { node: string; git: string };
  limits: Limits & { timeout_s: number };
  /** Of these, what nothing here holds, each with the reason. */
  limits_not_enforced: string[];
  /** What the agent is shut in, or why it is not. */
  sandbox: SandboxInForce;
  /** What holds processes on this host, on one line. */
  limits_by: string;
  /** What stands between the agent and the host. */
  protection: string;
  port: number;
  scheduler: UsageSample | null;
}

export function metadataOf(
  facts: Pick<RunMetadata, "attempt" | "base" | "started" | "worker" | "machine" | "versions" | "port"> & {
    task: Task;
    limits: Limits;
    facts: LimitFacts;
    sandbox: SandboxInForce;
    usage: UsageSample | undefined;
  },
): RunMetadata {
  const { task, limits, facts: host, sandbox, usage, ...rest } = facts;
  const { agent, timeout_s } = task.spec;
  return {
    v: 1,
    run: task.run,
    task: task.spec.id,
    ...rest,
    agent: { use: agent.use, model: agent.model ?? null, args: agent.args },
    limits: { ...limits, timeout_s },
    sandbox,
    limits_not_enforced: missingLimits(limits, host),
    limits_by: inForceLine(host),
    protection: `own repository, own directories, reduced environment, own session, ${host.groups.kill ? "control group" : "no control group"}; ${sandbox.shut ? "sandbox" : "no sandbox"}`,
    scheduler: usage ?? null,
  };
}
