// Copies with everything that belongs to files (modes, times, links), on write where the file system can: by `cp`, which
// knows how.

import { execa } from "execa";
import { BusbarError } from "../schemas/errors.ts";
import { faultPoint } from "../schemas/fault-points.ts";

/**
 * A file or directory into the directory `to`, or with `from` ending in "/." its content. `follow`: of a link the file or
 * directory that it leads to, under the link's name. Rejects with IO.
 */
export async function copyInto(from: string, to: string, follow = false): Promise<void> {
  await runProgram("cp", ["-a", ...(follow ? ["-H"] : []), "--reflink=auto", "--", from, `${to}/`]);
}

/** Everything of the file system of `path` is on the disk afterwards. Rejects with IO. */
export async function syncFileSystem(path: string): Promise<void> {
  await runProgram("sync", ["-f", path]);
}

async function runProgram(name: string, args: readonly string[]): Promise<void> {
  faultPoint("scheduler.copy.before-program");
  const { exitCode, stderr, shortMessage } = await execa(name, args, { reject: false, stdin: "ignore" });
  if (exitCode !== 0)
    throw new BusbarError("IO", `${name} ${args.at(-1)}: ${stderr.slice(0, 300) || shortMessage}`);
}
