// Processes that are in a directory, or have a file below it open, as /proc tells.

import { readdirSync, readlinkSync } from "node:fs";

/** Pids; of processes that are not ours to look at nothing is known. Throws where there is no /proc. */
export function holdersOf(dir: string): number[] {
  const isBelow = (link: string) => {
    try {
      const target = readlinkSync(link);
      return target === dir || target.startsWith(`${dir}/`);
    } catch {
      return false;
    }
  };
  const holds = (pid: number) =>
    isBelow(`/proc/${pid}/cwd`) ||
    isBelow(`/proc/${pid}/root`) ||
    descriptors(pid).some((fd) => isBelow(`/proc/${pid}/fd/${fd}`));
  return readdirSync("/proc")
    .map(Number)
    .filter((pid) => pid > 1 && pid !== process.pid && holds(pid));
}

function descriptors(pid: number): string[] {
  try {
    return readdirSync(`/proc/${pid}/fd`);
  } catch {
    return [];
  }
}
