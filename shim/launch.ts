// How a job becomes one chain of exec calls. Pure: job and facts of the host in, argument list out; the
// neighbour (start.ts) does it. No process of ours stays between the shim and the agent:
//
//   /bin/sh -c 'echo 0 > GROUP/cgroup.procs; ulimit ...; exec "$@"' busbar [prlimit --nproc=N:N --] [bwrap ... --] AGENT ARGS...
//
// Facts that the order and the forms rest on:
// - The sandbox comes last: what is inside could neither enter a group nor has prlimit to rely on.
// - Node lifts its soft limit of open files to the hard one at start, so soft and hard are set alike.
// - dash has no `ulimit -u`; prlimit sets it. Root is never held by nproc, and Node hangs for ever below about 8,
//   so it is not set for root, and not below MIN_NPROC.
// - `ulimit -f` and `-c` of a POSIX shell count blocks of 512 bytes.

import type { ShimJob } from "../schemas/job.ts";

/** What the plan must know about the machine. */
export interface LaunchHost {
  uid: number;
  /** Hard limit of open files of the shim itself; only root may go beyond. */
  hardNofile: number;
  /** Path of prlimit(1), where there is one. */
  prlimit: string | undefined;
}

export interface LaunchPlan {
  argv: string[];
  /** Limits that were asked for and cannot be set here, each with the reason. */
  missing: string[];
}

export const MIN_NPROC = 32;
const BLOCK_BYTES = 512;
/** Where bwrap tells what it does (sandbox.ts); inside it is closed. */
export const STATUS_FD = 3;
/** Of a process that was not let into its group: it must not run outside. As env(1) says "I failed, not the program". */
export const EXIT_OUTSIDE = 125;
/** SIGXCPU at the limit says why; SIGKILL follows this much later for those who ignore it. */
const CPU_HARD_AFTER_S = 5;

/** `doors`: files by which it enters its control groups (group.ts). */
export function planLaunch(
  job: Pick<ShimJob, "argv" | "limits" | "sandbox">,
  host: LaunchHost,
  doors: readonly string[] = [],
): LaunchPlan {
  const missing: string[] = [];
  const enter = doors.map((door) => `echo 0 > ${quoted(door)} || exit ${EXIT_OUTSIDE}; `).join("");
  const steps = preludeSteps(job.limits, host, missing);
  const wrap = nprocWrap(job.limits.nproc, host, missing);
  const prelude = `${enter}${steps.map((step) => `${step} 2>/dev/null; `).join("")}exec "$@"`;
  return { argv: ["/bin/sh", "-c", prelude, "busbar", ...wrap, ...sandboxWrap(job), ...job.argv], missing };
}

function sandboxWrap({ sandbox }: Pick<ShimJob, "sandbox">): string[] {
  if (sandbox === undefined) return [];
  const [program, ...options] = sandbox.argv as [string, ...string[]];
  return [program, "--json-status-fd", String(STATUS_FD), ...options, "--"];
}

function quoted(path: string): string {
  return `'${path.replaceAll("'", "'\\''")}'`;
}

function preludeSteps(limits: ShimJob["limits"], host: LaunchHost, missing: string[]): string[] {
  const steps = [`ulimit -c ${Math.floor(limits.core / BLOCK_BYTES)}`];
  if (limits.nofile !== undefined) steps.push(`ulimit -n ${nofile(limits.nofile, host, missing)}`);
  if (limits.cpu_s !== undefined)
    steps.push(`ulimit -S -t ${limits.cpu_s}`, `ulimit -H -t ${limits.cpu_s + CPU_HARD_AFTER_S}`);
  if (limits.fsize !== undefined) steps.push(`ulimit -f ${Math.ceil(limits.fsize / BLOCK_BYTES)}`);
  return steps;
}

function nofile(asked: number, host: LaunchHost, missing: string[]): number {
  if (host.uid === 0 || asked <= host.hardNofile) return asked;
  missing.push(`nofile: ${asked} asked, the hard limit here is ${host.hardNofile}`);
  return host.hardNofile;
}

function nprocWrap(asked: number | undefined, host: LaunchHost, missing: string[]): string[] {
  if (asked === undefined) return [];
  const why =
    host.uid === 0
      ? "root is not held by it"
      : asked < MIN_NPROC
        ? `below ${MIN_NPROC} programs hang at start`
        : host.prlimit === undefined
          ? "prlimit is not installed"
          : undefined;
  if (why === undefined) return [host.prlimit as string, `--nproc=${asked}:${asked}`, "--"];
  missing.push(`nproc: ${asked} asked, ${why}`);
  return [];
}
