// Runs git. The one place that starts it (with execa), so that every call has the same environment and
// flags (env.ts), a time limit and a signal that end the whole process group (TERM, then KILL), and one form of error.

import { execa } from "execa";
import { BusbarError } from "../../schemas/errors.ts";
import { GIT_GRACE_MS, GIT_TIMEOUT_MS } from "../../schemas/limits.ts";
import { FIXED_FLAGS, gitEnvironment } from "./env.ts";

export interface GitOptions {
  cwd?: string;
  /** GIT_DIR. Named explicitly wherever it is known: nothing is searched, nobody's directory answers instead. */
  gitDir?: string;
  /** GIT_WORK_TREE. */
  workTree?: string;
  /** GIT_INDEX_FILE. */
  indexFile?: string;
  /** GIT_OBJECT_DIRECTORY: where objects are read from and written to. */
  objectDir?: string;
  /** Further object directories to read from. */
  alternates?: string[];
  input?: string | Buffer;
  env?: Record<string, string>;
  timeoutMs?: number;
  /** Its abort ends the call with GIT_STOPPED. */
  signal?: AbortSignal;
  /** Exits that are answers and not errors; default [0]. */
  okExits?: number[];
  /** "buffer" leaves `stdout` empty: for output that is not text. */
  encoding?: "utf8" | "buffer";
  /** See env.ts. */
  userConfig?: boolean;
  trust?: string[];
  /** Further `-c name=value`. */
  config?: string[];
}

export interface GitResult {
  stdout: string;
  stdoutBuffer: Buffer;
  stderr: string;
  exit: number;
}

/** Output beyond this is an error: no list of ours is that long. */
const MAX_OUTPUT_BYTES = 512 * 1024 * 1024;
/** What of git's own words goes into a message. */
const STDERR_CHARS = 600;

/** The environment that comes from the options: which repository, index and objects. */
function placeEnv(options: GitOptions): Record<string, string> {
  const env: Record<string, string> = {};
  if (options.gitDir) env.GIT_DIR = options.gitDir;
  if (options.workTree) env.GIT_WORK_TREE = options.workTree;
  if (options.indexFile) env.GIT_INDEX_FILE = options.indexFile;
  if (options.objectDir) env.GIT_OBJECT_DIRECTORY = options.objectDir;
  if (options.alternates?.length)
    env.GIT_ALTERNATE_OBJECT_DIRECTORIES = options.alternates.map(quoteAlternate).join(":");
  return env;
}

/** In a ':'-list git takes a part in double quotes as C-quoted. */
function quoteAlternate(dir: string): string {
  return /[:"\\]/.test(dir) ? `"${dir.replace(/["\\]/g, "\\$&")}"` : dir;
}

/**
 * Runs `git args`. Fulfilled when the exit is one of `okExits`; else GIT_FAILED (data: args, exit, stderr) or
 * GIT_TIMEOUT or GIT_STOPPED, after which no process of the group is left. `args` never begins with a foreign string.
 */
export async function git(args: string[], options: GitOptions = {}): Promise<GitResult> {
  const { timeoutMs = GIT_TIMEOUT_MS, signal } = options;
  if (signal?.aborted) throw stopped(args, { args });
  const flags = (options.config ?? []).flatMap((setting) => ["-c", setting]);
  const child = execa("git", [...FIXED_FLAGS, ...flags, ...args], {
    ...(options.cwd === undefined ? {} : { cwd: options.cwd }),
    env: {
      ...gitEnvironment(process.env, {
        userConfig: options.userConfig ?? false,
        trust: options.trust ?? [],
      }),
      ...placeEnv(options),
      ...options.env,
    },
    extendEnv: false,
    // A session of its own: no terminal to prompt on, and one group to end.
    detached: true,
    input: options.input ?? "",
    encoding: "buffer",
    stripFinalNewline: false,
    maxBuffer: MAX_OUTPUT_BYTES,
    reject: false,
  });
  const end = new Ending(() => child.pid);
  const timer = setTimeout(() => end.because("timeout"), timeoutMs);
  const onAbort = () => end.because("stopped");
  signal?.addEventListener("abort", onAbort, { once: true });
  const result = await child.finally(() => {
    clearTimeout(timer);
    signal?.removeEventListener("abort", onAbort);
    end.done();
  });
  const stderr = Buffer.from(result.stderr).toString("utf8");
  const facts = { args, exit: result.exitCode ?? null, stderr: stderr.slice(-STDERR_CHARS) };
  if (end.reason === "timeout")
    throw new BusbarError("GIT_TIMEOUT", `git ${args[0]} did not end within ${timeoutMs} ms`, facts);
  if (end.reason === "stopped") throw stopped(args, facts);
  if (result.exitCode === undefined || !(options.okExits ?? [0]).includes(result.exitCode)) {
    signalGroup(child.pid, "SIGKILL");
    throw new BusbarError("GIT_FAILED", failure(args, result, stderr), facts);
  }
  const stdoutBuffer = Buffer.from(result.stdout.buffer, result.stdout.byteOffset, result.stdout.byteLength);
  const stdout = options.encoding === "buffer" ? "" : stdoutBuffer.toString("utf8");
  return { stdout, stdoutBuffer, stderr, exit: result.exitCode };
}

function stopped(args: readonly string[], facts: Record<string, unknown>): BusbarError {
  return new BusbarError("GIT_STOPPED", `git ${args[0]} was ended: nobody waits for it any more`, facts);
}

/** Ends the group of a git that is not to go on: the first reason counts. */
class Ending {
  reason: "timeout" | "stopped" | undefined;
  #kill: NodeJS.Timeout | undefined;

  constructor(readonly pid: () => number | undefined) {}

  because(reason: "timeout" | "stopped"): void {
    if (this.reason !== undefined) return;
    this.reason = reason;
    signalGroup(this.pid(), "SIGTERM");
    this.#kill = setTimeout(() => signalGroup(this.pid(), "SIGKILL"), GIT_GRACE_MS);
  }

  /** The program itself has ended; others of its group may not have. */
  done(): void {
    clearTimeout(this.#kill);
    if (this.reason !== undefined) signalGroup(this.pid(), "SIGKILL");
  }
}

function failure(
  args: string[],
  result: { exitCode?: number | undefined; signal?: string | undefined; shortMessage?: string },
  stderr: string,
): string {
  const words = stderr.trim().slice(-STDERR_CHARS);
  const how =
    result.exitCode !== undefined
      ? `exit ${result.exitCode}`
      : result.signal
        ? `ended by ${result.signal}`
        : (result.shortMessage ?? "not started");
  return `git ${args.slice(0, 2).join(" ")}: ${how}${words ? `: ${words}` : ""}`;
}

function signalGroup(pid: number | undefined, signal: NodeJS.Signals): void {
  if (pid === undefined) return;
  try {
    process.kill(-pid, signal);
  } catch {
    // ESRCH: nobody is left, which is what was wanted.
  }
}

/** One line of output without its end. */
export async function gitLine(args: string[], options: GitOptions = {}): Promise<string> {
  return (await git(args, options)).stdout.replace(/\n$/, "");
}
