// The scheduler as a program: `scheduler --repo COMMON_DIR`. Started by busctl, one per repository; the bus refuses a
// second one (WORKER_EXISTS).
//
// 1. Finds the bus through the repository's endpoint file, registers as worker, gets configuration and state.
// 2. Subscribes from the sequence number of that answer, so that no event is missed, and lets the engine run.
// 3. A bus that goes away is waited for; attempts go on. Away for long and nothing runs: the scheduler ends.
// 4. SIGTERM, SIGINT, SIGHUP: ends, agents go on under their shims. `shutdown` of the bus says whether they may.
//
// Exit codes: 0 ended as asked, 1 an error at the start, 3 another scheduler works here.

import { homedir, hostname } from "node:os";
import { join } from "node:path";
import { parseArgs } from "node:util";
import { type BusClient, connectBus } from "../bus/client/client.ts";
import { armFaults, FAULT_VARIABLE } from "../bus/client/fault.ts";
import { findBus, readToken } from "../bus/client/find.ts";
import { startFailure } from "../bus/client/last-words.ts";
import { makeSchedulerDir, removeSchedulerFile, writeSchedulerFile } from "../bus/client/running.ts";
import { tellReady } from "../bus/client/service.ts";
import { BusSession } from "../bus/client/session.ts";
import { probeRepository, type RepoFacts } from "../bus/git/probe.ts";
import { BusbarError } from "../schemas/errors.ts";
import { faultPoint } from "../schemas/fault-points.ts";
import type { Finding } from "../schemas/finding.ts";
import { type AttemptRef, idFault } from "../schemas/ids.ts";
import { inForceLine } from "../schemas/limit-plan.ts";
import { MAX_WORKERS, WORKERS_PER_CORE } from "../schemas/limits.ts";
import type { WorkerAnswer } from "../schemas/methods.ts";
import { type Log, systemClock } from "../schemas/ports.ts";
import { sandboxOf } from "./confine.ts";
import { openControl } from "./control.ts";
import { type DoctorWords, examineIsolation } from "./doctor.ts";
import { housekeeper } from "./gc.ts";
import { runGc } from "./gc-program.ts";
import { groupsOf, leaveGroups } from "./groups.ts";
import type { Kit } from "./kit.ts";
import { type ShimProgram, shimProgram } from "./launch.ts";
import { type LimitHost, probeLimits } from "./limit-host.ts";
import { startTime } from "./liveness.ts";
import { fileLog } from "./log-file.ts";
import { Engine } from "./loop.ts";
import { thisMachine } from "./machine.ts";
import { Mirror } from "./mirror.ts";
import { placePool } from "./place-pool.ts";
import { portPool } from "./port-pool.ts";
import { ShimProcesses } from "./processes.ts";
import type { SandboxHost } from "./sandbox-host.ts";
import { SecretSources } from "./secret-sources.ts";
import { whileAway } from "./settle.ts";
import { SetupCache } from "./setup-cache.ts";
import { askUnits, groupHostOf, SHIM_SOCKET_VARIABLE } from "./shim-units.ts";
import { Usage } from "./usage.ts";

/** A bus that is away this long while nothing runs is not waited for any more. */
const BUS_AWAY_EXIT_MS = 30_000;
/** What a stop without `leave_running` waits for agents to end; beyond the shims' own grace times. */
const DRAIN_LIMIT_MS = 60_000;

interface Arguments {
  repo: string;
  shim: ShimProgram;
  /** Collect once and end. */
  gc: { dry: boolean; idleS: number | undefined } | undefined;
  /** Try what holds processes in this directory's place, and end. */
  doctor: Pick<DoctorWords, "dir" | "asked"> | undefined;
}

const OPTIONS = {
  repo: { type: "string" },
  shim: { type: "string" },
  gc: { type: "boolean" },
  json: { type: "boolean" },
  "dry-run": { type: "boolean" },
  "idle-s": { type: "string" },
  doctor: { type: "boolean" },
  dir: { type: "string" },
  asked: { type: "string" },
} as const;

function readArguments(argv: readonly string[]): Arguments {
  const usage = (text: string) =>
    new BusbarError("USAGE", `${text}; usage: scheduler --repo COMMON_DIR [--shim PROGRAM]`);
  let values: ReturnType<typeof parseArgs<{ options: typeof OPTIONS }>>["values"];
  try {
    values = parseArgs({ args: [...argv], options: OPTIONS, strict: true }).values;
  } catch (error) {
    throw usage((error as Error).message);
  }
  const { dir = "/", asked = '{"limits":{},"sandbox":"auto"}' } = values;
  const doctor = values.doctor ? { dir, asked: JSON.parse(asked) as DoctorWords["asked"] } : undefined;
  if (values.repo === undefined && !doctor) throw usage("--repo is missing");
  const idle = values["idle-s"];
  if (idle !== undefined && !/^\d{1,9}$/.test(idle)) throw usage("--idle-s must be a number");
  const program = values.shim === undefined ? shimProgram() : { node: process.execPath, args: [values.shim] };
  const shim = { ...program, socket: process.env[SHIM_SOCKET_VARIABLE] };
  const idleS = idle === undefined ? undefined : Number(idle);
  const gc = values.gc ? { dry: values["dry-run"] ?? false, idleS } : undefined;
  return { repo: values.repo ?? "", shim, gc, doctor };
}

/** The host's name as a worker id; the same after a restart, so that its attempts are found again. */
function workerName(host: string): string {
  const name = host
    .replace(/[^A-Za-z0-9_.-]+/g, "-")
    .replace(/^[^A-Za-z0-9]+|[^A-Za-z0-9]+$/g, "")
    .slice(0, 60);
  return idFault(name) === undefined ? name : "local";
}

class Scheduler {
  readonly #args: Arguments;
  readonly #worker = workerName(hostname());
  readonly #machine = thisMachine();
  readonly #session: BusSession;
  #log: Log | undefined;
  #engine: Engine | undefined;
  #kit: Kit | undefined;
  #limits: LimitHost | undefined;
  #sandbox: SandboxHost | undefined;
  #facts: Promise<RepoFacts> | undefined;
  #endpoint: Awaited<ReturnType<typeof findBus>>["endpoint"] = null;
  #stateDir: string | undefined;
  /** As the bus says it before anybody has registered. */
  #probed = "";
  #awaySince = systemClock.monotonic();
  /** systemd has been told. */
  #ready = false;
  #end: (code: number) => void = () => {};
  /** Fulfilled with the exit code. */
  readonly ended: Promise<number>;

  constructor(args: Arguments) {
    this.#args = args;
    this.ended = new Promise((resolve) => {
      this.#end = resolve;
    });
    this.#session = new BusSession({
      connect: () => this.#connect(),
      onConnect: (client) => this.#register(client),
      onLost: () => this.#lost(),
      onGiveUp: (error) => {
        process.stderr.write(startFailure("scheduler", error));
        this.#end(error.code === "WORKER_EXISTS" ? 3 : 1);
      },
    });
    this.#session.ended.catch((error) => {
      process.stderr.write(startFailure("scheduler", error));
      this.#end(1);
    });
    setInterval(() => this.#lookAway(), BUS_AWAY_EXIT_MS / 6).unref();
  }

  async stop(leave: boolean): Promise<void> {
    this.#log?.info("ending", { leave_running: leave });
    await this.#engine?.stop(leave, DRAIN_LIMIT_MS);
    this.#end(0);
  }

  async #connect(): Promise<BusClient> {
    const { endpoint } = await findBus(this.#args.repo);
    if (!endpoint) throw new BusbarError("BUS_AWAY", `no bus runs for ${this.#args.repo}`);
    this.#log ??= fileLog(endpoint.state_dir);
    this.#endpoint = endpoint;
    // Whoever sees us registered takes us for started.
    makeSchedulerDir(endpoint.state_dir);
    this.#probed = endpoint.state_dir;
    return await connectBus({
      socket: endpoint.socket,
      role: "scheduler",
      token: readToken(endpoint, "scheduler"),
      client: `scheduler ${process.pid}`,
    });
  }

  async #register(client: BusClient): Promise<void> {
    this.#limits ??= await this.#probeLimits();
    const limits = this.#limits;
    this.#sandbox ??= await this.#probeSandbox();
    faultPoint("scheduler.start.before-register");
    const answer = await client.call("register_worker", {
      worker: this.#worker,
      host: hostname(),
      pid: process.pid,
      start_time: startTime(process.pid) ?? "",
      slots: Math.min(this.#machine.cores * WORKERS_PER_CORE, MAX_WORKERS),
      limits: limits.facts,
      sandbox: this.#sandbox.facts,
    });
    this.#stateDir = answer.state_dir;
    // Whoever finds the bus dead finds us by it.
    writeSchedulerFile(answer.state_dir);
    const engine = this.#engine ?? (await this.#build(answer, limits));
    this.#kit?.mirror.load(answer.runs, answer.tasks);
    client.on("event", (record) => engine.onRecord(record));
    client.on("shutdown", ({ leave_running }) => void this.stop(leave_running));
    client.on("event_error", ({ message }) => {
      this.#log?.error("the bus cannot send its events; connecting anew", { message });
      client.close();
    });
    await client.call("subscribe", { from_seq: answer.seq });
    this.#awaySince = Number.POSITIVE_INFINITY;
    if (!this.#ready) tellReady();
    this.#ready = true;
    // Calls through the session work once this function is through.
    setImmediate(() => void engine.connected());
  }

  #repository(): Promise<RepoFacts> {
    this.#facts ??= probeRepository(this.#args.repo);
    return this.#facts;
  }

  async #probeSandbox(): Promise<SandboxHost> {
    const { commonDir: repo, topLevel } = await this.#repository();
    const { state_dir: stateDir = "", runtime_dir: runtimeDir = "" } = this.#endpoint ?? {};
    const { node } = this.#args.shim;
    return await sandboxOf({
      repo,
      topLevel,
      stateDir,
      runtimeDir,
      node,
      home: homedir(),
      host: process.env,
    });
  }

  /** Once, at the start. */
  async #probeLimits(): Promise<LimitHost> {
    const { socket } = this.#args.shim;
    return probeLimits(process.env, this.#probed, socket ? groupHostOf(await askUnits(socket)) : undefined);
  }

  async #build(answer: WorkerAnswer, limitHost: LimitHost): Promise<Engine> {
    const log = this.#log ?? fileLog(answer.state_dir);
    const facts = await this.#repository();
    const { shim } = this.#args;
    const clock = systemClock;
    const graceMs = answer.config.kill_grace_ms;
    const taskOf = async (ref: AttemptRef, signal: AbortSignal) => {
      const { run, task } = ref;
      return (
        await whileAway({ log }, { ref, abort: { signal } }, () =>
          this.#session.call("get_task", { run, task }),
        )
      ).task;
    };
    const { groups } = limitHost;
    const processes = new ShimProcesses({
      program: shim,
      env: process.env,
      clock,
      log,
      graceMs,
      groupsOf: (job) => groupsOf(groups, answer.state_dir, job),
      taskOf,
    });
    const git = new AbortController();
    const calls = new Set<Promise<unknown>>();
    const control = { ...openControl(answer.state_dir, facts), signal: git.signal, calls };
    const kit: Kit = {
      bus: this.#session,
      mirror: new Mirror(),
      control,
      config: answer.config,
      repo: facts.commonDir,
      stateDir: answer.state_dir,
      runtimeDir: answer.runtime_dir,
      socket: this.#endpoint?.socket ?? "",
      worker: this.#worker,
      env: process.env,
      clock,
      log,
      random: Math.random,
      processes,
      ports: portPool(process.pid * 97),
      setups: new SetupCache({ control, top: join(answer.state_dir, "setup"), host: process.env, log }),
      secrets: new SecretSources({ host: process.env, cwd: facts.topLevel ?? facts.commonDir, clock }),
      places: placePool(control, answer.state_dir, this.#machine.cores, log),
      limitHost,
      sandbox: this.#sandbox ?? (await this.#probeSandbox()),
      home: homedir(),
      machine: this.#machine,
      usage: new Usage(clock, log),
      shim,
      versions: { node: process.version, git: facts.gitVersion },
    };
    this.#kit = kit;
    this.#engine = new Engine({
      kit,
      processes,
      leaseMs: answer.lease_ms,
      housekeeping: housekeeper(kit),
      endGit: async () => {
        git.abort();
        await Promise.allSettled(calls);
      },
    });
    log.info("scheduler at work", {
      worker: this.#worker,
      pid: process.pid,
      repo: kit.repo,
      runs: answer.runs.length,
      limits: inForceLine(limitHost.facts),
      lacking: groups.notes,
      sandbox: kit.sandbox.facts,
    });
    return this.#engine;
  }

  #lost(): void {
    this.#awaySince = systemClock.monotonic();
    this.#engine?.lost();
    this.#log?.warn("the bus went away; attempts go on");
  }

  #lookAway(): void {
    const away = systemClock.monotonic() - this.#awaySince;
    if (away < BUS_AWAY_EXIT_MS || (this.#engine && !this.#engine.idle)) return;
    this.#log?.info("ending: the bus is away and nothing runs", { away_ms: Math.round(away) });
    this.#end(0);
  }

  /** The last deed. */
  signOff(): void {
    if (this.#stateDir !== undefined) removeSchedulerFile(this.#stateDir);
    if (this.#limits) leaveGroups(this.#limits.groups);
  }

  report(error: unknown): void {
    this.#log?.error("unhandled", { error: String((error as Error)?.stack ?? error) });
  }
}

async function examine({ doctor, shim }: Arguments): Promise<{ findings: Finding[] }> {
  const { dir, asked } = doctor as NonNullable<Arguments["doctor"]>;
  const ours = join(dir, "busbar", "none");
  const own = { repo: ours, topLevel: null, stateDir: ours, runtimeDir: ours };
  const probe = { ...own, node: shim.node, home: homedir(), host: process.env };
  const words = { env: process.env, dir, asked, probeSandbox: () => sandboxOf(probe) };
  return { findings: await examineIsolation(words) };
}

async function main(): Promise<number> {
  armFaults(process.env[FAULT_VARIABLE]);
  const args = readArguments(process.argv.slice(2));
  if (args.gc || args.doctor) {
    const answer = args.gc ? await runGc({ repo: args.repo, ...args.gc }) : await examine(args);
    await new Promise((written) => process.stdout.write(`${JSON.stringify(answer)}\n`, written));
    return 0;
  }
  const scheduler = new Scheduler(args);
  for (const signal of ["SIGTERM", "SIGINT", "SIGHUP"] as const)
    process.once(signal, () => void scheduler.stop(true));
  process.on("unhandledRejection", (error) => scheduler.report(error));
  const code = await scheduler.ended;
  scheduler.signOff();
  return code;
}

main().then(
  (code) => process.exit(code),
  (error) => {
    process.stderr.write(startFailure("scheduler", error), () => process.exit(1));
  },
);
