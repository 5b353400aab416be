// Processes that a check left behind: in its place, with a file of the place open, or with its mark in the environment.
// Only processes that came after the check was let in are looked at: a machine has thousands of others.

import { readdirSync, readFileSync, readlinkSync } from "node:fs";
import { DIR_VARIABLE } from "./strays.ts";

/** Pids that there are now. Throws where there is no /proc. */
export function processList(): Set<number> {
  return new Set(
    readdirSync("/proc")
      .map(Number)
      .filter((pid) => pid > 1),
  );
}

/** Of the processes that are not in `before`. `dir`: the place as it is named now; `mark`: as it was for the check. */
export function holdersOf(dir: string, mark: string, before: ReadonlySet<number>): number[] {
  return [...processList()].filter((pid) => !before.has(pid) && pid !== process.pid && holds(pid, dir, mark));
}

function holds(pid: number, dir: string, mark: string): boolean {
  const isBelow = (link: string) => {
    const target = quietly(() => readlinkSync(`/proc/${pid}/${link}`)) ?? "";
    return target === dir || target.startsWith(`${dir}/`);
  };
  const environment = quietly(() => readFileSync(`/proc/${pid}/environ`, "latin1")) ?? "";
  if (environment.split("\0").includes(`${DIR_VARIABLE}=${mark}`)) return true;
  if (isBelow("cwd") || isBelow("root")) return true;
  const descriptors = quietly(() => readdirSync(`/proc/${pid}/fd`)) ?? [];
  return descriptors.some((fd) => isBelow(`fd/${fd}`));
}

/** Undefined: gone meanwhile, or not ours to look at. */
function quietly<T>(read: () => T): T | undefined {
  try {
    return read();
  } catch {
    return undefined;
  }
}
