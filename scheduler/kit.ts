// What every part of the scheduler is given: the bus, the repository, the edges. Types only.

import type { Config } from "../schemas/config.ts";
import type { AttemptRef } from "../schemas/ids.ts";
import type { Outcome, ShimJob } from "../schemas/job.ts";
import type { MethodName, Params, Result } from "../schemas/methods.ts";
import type { Clock, Log, Random } from "../schemas/ports.ts";
import type { Control } from "./control.ts";
import type { HostEnv } from "./environment.ts";
import type { LimitHost } from "./limit-host.ts";
import type { PidFile } from "./liveness.ts";
import type { Machine } from "./machine.ts";
import type { Mirror } from "./mirror.ts";
import type { PlacePool } from "./place-pool.ts";
import type { PortPool } from "./port-pool.ts";
import type { SandboxHost } from "./sandbox-host.ts";
import type { SecretSources } from "./secret-sources.ts";
import type { SetupCache } from "./setup-cache.ts";
import type { Usage } from "./usage.ts";

/** The bus as the scheduler calls it; rejects with BusbarError. */
export interface Bus {
  call<M extends MethodName>(method: M, params: Params<M>): Promise<Result<M>>;
}

/** `shim`: who it is, as it told the bus; its file lies where the agent can write. */
export type Watched = Pick<ShimJob, "ref" | "kind" | "name" | "dir" | "files"> & {
  shim?: PidFile | undefined;
};

/** Why nobody can say whether a shim works. `pid` 0: not even its number is known. */
export interface Doubt {
  pid: number;
  why: string;
}

/** Starts shims and says how their processes ended (launch.ts, processes.ts). */
export interface Processes {
  /**
   * Starts a shim for the job and waits for the outcome: from its outbox, from the bus, or made up as `lost` when the
   * shim is gone and left none. Rejects only when the shim could not be started, or `signal` is aborted and the shim
   * does not end in time. An abort asks the shim to end (SIGTERM).
   */
  run(job: ShimJob, signal: AbortSignal): Promise<Outcome>;
  /** Like `run` for a shim that an earlier scheduler started. */
  watch(job: Watched, signal: AbortSignal): Promise<Outcome>;
  /** Looks at all that are waited for, now. */
  look(): void;
  doubtOf(ref: AttemptRef): Doubt | undefined;
}

export interface Tokens {
  shim: string;
  agent: string;
}

export interface Kit {
  bus: Bus;
  mirror: Mirror;
  control: Control;
  config: Config;
  /** Real path of the common git directory. */
  repo: string;
  stateDir: string;
  runtimeDir: string;
  /** Control socket of the bus. */
  socket: string;
  worker: string;
  env: HostEnv;
  clock: Clock;
  log: Log;
  random: Random;
  processes: Processes;
  ports: PortPool;
  /** What set-ups left, for later places. */
  setups: SetupCache;
  /** Values that stand in no plan. */
  secrets: SecretSources;
  /** Clean places for checks. */
  places: PlacePool;
  /** What processes can be held to here. */
  limitHost: LimitHost;
  /** Whether agents and checks can be shut in. */
  sandbox: SandboxHost;
  /** The person's home directory. */
  home: string;
  machine: Machine;
  usage: Usage;
  /** Node and the shim's program, for `busbar-call`. */
  shim: { node: string; args: readonly string[] };
  versions: { node: string; git: string };
}

/** What waits for a person holds no slot. `life`: of its run when it was held; in a later one it goes on, given a slot. */
export interface Hold {
  life: number | undefined;
  goOn(): void;
}

/** One claimed attempt, from claim to settle. */
export interface Attempt {
  ref: AttemptRef;
  /** The attempt's directory, absolute. */
  dir: string;
  base: string;
  tokens: Tokens;
  /** Aborted when the attempt is no longer ours (cancelled, fenced) or the scheduler ends. */
  abort: AbortController;
  /** While it waits for its run to be let go on (bases.ts). */
  hold?: Hold;
}
