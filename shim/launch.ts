// How a job becomes one chain of exec calls. Pure; the neighbour (start.ts) does it. No process of ours stays between the
// shim and the agent:
//
//   /bin/sh -c 'echo 0 > GROUP/cgroup.procs; ulimit ...; exec "$@"' busbar [prlimit --nproc=N:N --] [bwrap ... --] AGENT ARGS...
//
// The doors of the groups are group.ts's, the limits are planned by the scheduler (scheduler/limit-plan.ts). The sandbox
// comes last: what is inside could neither enter a group nor has prlimit to rely on.

import type { ShimJob } from "../schemas/job.ts";

/** Where bwrap tells what it does (sandbox.ts); inside it is closed. */
export const STATUS_FD = 3;
/** Of a process that was not let into its group: it must not run outside. As env(1) says "I failed, not the program". */
export const EXIT_OUTSIDE = 125;

/** `doors`: files by which it enters its control groups. */
export function launchArgv(
  job: Pick<ShimJob, "argv" | "launch" | "sandbox">,
  doors: readonly string[] = [],
): string[] {
  const { steps, wrap } = job.launch;
  const enter = doors.map((door) => `echo 0 > ${quoted(door)} || exit ${EXIT_OUTSIDE}; `).join("");
  const prelude = `${enter}${steps.map((step) => `${step} 2>/dev/null; `).join("")}exec "$@"`;
  return ["/bin/sh", "-c", prelude, "busbar", ...wrap, ...sandboxWrap(job), ...job.argv];
}

function sandboxWrap({ sandbox }: Pick<ShimJob, "sandbox">): string[] {
  if (sandbox === undefined) return [];
  const [program, ...options] = sandbox.argv as [string, ...string[]];
  return [program, "--json-status-fd", String(STATUS_FD), ...options, "--"];
}

function quoted(path: string): string {
  return `'${path.replaceAll("'", "'\\''")}'`;
}
