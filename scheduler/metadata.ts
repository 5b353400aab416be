// run_metadata.json of an attempt (W5): when, who, on what machine, with which limits. Pure but for the reading of
// the versions at the start.

import type { Limits, Task } from "../schemas/task.ts";
import type { GroupHost } from "./group-host.ts";
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
  /** Limits that the plan asks for and that nothing here enforces. */
  limits_not_enforced: string[];
  /** What stands between the agent and the host. */
  protection: string;
  port: number;
  scheduler: UsageSample | null;
}

export function metadataOf(
  facts: Pick<RunMetadata, "attempt" | "base" | "started" | "worker" | "machine" | "versions" | "port"> & {
    task: Task;
    limits: Limits;
    groups: GroupHost;
    usage: UsageSample | undefined;
  },
): RunMetadata {
  const { task, limits, groups, usage, ...rest } = facts;
  const { agent, timeout_s } = task.spec;
  return {
    v: 1,
    run: task.run,
    task: task.spec.id,
    ...rest,
    agent: { use: agent.use, model: agent.model ?? null, args: agent.args },
    limits: { ...limits, timeout_s },
    limits_not_enforced: notEnforced(limits, groups),
    protection: `own repository, own directories, reduced environment, own session, ${groups.all ? "control group" : "no control group"}; no sandbox`,
    scheduler: usage ?? null,
  };
}

/** Memory and the number of processes of a tree need a control group. */
function notEnforced(limits: Limits, groups: GroupHost): string[] {
  return (["memory", "pids"] as const).filter((name) => limits[name] !== undefined && !groups[name]);
}
