// Starting and ending the two programs behind busctl: the bus and the scheduler of one repository.
//
// Start (ensureUp), all within START_TIMEOUT_MS:
// 1. A bus that answers is used. One that holds the lock and does not answer is left alone:
//    BUS_NOT_ANSWERING, never a second one (case 63).
// 2. None: start busd, once, in a session of its own, and ask until it answers. Whoever loses the race for
//    the lock ends by itself; the winner's answer is success for everybody.
// 3. No worker registered: start the scheduler, once, and ask until there is one.
// 4. In vain: the error holds the end of the log and where the log is.
//
// End (bringDown): ask for shutdown, then look until both processes are gone, by pid and start time.

import { type ChildProcess, spawn } from "node:child_process";
import { closeSync, existsSync, openSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { BusbarError, ioError, isCode } from "../../schemas/errors.ts";
import type { Ping } from "../../schemas/methods.ts";
import { findBus } from "../client/find.ts";
import { startTimeOf } from "../client/identity.ts";
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

/** Throws BUS_NOT_ANSWERING, BUS_AWAY (did not start), and what busPaths throws. */
export async function ensureUp(commonDir: string, host = thisHost(), idleExitMs?: number): Promise<Up> {
  const end = performance.now() + START_TIMEOUT_MS;
  const logs = join(busPaths(commonDir, host.env, host.uid).state, "logs");
  const idle = idleExitMs === undefined ? [] : ["--idle-exit-ms", String(idleExitMs)];
  const start = (name: "busd" | "scheduler") => {
    const words = ["--repo", commonDir, ...(name === "busd" ? idle : [])];
    return launch(name, words, logs, host);
  };
  const bus = await busAnswers(commonDir, end, () => start("busd"));
  const started: Up["started"] = bus.started ? ["bus"] : [];
  if (bus.ping.worker !== null) return { ...bus, started };
  const { ping: withWorker, started: ours } = await workerThere(commonDir, end, () => start("scheduler"));
  if (ours) started.push("scheduler");
  return { ping: withWorker, endpoint: bus.endpoint, started };
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

async function workerThere(commonDir: string, end: number, start: () => Program) {
  const program = start();
  const bus = await openBus(commonDir);
  try {
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

/** Compiled where we are compiled; by tsx where we run from source. */
export function programWords(name: "busd" | "scheduler"): string[] {
  const source = import.meta.url.endsWith(".ts");
  const relative = name === "busd" ? "../busd" : "../../scheduler/main";
  const path = fileURLToPath(new URL(`${relative}${source ? ".ts" : ".js"}`, import.meta.url));
  if (!existsSync(path)) {
    throw new BusbarError("SPAWN_FAILED", `${path} is not there`, { help: "Build busbar: `npm run build`." });
  }
  return source ? [process.execPath, "--import", import.meta.resolve("tsx"), path] : [process.execPath, path];
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

export interface Survivor {
  name: "bus" | "scheduler";
  pid: number;
}

/** Cancelled agents get their grace and are then killed; that is waited for. */
const DOWN_TIMEOUT_MS = 45_000;

/** Fulfilled with those that still live at the end; empty = both are gone. Throws BUS_AWAY when none runs. */
export async function bringDown(commonDir: string, leaveRunning: boolean): Promise<Survivor[]> {
  const bus = await openBus(commonDir);
  const { endpoint } = await findBus(commonDir);
  const watched: (Survivor & { start: string })[] = [];
  try {
    if (endpoint) watched.push({ name: "bus", pid: endpoint.pid, start: endpoint.start_time });
    const worker = await workerProcess(bus);
    if (worker) watched.push({ name: "scheduler", ...worker });
    await bus.call("shutdown", { leave_running: leaveRunning }).catch((error: unknown) => {
      // The answer may be overtaken by the end itself.
      if (!isCode(error, "BUS_AWAY", "SHUTTING_DOWN")) throw error;
    });
  } finally {
    bus.close();
  }
  const end = performance.now() + DOWN_TIMEOUT_MS;
  for (;;) {
    const left = watched.filter((one) => startTimeOf(one.pid) === one.start);
    if (left.length === 0 || performance.now() > end) return left.map(({ name, pid }) => ({ name, pid }));
    await pause(LOOK_AGAIN_MS);
  }
}

/** The registered scheduler, by the newest record of its registration. */
async function workerProcess(bus: Bus): Promise<{ pid: number; start: string } | undefined> {
  if ((await ping(bus, 5_000)).worker === null) return undefined;
  const { records } = await bus.call("query_audit", {
    method: "register_worker",
    kind: "event",
    newest: true,
    limit: 1,
  });
  const event = records[0]?.event;
  if (event?.type !== "worker.registered") return undefined;
  const start = startTimeOf(event.pid);
  return start === "" ? undefined : { pid: event.pid, start };
}

export function pause(ms: number): Promise<void> {
  return new Promise((resolve) => setTimeout(resolve, ms));
}
