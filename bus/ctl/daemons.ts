// Starting the two programs behind busctl: the bus and the scheduler of one repository.
//
// ensureUp, all within START_TIMEOUT_MS:
// 1. A bus that answers is used. One that holds the lock and does not answer is left alone:
//    BUS_NOT_ANSWERING, never a second one (case 63).
// 2. None: start busd in a session of its own, and ask until it answers. Whoever loses the race for the lock ends by
//    itself; the winner's answer is success for everybody.
// 3. No worker registered: a scheduler that lost its bus comes back by itself: it is waited for. One that lives and does
//    not come back is nobody's to kill unasked: SCHEDULER_NOT_ANSWERING with its pid, or STORAGE where the bus cannot write
//    down that it is there. None: start one, and ask.
// 4. A program that somebody killed while it came up is started again, at most STARTS times; so is a bus that was killed
//    in step 3. One that ended by itself said why, and that is told (launch.ts).
// 5. Where they are services of systemd, nobody is started, only waited for (services.ts).
// How they end stands in bring-down.ts.

import { join } from "node:path";
import { BusbarError, isCode } from "../../schemas/errors.ts";
import { RECONNECT_MAX_MS } from "../../schemas/limits.ts";
import type { Ping } from "../../schemas/methods.ts";
import { findBus } from "../client/find.ts";
import { isSameProcess, type ProcessIdentity } from "../client/identity.ts";
import type { DaemonName } from "../client/last-words.ts";
import { runningScheduler } from "../client/running.ts";
import { busPaths, type Endpoint } from "../paths.ts";
import { notAnswering, openBus, PING_TIMEOUT_MS, ping, stateAndRemedy } from "./connect.ts";
import type { Bus } from "./context.ts";
import { type Host, launch, type Program, thisHost } from "./launch.ts";
import { areServices, awaitService } from "./services.ts";

/** From nothing to a registered worker, on a slow machine. */
const START_TIMEOUT_MS = 15_000;
/** How often a program is started that was killed while it came up. */
const STARTS = 3;
/** How long the holder of the lock may be silent before it counts as stopped; while starting it is silent too. */
const SILENT_MS = 5_000;
/** After the scheduler that we started has ended: another one may just be registering. */
const LOSER_GRACE_MS = 3_000;
const LOOK_AGAIN_MS = 50;

export interface Up {
  ping: Ping;
  endpoint: Endpoint;
  started: ("bus" | "scheduler")[];
}

/**
 * Bus and scheduler. Throws BUS_NOT_ANSWERING, SCHEDULER_NOT_ANSWERING, STORAGE, what a program said that could not start, BUS_AWAY
 * when it said nothing, and what busPaths throws.
 */
export async function ensureUp(commonDir: string, host = thisHost(), idleExitMs?: number): Promise<Up> {
  const end = performance.now() + START_TIMEOUT_MS;
  for (let tries = 1; ; tries++) {
    try {
      return await upOnce(commonDir, host, idleExitMs);
    } catch (error) {
      // The bus was killed between its first answer and the scheduler's.
      if (!isCode(error, "BUS_AWAY") || tries >= STARTS || performance.now() > end) throw error;
    }
  }
}

async function upOnce(commonDir: string, host: Host, idleExitMs: number | undefined): Promise<Up> {
  const up = await ensureBus(commonDir, host, idleExitMs);
  if (up.ping.worker !== null) return up;
  const { state_dir } = up.endpoint;
  const start = () => startOrAwait("scheduler", commonDir, [], host);
  const { ping, started } = await workerThere(commonDir, state_dir, start);
  return { ...up, ping, started: started ? [...up.started, "scheduler"] : up.started };
}

/** The bus alone. Throws the same. */
export async function ensureBus(commonDir: string, host = thisHost(), idleExitMs?: number): Promise<Up> {
  const end = performance.now() + START_TIMEOUT_MS;
  const idle = idleExitMs === undefined ? [] : ["--idle-exit-ms", String(idleExitMs)];
  const start = () => startOrAwait("busd", commonDir, idle, host);
  const { ping, endpoint, started } = await busAnswers(commonDir, end, start);
  return { ping, endpoint, started: started ? ["bus"] : [] };
}

function startOrAwait(name: DaemonName, commonDir: string, words: string[], host: Host): Program {
  if (areServices(host.env)) return awaitService(name, commonDir);
  const logs = join(busPaths(commonDir, host.env, host.uid).state, "logs");
  return launch(name, ["--repo", commonDir, ...words], logs, host);
}

async function busAnswers(commonDir: string, end: number, start: () => Program) {
  const starter = new Starter(start, "the bus");
  let silentSince: number | undefined;
  for (;;) {
    const found = await findBus(commonDir, PING_TIMEOUT_MS);
    const now = performance.now();
    if (found.ping && found.endpoint) {
      return { ping: found.ping, endpoint: found.endpoint, started: starter.pid === found.ping.pid };
    }
    if (found.state === "dead") starter.see();
    silentSince = found.state === "unknown" ? (silentSince ?? now) : undefined;
    const silent = silentSince !== undefined && now - silentSince > SILENT_MS && !starter.running;
    if (silent || (now > end && found.state === "unknown")) throw notAnswering(found, commonDir);
    if (now > end) throw starter.failed();
    await pause(LOOK_AGAIN_MS);
  }
}

/** Starts a program, and again when it was killed or lost to one that has gone since. */
class Starter {
  readonly #start: () => Program;
  readonly #what: string;
  #program: Program | undefined;
  #starts = 0;

  constructor(start: () => Program, what: string) {
    this.#start = start;
    this.#what = what;
  }

  get pid(): number | undefined {
    return this.#program?.pid;
  }

  get running(): boolean {
    return this.#program?.running() ?? false;
  }

  /** Nobody is there: starts, or throws why that makes no sense (any more). */
  see(): void {
    if (this.running) return;
    if (this.#program && (this.#starts >= STARTS || !this.#mayHelp(this.#program))) throw this.failed();
    this.#program = this.#start();
    this.#starts += 1;
  }

  failed(): BusbarError {
    return (
      this.#program?.failed(this.#what) ?? new BusbarError("BUS_AWAY", `${this.#what} did not answer in time`)
    );
  }

  #mayHelp(program: Program): boolean {
    const lost = isCode(
      program.failed(this.#what),
      "ALREADY_RUNNING",
      "BUS_NOT_ANSWERING",
      "STATE_IN_USE",
      "WORKER_EXISTS",
    );
    return program.killedBy() !== undefined || lost;
  }
}

async function workerThere(commonDir: string, stateDir: string, start: () => Program) {
  const bus = await openBus(commonDir);
  try {
    const back = await comesBack(bus, stateDir);
    if (back) return { ping: back, started: false };
    const end = performance.now() + START_TIMEOUT_MS;
    const starter = new Starter(start, "the scheduler");
    starter.see();
    let endedAt: number | undefined;
    for (;;) {
      const answer = await ping(bus, 5_000);
      if (answer.worker !== null) return { ping: answer, started: await isOurs(starter, stateDir) };
      const now = performance.now();
      endedAt = starter.running ? undefined : (endedAt ?? now);
      if (endedAt !== undefined && now - endedAt > LOSER_GRACE_MS) starter.see();
      if (now > end) throw unwritable(answer) ?? starter.failed();
      await pause(LOOK_AGAIN_MS);
    }
  } finally {
    bus.close();
  }
}

/** Whether the registered scheduler is the one that we started: of several it is the one that says so on disk. */
async function isOurs(starter: Starter, stateDir: string): Promise<boolean> {
  const patience = performance.now() + LOSER_GRACE_MS;
  while (starter.running && performance.now() < patience) {
    const there = runningScheduler(stateDir);
    if (there) return there.pid === starter.pid;
    await pause(LOOK_AGAIN_MS);
  }
  return starter.running;
}

/** The answer of the bus once the scheduler that runs has registered; undefined: there is none (any more). */
async function comesBack(bus: Bus, stateDir: string): Promise<Ping | undefined> {
  const old = runningScheduler(stateDir);
  if (!old) return undefined;
  const patience = performance.now() + RECONNECT_MAX_MS + PING_TIMEOUT_MS;
  while (isSameProcess(old)) {
    const answer = await ping(bus, 5_000);
    if (answer.worker !== null) return answer;
    if (performance.now() > patience) throw unwritable(answer) ?? schedulerSilent(old.pid);
    await pause(LOOK_AGAIN_MS);
  }
  return undefined;
}

/** A scheduler comes to a bus only by a record of it: while none can be written, it is not to blame. */
function unwritable({ degraded, state_dir }: Ping): BusbarError | undefined {
  if (degraded === undefined) return undefined;
  return new BusbarError("STORAGE", `${degraded} (${state_dir}), so no scheduler can register at the bus`, {
    help: "Make room or mend the file system, then `busctl up`; what runs goes on.",
  });
}

function schedulerSilent(pid: number): BusbarError {
  const { state, remedy } = stateAndRemedy(pid);
  return new BusbarError(
    "SCHEDULER_NOT_ANSWERING",
    `the scheduler is not answering: pid ${pid} ${state} and does not come back to the bus; no second one was started`,
    { pid, help: remedy },
  );
}

/** A signal for exactly this process, and for nobody who got its pid later. */
export function signalTo(known: ProcessIdentity, signal: "SIGTERM" | "SIGKILL"): void {
  if (!isSameProcess(known)) return;
  try {
    process.kill(known.pid, signal);
  } catch {
    // It has ended by itself.
  }
}

export function pause(ms: number): Promise<void> {
  return new Promise((resolve) => setTimeout(resolve, ms));
}
