// Starts the programs behind busctl, and knows why one of them did not come up: it says so itself, as the last
// thing in its log (bus/client/last-words.ts). Only what it wrote since this start counts.

import { type ChildProcess, spawn } from "node:child_process";
import { closeSync, existsSync, fstatSync, openSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { BusbarError, ioError } from "../../schemas/errors.ts";
import { type DaemonName, readStartFailure } from "../client/last-words.ts";
import { type Env, makePrivateDir } from "../paths.ts";

export interface Host {
  env: Env;
  uid: number;
}

export function thisHost(): Host {
  return { env: process.env, uid: process.getuid?.() ?? 0 };
}

export interface Program {
  readonly pid: number | undefined;
  running(): boolean;
  /** The signal that ended it: somebody killed it, and starting it again may help. */
  killedBy(): string | undefined;
  /** Why it did not come up, in its own words where it left some; ends nothing. */
  failed(what: string): BusbarError;
}

/** Throws DIRECTORY_UNUSABLE, UNSAFE_DIRECTORY, IO, SPAWN_FAILED. */
export function launch(name: DaemonName, words: string[], logs: string, host: Host): Program {
  makePrivateDir(logs, host.uid);
  const file = join(logs, `${name}.log`);
  const [program = "", ...args] = programWords(name);
  const fd = openLog(file);
  let child: ChildProcess;
  let from: number;
  try {
    from = fstatSync(fd).size;
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
    killedBy: () => child.signalCode ?? undefined,
    failed: (what) => whyNot(what, { file, from, trouble, child }),
  };
}

interface Launched {
  file: string;
  /** Where its own part of the log begins. */
  from: number;
  trouble: string | undefined;
  child: ChildProcess;
}

function whyNot(what: string, { file, from, trouble, child }: Launched): BusbarError {
  const said = trouble === undefined ? readStartFailure(tailOf(file, from)) : undefined;
  if (said) {
    const help =
      said.code === "INTERNAL"
        ? `This is a fault of busbar; where it happened stands in ${file}.`
        : (said.data.help ?? said.help);
    const facts = { ...said.data, log: file, help };
    return new BusbarError(said.code, `${what} did not start: ${said.message}`, facts);
  }
  const { signalCode, exitCode } = child;
  const how =
    signalCode !== null
      ? `it was ended by ${signalCode}`
      : exitCode !== null
        ? `it ended with code ${exitCode}`
        : "it gives no answer yet";
  return new BusbarError("BUS_AWAY", `${what} did not start: ${trouble ?? how}`, {
    log: file,
    help: `What it did stands in its log ${file}; \`busctl up\` tries again.`,
  });
}

function openLog(file: string): number {
  try {
    return openSync(file, "a", 0o600);
  } catch (error) {
    throw ioError("opening the log", file, error);
  }
}

/** What was written since; when the log was begun anew meanwhile, all of it. */
function tailOf(file: string, from: number): string {
  try {
    const bytes = readFileSync(file);
    return bytes.subarray(bytes.length >= from ? from : 0).toString("utf8");
  } catch {
    return "";
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
