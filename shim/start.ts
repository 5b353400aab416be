// Starts the process of a job: its output goes into a FIFO that the shim holds the reading end of.
//
// 1. mkfifo (0600) in the attempt's directory; reading end first and non-blocking, then the writing end.
// 2. unlink: from here on it can be reached through the process's own descriptors only. /dev/stdout and
//    /dev/stderr are such ways, so `echo x > /dev/stderr` works, which a socket would refuse.
// 3. Start with stdin from /dev/null and the writing end as stdout and stderr, in a session of its own.
// 4. Close our writing end: the end of the output is then the moment when the last holder let go. Nobody waits
//    for that moment without a bound: a grandchild may hold it for ever.
//
// A full FIFO makes the writer wait; nothing is lost, nothing grows, no SIGPIPE while the shim lives.

import { type ChildProcess, spawn, spawnSync } from "node:child_process";
import { accessSync, closeSync, constants, existsSync, openSync, statSync, unlinkSync } from "node:fs";
import { Socket } from "node:net";
import { isAbsolute, join, resolve } from "node:path";
import { BusbarError, ioError } from "../schemas/errors.ts";
import { faultPoint } from "../schemas/fault-points.ts";

const READ_BYTES = 64 * 1024;
/** Of coreutils; looked for in the system's own directories only. */
const MKFIFO = "mkfifo";

/** The bytes that come out of the FIFO; `chunk` is valid only during the call. */
export interface Output {
  socket: Socket;
  /** Fulfilled when all holders of the writing end are gone, or after `socket.destroy()`. */
  ended: Promise<void>;
}

interface Fifo {
  readFd: number;
  writeFd: number;
}

function makeFifo(dir: string): Fifo {
  const path = join(dir, `.output-${process.pid}`);
  faultPoint("shim.start.before-make-fifo");
  const made = spawnSync(MKFIFO, ["-m", "600", path], {
    env: { PATH: "/usr/bin:/bin" },
    stdio: ["ignore", "ignore", "pipe"],
  });
  if (made.status !== 0)
    throw new BusbarError(
      "IO",
      `making the FIFO ${path}: ${made.error?.message ?? String(made.stderr).trim()}`,
    );
  try {
    const readFd = openSync(path, constants.O_RDONLY | constants.O_NONBLOCK);
    faultPoint("shim.start.before-open-fifo");
    const writeFd = openSync(path, constants.O_WRONLY);
    return { readFd, writeFd };
  } catch (error) {
    throw ioError("opening the FIFO", path, error);
  } finally {
    faultPoint("shim.start.before-remove-fifo");
    unlinkSync(path);
  }
}

function readFifo(fd: number, onChunk: (chunk: Buffer) => void): Output {
  const buffer = Buffer.allocUnsafe(READ_BYTES);
  const onread = {
    buffer,
    callback: (bytes: number) => {
      onChunk(buffer.subarray(0, bytes));
      return true;
    },
  };
  // `onread` with `fd` is what net.connect takes, too; the types know it only there.
  const socket = new Socket({ fd, readable: true, writable: false, onread } as ConstructorParameters<
    typeof Socket
  >[0]);
  const ended = new Promise<void>((done) => {
    socket.once("end", done);
    socket.once("error", () => done());
    socket.once("close", () => done());
  });
  return { socket, ended };
}

export interface Started {
  child: ChildProcess;
  pid: number;
  output: Output;
}

/** Starts it. Throws SPAWN_FAILED (nothing runs then) with the reason in one sentence. */
export function startProcess(
  /** `statusFd`: passed on as STATUS_FD. */
  plan: {
    argv: string[];
    cwd: string;
    dir: string;
    env: Record<string, string>;
    statusFd?: number | undefined;
  },
  onChunk: (chunk: Buffer) => void,
  onExit: (code: number | null, signal: NodeJS.Signals | null) => void,
): Started {
  const fifo = makeFifo(plan.dir);
  const [file, ...args] = plan.argv as [string, ...string[]];
  let child: ChildProcess;
  try {
    faultPoint("shim.start.before-spawn");
    child = spawn(file, args, {
      cwd: plan.cwd,
      env: plan.env,
      detached: true,
      stdio: ["ignore", fifo.writeFd, fifo.writeFd, ...(plan.statusFd === undefined ? [] : [plan.statusFd])],
    });
  } catch (error) {
    closeSync(fifo.readFd);
    throw new BusbarError("SPAWN_FAILED", `starting ${file}: ${(error as Error).message}`);
  } finally {
    closeSync(fifo.writeFd);
  }
  child.once("exit", onExit);
  child.once("error", () => {}); // told by the missing pid below
  if (child.pid === undefined) {
    closeSync(fifo.readFd);
    throw new BusbarError("SPAWN_FAILED", `starting ${file} in ${plan.cwd}: the system refused it`);
  }
  return { child, pid: child.pid, output: readFifo(fifo.readFd, onChunk) };
}

/** Why the program or its directory cannot be started, asked before anything is; undefined when it can. */
export function startFault(argv: readonly string[], cwd: string, path: string): string | undefined {
  const name = argv[0];
  if (!name) return "the command is empty";
  if (!isDirectory(cwd)) return `the working directory ${cwd} does not exist`;
  const tries = name.includes("/")
    ? [isAbsolute(name) ? name : resolve(cwd, name)]
    : path.split(":").map((dir) => resolve(cwd, dir, name));
  if (tries.some(isProgram)) return undefined;
  return tries.some((file) => existsSync(file))
    ? `the program ${name} is not executable`
    : `there is no program ${name}${name.includes("/") ? "" : ` on PATH (${path})`}`;
}

function isProgram(file: string): boolean {
  try {
    accessSync(file, constants.X_OK);
    return statSync(file).isFile();
  } catch {
    return false;
  }
}

function isDirectory(path: string): boolean {
  try {
    return statSync(path).isDirectory();
  } catch {
    return false;
  }
}
