// Starting and ending the two programs behind busctl: the bus and the scheduler of one repository.
//
// Start (ensureUp), all within START_TIMEOUT_MS:
// 1. A bus that answers is used. One that holds the lock and does not answer is left alone:
//    BUS_NOT_ANSWERING, never a second one (case 63).
// 2. None: start busd, once, in a session of its own, and ask until it answers. Whoever loses the race for
//    the lock ends by itself; the winner's answer is success for everybody.
// 3. No worker registered: start the scheduler, once, and ask until there is one.
// 4. In vain: the error holds the end of the log and where the log is.
// 3a. A scheduler that lost its bus comes back by itself: it is waited for. One that does not is ended, by pid and
//    start time, and replaced; its agents go on under their shims.
// How they end stands in bring-down.ts.

import { type ChildProcess, spawn } from "node:child_process";
import { closeSync, existsSync, openSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { BusbarError, ioError } from "../../schemas/errors.ts";
import { RECONNECT_MAX_MS } from "../../schemas/limits.ts";
import type { Ping } from "../../schemas/methods.ts";
import { findBus } from "../client/find.ts";
import { isSameProcess, type ProcessIdentity } from "../client/identity.ts";
import { runningScheduler } from "../client/running.ts";
import { busPaths, type Endpoint, type Env, makePrivateDir } from "../paths.ts";
import { notAnswering, openBus, PING_TIMEOUT_MS, ping } from "./connect.ts";
import type { Bus } from "./context.ts";

/** From nothing to a registered worker, on a slow machine. */
const START_TIMEOUT_MS = 15_000;
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

interface Host {
  env: Env;
  uid: number;
}

export function thisHost(): Host {
  return { env: process.env, uid: process.getuid?.() ?? 0 };
}

/** Bus and scheduler. Throws BUS_NOT_ANSWERING, BUS_AWAY (did not start), and what busPaths throws. */
export async function ensureUp(commonDir: string, host = thisHost(), idleExitMs?: number): Promise<Up> {
  const up = await ensureBus(commonDir, host, idleExitMs);
  if (up.ping.worker !== null) return up;
  const { state_dir } = up.endpoint;
  const start = () => launch("scheduler", ["--repo", commonDir], logsOf(commonDir, host), host);
  const { ping, started } = await workerThere(commonDir, state_dir, start);
  return { ...up, ping, started: started ? [...up.started, "scheduler"] : up.started };
}

/** The bus alone. Throws the same. */
export async function ensureBus(commonDir: string, host = thisHost(), idleExitMs?: number): Promise<Up> {
  const end = performance.now() + START_TIMEOUT_MS;
  const idle = idleExitMs === undefined ? [] : ["--idle-exit-ms", String(idleExitMs)];
  const start = () => launch("busd", ["--repo", commonDir, ...idle], logsOf(commonDir, host), host);
  const { ping, endpoint, started } = await busAnswers(commonDir, end, start);
  return { ping, endpoint, started: started ? ["bus"] : [] };
}

function logsOf(commonDir: string, { env, uid }: Host): string {
  return join(busPaths(commonDir, env, uid).state, "logs");
}

async function busAnswers(commonDir: string, end: number, start: () => Program) {
  let program: Program | undefined;
  let silentSince: number | undefined;
  for (;;) {
    const found = await findBus(commonDir, PING_TIMEOUT_MS);
    const now = performance.now();
    if (found.ping && found.endpoint) {
      return { ping: found.ping, endpoint: found.endpoint, started: program?.pid === found.ping.pid };
    }
    if (found.state === "dead" && !program) program = start();
    else if (found.state === "dead" && program && !program.running()) throw program.failed("the bus");
    silentSince = found.state === "unknown" ? (silentSince ?? now) : undefined;
    if (silentSince !== undefined && now - silentSince > SILENT_MS && !program) {
      throw notAnswering(found, commonDir);
    }
    if (now > end) {
      if (found.state === "unknown") throw notAnswering(found, commonDir);
      throw program?.failed("the bus") ?? new BusbarError("BUS_AWAY", "the bus did not answer in time");
    }
    await pause(LOOK_AGAIN_MS);
  }
}

async function workerThere(commonDir: string, stateDir: string, start: () => Program) {
  const bus = await openBus(commonDir);
  try {
    const back = await comesBack(bus, stateDir);
    if (back) return { ping: back, started: false };
    const end = performance.now() + START_TIMEOUT_MS;
    const program = start();
    let endedAt: number | undefined;
    for (;;) {
      const answer = await ping(bus, 5_000);
      if (answer.worker !== null) return { ping: answer, started: program.running() };
      const now = performance.now();
      if (!program.running()) endedAt ??= now;
      const lost = endedAt !== undefined && now - endedAt > LOSER_GRACE_MS;
      if (lost || now > end) throw program.failed("the scheduler");
      await pause(LOOK_AGAIN_MS);
    }
  } finally {
    bus.close();
  }
}

/** The answer of the bus once the scheduler that runs has registered; undefined: there is none (any more). */
async function comesBack(bus: Bus, stateDir: string): Promise<Ping | undefined> {
  const old = runningScheduler(stateDir);
  if (!old) return undefined;
  const patience = performance.now() + RECONNECT_MAX_MS + PING_TIMEOUT_MS;
  while (isSameProcess(old) && performance.now() < patience) {
    const answer = await ping(bus, 5_000);
    if (answer.worker !== null) return answer;
    await pause(LOOK_AGAIN_MS);
  }
  for (const signal of ["SIGTERM", "SIGKILL"] as const) {
    signalTo(old, signal);
    const limit = performance.now() + LOSER_GRACE_MS;
    while (isSameProcess(old) && performance.now() < limit) await pause(LOOK_AGAIN_MS);
  }
  return undefined;
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

interface Program {
  readonly pid: number | undefined;
  running(): boolean;
  /** What to say when it did not come up; ends nothing. */
  failed(what: string): BusbarError;
}

function launch(name: "busd" | "scheduler", words: string[], logs: string, host: Host): Program {
  makePrivateDir(logs, host.uid);
  const file = join(logs, `${name}.log`);
  const fd = openLog(file);
  let child: ChildProcess;
  try {
    const [program = "", ...args] = programWords(name);
    child = spawn(program, [...args, ...words], {
      cwd: "/",
      detached: true,
      stdio: ["ignore", fd, fd],
      env: daemonEnv(host.env),
    });
  } finally {
    closeSync(fd);
  }
  let trouble: string | undefined;
  child.on("error", (error) => {
    trouble = error.message;
  });
  child.unref();
  return {
    pid: child.pid,
    running: () => trouble === undefined && child.exitCode === null && child.signalCode === null,
    failed: (what) => {
      const last = trouble ?? lastWords(file);
      return new BusbarError("BUS_AWAY", `${what} did not start${last ? `: ${last}` : ""}`, {
        log: file,
        help: `Its log is ${file}; mend what it says and try again.`,
      });
    },
  };
}

function openLog(file: string): number {
  try {
    return openSync(file, "a", 0o600);
  } catch (error) {
    throw ioError("opening the log", file, error);
  }
}

/**
 * Young objects of the bus live for one call. With Node's default of 16 MB per half the memory grows by 30 MB under the
 * load of 200 readers and stays so; with 4 MB it does not, and no call is slower (`npm run bench -- rpc`).
 */
const BUSD_FLAGS = ["--max-semi-space-size=4"];

/** Compiled where we are compiled; by tsx where we run from source. */
export function programWords(name: "busd" | "scheduler"): string[] {
  const source = import.meta.url.endsWith(".ts");
  const relative = name === "busd" ? "../busd" : "../../scheduler/main";
  const path = fileURLToPath(new URL(`${relative}${source ? ".ts" : ".js"}`, import.meta.url));
  if (!existsSync(path)) {
    throw new BusbarError("SPAWN_FAILED", `${path} is not there`, { help: "Build busbar: `npm run build`." });
  }
  const flags = name === "busd" ? BUSD_FLAGS : [];
  const loader = source ? ["--import", import.meta.resolve("tsx")] : [];
  return [process.execPath, ...flags, ...loader, path];
}

/** Ways to reach a remote and the person's own configuration stay; what points at a repository goes (case 18). */
const KEPT_GIT =
  /^GIT_(SSH|SSH_COMMAND|SSH_VARIANT|SSL_\w+|HTTP_\w+|PROXY_\w+|CONFIG_GLOBAL|CONFIG_SYSTEM|CONFIG_NOSYSTEM)$/;
/** They change what Node itself does. */
const NODE_ONLY = /^(NODE_OPTIONS|NODE_CHANNEL_FD|NODE_TEST_CONTEXT|NODE_V8_COVERAGE)$/;

export function daemonEnv(env: Env): Record<string, string> {
  const clean: Record<string, string> = {};
  for (const [name, value] of Object.entries(env)) {
    if (value === undefined || NODE_ONLY.test(name)) continue;
    if (!name.startsWith("GIT_") || KEPT_GIT.test(name)) clean[name] = value;
  }
  return clean;
}

/** The last line of a log that says something: of JSON lines their message. */
function lastWords(file: string): string {
  let text: string;
  try {
    text = readFileSync(file, "utf8").slice(-8_192);
  } catch {
    return "";
  }
  const lines = text.split("\n").filter((line) => line.trim() !== "");
  const last = lines.at(-1) ?? "";
  try {
    const { message, error } = JSON.parse(last) as { message?: string; error?: unknown };
    return [message, typeof error === "string" ? error : undefined].filter(Boolean).join(": ");
  } catch {
    return last.slice(0, 300);
  }
}

export function pause(ms: number): Promise<void> {
  return new Promise((resolve) => setTimeout(resolve, ms));
}
