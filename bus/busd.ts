#!/usr/bin/env node
// busd: the program of the bus. `busd --repo COMMON_DIR [--idle-exit-ms N] [--foreground]`
//
// Says `ready <socket>` on stdout once it serves, and nothing more there: whoever started it may go. What happens
// afterwards stands in <state>/logs/busd.log, one JSON line each; with --foreground on stderr too.
// Exit: 0 after a graceful end, 1 could not start, 2 bad words, 3 another bus runs, 4 the holder of the lock
// does not answer, 70 a fault of busbar.

import { randomBytes } from "node:crypto";
import { appendFileSync, readFileSync, renameSync, statSync } from "node:fs";
import { homedir } from "node:os";
import { join } from "node:path";
import { parseArgs } from "node:util";
import { BusbarError, type ErrorCode } from "../schemas/errors.ts";
import { jsonLog, type Log, systemClock } from "../schemas/ports.ts";
import { armFaults, FAULT_VARIABLE } from "./client/fault.ts";
import { startFailure } from "./client/last-words.ts";
import { tellReady } from "./client/service.ts";
import { loadConfig } from "./config.ts";
import { startDaemon } from "./daemon.ts";
import { clearScratch } from "./git/scratch.ts";
import { attemptRefs, gitAnchor } from "./git-anchor.ts";
import { gitRefs } from "./git-refs.ts";
import { makeMethods } from "./methods/index.ts";
import { busPaths, makePrivateDir } from "./paths.ts";
import { repair } from "./repair.ts";
import { Store } from "./state/store.ts";
import { attemptToken, nonceIn } from "./tokens.ts";
import { VERSION } from "./version.ts";

/** The log is begun anew beyond this; the one before is kept beside it. */
const MAX_LOG_BYTES = 16 * 1024 * 1024;
const EXITS: Partial<Record<ErrorCode, number>> = { USAGE: 2, ALREADY_RUNNING: 3, BUS_NOT_ANSWERING: 4 };
const EXIT_FAULT = 70;
const USAGE = `busd: the bus of one repository; \`busctl up\` starts it, with the scheduler

  busd --repo COMMON_DIR [--idle-exit-ms N] [--foreground]

  --repo COMMON_DIR   the repository's common git directory (git rev-parse --git-common-dir)
  --idle-exit-ms N    end by itself after N ms without work and clients
  --foreground        write the log to stderr too
  --repair look|cut   for \`busctl repair\`: say what is damaged, or take it out; starts no bus
`;

/** Kept free of clients: segments, checkpoints, pipes to git. */
const OWN_DESCRIPTORS = 64;
const MIN_CLIENTS = 16;

interface Words {
  repo: string;
  idleExitMs?: number;
  foreground: boolean;
  repair?: "look" | "cut";
}

function readWords(argv: string[]): Words {
  const usage = (text: string) =>
    new BusbarError("USAGE", `${text} (busd --repo COMMON_DIR [--idle-exit-ms N])`);
  let values: { repo?: string; "idle-exit-ms"?: string; foreground?: boolean; repair?: string };
  try {
    values = parseArgs({
      args: argv,
      options: {
        repo: { type: "string" },
        "idle-exit-ms": { type: "string" },
        foreground: { type: "boolean" },
        repair: { type: "string" },
      },
    }).values;
  } catch (error) {
    throw usage((error as Error).message);
  }
  if (!values.repo) throw usage("--repo is missing");
  const idle = values["idle-exit-ms"];
  if (idle !== undefined && !/^\d{1,12}$/.test(idle)) throw usage("--idle-exit-ms must be a number");
  const { repair: deed } = values;
  if (deed !== undefined && deed !== "look" && deed !== "cut") throw usage("--repair is look or cut");
  return {
    repo: values.repo,
    foreground: values.foreground ?? false,
    ...(deed && { repair: deed }),
    ...(idle === undefined ? {} : { idleExitMs: Number(idle) }),
  };
}

function openLog(dir: string, foreground: boolean): Log {
  const file = join(dir, "busd.log");
  if ((statSync(file, { throwIfNoEntry: false })?.size ?? 0) > MAX_LOG_BYTES) renameSync(file, `${file}.1`);
  return jsonLog((line) => {
    try {
      appendFileSync(file, line, { mode: 0o600 });
    } catch {
      // A full disk must not end the bus; it is said by `degraded` too.
    }
    if (foreground) process.stderr.write(line);
  });
}

/** What the limit of this process leaves for clients; undefined where it cannot be known. */
function clientsAtOnce(): number | undefined {
  let limits: string;
  try {
    limits = readFileSync("/proc/self/limits", "utf8");
  } catch {
    return undefined;
  }
  const soft = Number(/^Max open files\s+(\d+)/m.exec(limits)?.[1]);
  return Number.isFinite(soft) ? Math.max(MIN_CLIENTS, soft - OWN_DESCRIPTORS) : undefined;
}

async function main(argv: string[]): Promise<void> {
  if (argv.includes("--help") || argv.includes("-h")) {
    process.stdout.write(USAGE);
    return;
  }
  armFaults(process.env[FAULT_VARIABLE]);
  const words = readWords(argv);
  process.umask(0o077);
  const uid = process.getuid?.() ?? 0;
  const paths = busPaths(words.repo, process.env, uid);
  if (words.repair) {
    process.stdout.write(`${JSON.stringify(await repair(paths, uid, words.repair))}\n`);
    return;
  }
  const config = loadConfig({
    env: process.env,
    home: process.env.HOME ?? homedir(),
    readFile: (path) => readFileSync(path, "utf8"),
  });
  const logs = join(paths.state, "logs");
  makePrivateDir(paths.state, uid);
  makePrivateDir(logs, uid);
  const log = openLog(logs, words.foreground);
  onFault(log);
  const daemon = await startDaemon({
    paths,
    uid,
    version: VERSION,
    clock: systemClock,
    log,
    life: randomBytes(4).toString("hex"),
    idleExitMs: words.idleExitMs ?? config.idle_exit_ms,
    maxConnections: clientsAtOnce(),
    openStore: (dir) => {
      clearScratch(paths.state);
      return Store.open({
        dir,
        clock: systemClock,
        log,
        anchor: gitAnchor(paths.common, paths.state),
        attemptRefs: () => attemptRefs(paths.common),
        repository: gitRefs(paths),
        keep: config.audit,
      });
    },
    methods: (store) =>
      makeMethods({
        store,
        clock: systemClock,
        log,
        random: Math.random,
        config,
        stateDir: paths.state,
        runtimeDir: paths.runtime,
        tokenFor: (role, ref) => attemptToken(store.key, role, ref, nonceIn(store.view)(ref)),
      }),
  });
  for (const signal of ["SIGTERM", "SIGINT", "SIGHUP"] as const)
    process.on(signal, () => void daemon.obey(signal));
  process.stdout.write(`ready ${daemon.socket}\n`);
  tellReady();
  log.info("ended", { why: await daemon.ended });
}

/** A fault ends the process: the state on disk is whole, and a new bus starts from it. */
function onFault(log: Log): void {
  const end = (kind: string) => (error: unknown) => {
    log.error(kind, { detail: error instanceof Error ? (error.stack ?? error.message) : String(error) });
    process.exit(EXIT_FAULT);
  };
  process.on("uncaughtException", end("uncaught exception"));
  process.on("unhandledRejection", end("unhandled rejection"));
}

// Whoever started us may have gone: a closed pipe is not our trouble.
process.stdout.on("error", () => {});
process.stderr.on("error", () => {});

main(process.argv.slice(2)).then(
  () => process.exit(0),
  (error: unknown) => {
    const exit = error instanceof BusbarError ? (EXITS[error.code] ?? 1) : EXIT_FAULT;
    process.stderr.write(startFailure("busd", error), () => process.exit(exit));
  },
);
