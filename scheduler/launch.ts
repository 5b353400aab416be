// Starts a shim: a program of its own, in a session of its own, that outlives the scheduler (design section 6).
//
// 1. The job goes to its standard input as one JSON line; then the input is closed. No secret is in argv or environment.
// 2. Its own words (only when something is wrong with it) go to the file `shim.err` in the job's directory.
// 3. It is unref'ed and never ended by the end of the scheduler.
//
// On a build host systemd starts it instead, through a socket, in a unit of its own (shim-units.ts).

import { closeSync, existsSync, openSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { execa } from "execa";
import { BusbarError, ioError } from "../schemas/errors.ts";
import { faultPoint } from "../schemas/fault-points.ts";
import type { ShimJob } from "../schemas/job.ts";
import type { HostEnv } from "./environment.ts";
import { shimEnvironment } from "./environment.ts";
import { startUnit } from "./shim-units.ts";
import { SHIM_VARIABLE } from "./strays.ts";

/** How the shim's program is started: node and its arguments. */
export interface ShimProgram {
  node: string;
  args: readonly string[];
  /** The socket through which systemd starts it instead. */
  socket?: string | undefined;
}

export interface LaunchedShim {
  pid: number;
  /** Its number stays its own until we have seen its end. */
  ours: boolean;
  /** Fulfilled when the shim's process has ended, with how and with its own words; never rejects. */
  ended: Promise<{ how: string; words: string }>;
}

/** Beside the compiled scheduler lies the bundled shim; in development the source is run with tsx. */
export function shimProgram(here: string = import.meta.url, node: string = process.execPath): ShimProgram {
  const bundled = fileURLToPath(new URL("../shim/bus-shim.cjs", here));
  if (existsSync(bundled)) return { node, args: [bundled] };
  const source = fileURLToPath(new URL("../shim/bus-shim.ts", here));
  return { node, args: ["--import", import.meta.resolve("tsx"), source] };
}

const ERR_FILE = "shim.err";
const MAX_WORDS_BYTES = 2_000;

/** Throws SPAWN_FAILED or IO; then nothing runs. */
export async function launchShim(program: ShimProgram, job: ShimJob, host: HostEnv): Promise<LaunchedShim> {
  const errPath = join(job.dir, ERR_FILE);
  if (program.socket !== undefined) {
    const { pid, ended } = await startUnit(program.socket, job);
    return { pid, ours: false, ended: ended.then(() => ({ how: "in its unit", words: readWords(errPath) })) };
  }
  let err: number;
  try {
    faultPoint("scheduler.launch.before-open-words");
    err = openSync(errPath, "a", 0o600);
  } catch (error) {
    throw ioError("opening", errPath, error);
  }
  try {
    faultPoint("scheduler.launch.before-start");
    const child = execa(program.node, [...program.args], {
      cwd: job.dir,
      env: { ...shimEnvironment(host), [SHIM_VARIABLE]: job.dir },
      extendEnv: false,
      detached: true,
      cleanup: false,
      reject: false,
      buffer: false,
      input: `${JSON.stringify(job)}\n`,
      stdout: "ignore",
      // The types name 0 to 2 only; any open descriptor of ours is passed on as it is.
      stderr: err as 2,
    });
    child.unref();
    const ended = child.then(({ exitCode }) => ({
      how: `exit ${exitCode ?? "by signal"}`,
      words: readWords(errPath),
    }));
    if (child.pid === undefined) {
      const { words } = await ended;
      throw new BusbarError(
        "SPAWN_FAILED",
        `starting the shim ${program.args.at(-1)}: ${words || "no process"}`,
      );
    }
    return { pid: child.pid, ours: true, ended };
  } finally {
    closeSync(err);
  }
}

function readWords(path: string): string {
  try {
    return readFileSync(path, "utf8").slice(-MAX_WORDS_BYTES).trim();
  } catch {
    return "";
  }
}
