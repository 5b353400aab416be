// The environment of the process: exactly the job's, plus what the shim adds. Nothing of the shim's own
// environment gets through (W4, L6). The scheduler has chosen the variables; here only the floor is made sure of:
// a PATH, a HOME, and a UTF-8 locale (C.UTF-8 needs no locale package, and LC_ALL beats what a profile sets).

import { attemptLabel } from "../schemas/ids.ts";
import type { ShimJob } from "../schemas/job.ts";

const DEFAULT_PATH = "/usr/local/bin:/usr/bin:/bin";
const UTF8 = /utf-?8/i;

/** Name of the variable by which leftovers of one shim's process are found. */
export const MARK_NAME = "BUSBAR_MARK";

/** `mark` is random and unique for this process. */
export function processEnvironment(
  job: Pick<ShimJob, "env" | "dir" | "ref" | "task_socket">,
  mark: string,
): Record<string, string> {
  const env: Record<string, string> = { PATH: DEFAULT_PATH, HOME: job.dir, ...job.env };
  if (!UTF8.test(env.LC_ALL ?? "")) env.LC_ALL = "C.UTF-8";
  if (!UTF8.test(env.LANG ?? "")) env.LANG = "C.UTF-8";
  if (job.task_socket !== undefined) env.BUSBAR_SOCKET = job.task_socket;
  env.BUSBAR_ATTEMPT = attemptLabel(job.ref);
  env[MARK_NAME] = mark;
  return env;
}
