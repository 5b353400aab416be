// Builds the job of a shim: an agent, or a check. Pure.

import { createHash } from "node:crypto";
import { dirname, join } from "node:path";
import { FAULT_VARIABLE } from "../bus/client/fault.ts";
import type { Config } from "../schemas/config.ts";
import { BusbarError } from "../schemas/errors.ts";
import type { AttemptRef } from "../schemas/ids.ts";
import type { ShimJob } from "../schemas/job.ts";
import { mustHold, stricter } from "../schemas/limit-plan.ts";
import type { Limits } from "../schemas/limit-spec.ts";
import { type EnvSpec, NO_ENV, type TaskSpec } from "../schemas/task.ts";
import { FILES, taskSocket } from "./dirs.ts";
import {
  type Environment,
  type EnvironmentInput,
  environmentOf,
  type Homes,
  type HostEnv,
  type SecretValues,
} from "./environment.ts";
import { groupsOf } from "./groups.ts";
import type { Tokens } from "./kit.ts";
import type { LimitHost } from "./limit-host.ts";
import { planLimits } from "./limit-plan.ts";
import { DIR_VARIABLE } from "./strays.ts";

/** What is the same for every job of one scheduler. */
export interface JobBase {
  config: Config;
  host: HostEnv;
  /** Control socket of the bus. */
  socket: string;
  runtimeDir: string;
  stateDir: string;
  repo: string;
  /** Top of the user's checkout, if there is one. */
  topLevel: string | null;
  node: string;
  limitHost: LimitHost;
}

export interface JobPlace {
  ref: AttemptRef;
  tokens: Tokens;
  /** Current directory of the process. */
  work: string;
  /** The place's own directory, the parent of `work` and of the homes. */
  dir: string;
  homes: Homes;
  port: number;
  /** Object stores that its submodules borrow from. */
  submodules: readonly string[];
}

/** What an agent's environment is made of, in order. Throws NO_SUCH_PROFILE. */
export function agentEnvSpecs({ config }: Pick<JobBase, "config">, spec: TaskSpec): EnvSpec[] {
  return [config.env, agentProfile(spec, config).env, spec.env];
}

/**
 * What a check's environment is made of. A check runs the candidate's code: of secrets it gets those that are written
 * for it.
 */
export function checkEnvSpecs(
  { config }: Pick<JobBase, "config">,
  taskEnv: EnvSpec,
  checkEnv: EnvSpec = NO_ENV,
): EnvSpec[] {
  return [{ ...config.env, secrets: {} }, { ...taskEnv, secrets: {} }, checkEnv];
}

/** The agent of an attempt; `sources`: of agentEnvSpecs. Throws NO_SUCH_PROFILE. */
export function agentJob(
  base: JobBase,
  place: JobPlace & { bin: string },
  spec: TaskSpec,
  sources: SecretValues,
): ShimJob {
  const profile = agentProfile(spec, base.config);
  const facts = {
    BUSBAR_CONTEXT: join(place.dir, FILES.context),
    BUSBAR_PROMPT: join(place.dir, FILES.prompt),
    ...(spec.agent.model === undefined ? {} : { BUSBAR_MODEL: spec.agent.model }),
  };
  const specs = agentEnvSpecs(base, spec);
  const { env, secrets } = environment(base, place, facts, { specs, sources, binFirst: [place.bin] });
  return {
    v: 1,
    ref: place.ref,
    kind: "agent",
    name: "agent",
    argv: profile.argv,
    cwd: place.work,
    dir: place.dir,
    files: { log: FILES.log, outbox: FILES.outbox, done: FILES.done, pid: FILES.pid },
    env,
    secrets,
    timeout_ms: spec.timeout_s * 1000,
    grace_ms: base.config.kill_grace_ms,
    writes_in: place.dir,
    ...heldBy(base, spec.limits, { dir: place.dir, name: "agent" }),
    bus: { socket: base.socket, shim_token: place.tokens.shim, agent_token: place.tokens.agent },
    task_socket: taskSocket(base.runtimeDir, place.ref),
    ...faultOf(base),
  };
}

export interface CheckJob {
  /** Counts the checks of an attempt, so that no two have one name. */
  n: number;
  name: string;
  run: string;
  timeout_s: number;
  limits: Limits;
  /** Where log and outbox go: `checks/` of the attempt. */
  logDir: string;
}

/** `given`: specs of checkEnvSpecs, and the values of their sources. */
export function checkJob(
  base: JobBase,
  place: JobPlace,
  check: CheckJob,
  given: { specs: readonly EnvSpec[]; sources: SecretValues },
): ShimJob {
  const name = checkFileName(check.n, check.name);
  const { env, secrets } = environment(base, place, {}, { ...given, binFirst: [] });
  return {
    v: 1,
    ref: place.ref,
    kind: "check",
    name,
    argv: ["/bin/sh", "-c", check.run],
    cwd: place.work,
    dir: check.logDir,
    files: {
      log: `${name}.log`,
      outbox: `${name}.outbox.json`,
      done: `${name}.done`,
      pid: `${name}.shim.json`,
    },
    env,
    secrets,
    timeout_ms: check.timeout_s * 1000,
    grace_ms: base.config.kill_grace_ms,
    writes_in: place.dir,
    ...heldBy(base, check.limits, { dir: check.logDir, name }),
    bus: { socket: base.socket, shim_token: place.tokens.shim },
    ...faultOf(base),
  };
}

/** Throws LIMIT_NOT_HELD where nothing may start without. */
function heldBy(
  { config, limitHost: { facts, groups }, stateDir }: JobBase,
  asked: Limits,
  job: Pick<ShimJob, "dir" | "name">,
): Pick<ShimJob, "limits" | "launch" | "groups"> {
  const limits = stricter(asked, config.limits);
  mustHold(limits, facts, job.name);
  const found = groupsOf(groups, stateDir, job);
  return { limits, launch: planLimits(limits, facts), ...(found && { groups: found }) };
}

/** The shim's own environment is a short list, and the agent must not see it. */
function faultOf({ host }: JobBase): Pick<ShimJob, "fault"> {
  const dir = host[FAULT_VARIABLE];
  return dir === undefined ? {} : { fault: dir };
}

/** `3-unit-tests`: safe as a file name whatever the plan calls its checks. */
export function checkFileName(n: number, name: string): string {
  const slug = name
    .replace(/[^A-Za-z0-9_.-]+/g, "-")
    .replace(/^[-.]+/, "")
    .slice(0, 60);
  return `${n}-${slug || "check"}`;
}

function agentProfile(spec: TaskSpec, config: Config): { argv: string[]; env: EnvSpec } {
  const { use, args } = spec.agent;
  if (use === "command" && spec.command !== undefined)
    return { argv: ["/bin/sh", "-c", spec.command], env: NO_ENV };
  const profile = Object.hasOwn(config.agents, use) ? config.agents[use] : undefined;
  if (!profile) {
    const known = ["command", ...Object.keys(config.agents)].join(", ");
    throw new BusbarError(
      "NO_SUCH_PROFILE",
      `starting the agent of task ${spec.id}: no profile '${use}' (known: ${known})`,
    );
  }
  const argv = [
    "/bin/sh",
    "-c",
    `${profile.command.trimEnd()}${args.length > 0 ? ' "$@"' : ""}`,
    use,
    ...args,
  ];
  return { argv, env: profile.env };
}

/** What PATH is made of beside the host's own and busbar's. */
export function pathOf({
  node,
  repo,
  stateDir,
  topLevel,
}: Pick<JobBase, "node" | "repo" | "stateDir" | "topLevel">): { binLast: string[]; notBelow: string[] } {
  return {
    binLast: [dirname(node)],
    notBelow: [repo, stateDir, ...(topLevel === null ? [] : [topLevel])],
  };
}

function environment(
  base: JobBase,
  place: JobPlace,
  facts: Record<string, string>,
  given: Pick<EnvironmentInput, "specs" | "sources" | "binFirst">,
): Environment {
  const { ref } = place;
  return environmentOf({
    host: base.host,
    homes: place.homes,
    ...pathOf(base),
    ceiling: place.dir,
    port: place.port,
    facts: {
      BUSBAR_RUN: ref.run,
      BUSBAR_TASK_ID: ref.task,
      BUSBAR_ATTEMPT_NUMBER: String(ref.attempt),
      BUSBAR_UNIQUE: `busbar_${createHash("sha256").update(place.dir).digest("hex").slice(0, 12)}`,
      [DIR_VARIABLE]: place.dir,
      ...facts,
    },
    ...given,
  });
}
