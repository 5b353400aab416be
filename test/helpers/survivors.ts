// Fails a test that leaves a process behind. Looks for an entry of the environment, which children inherit.

import { readdirSync, readFileSync } from "node:fs";
import { until } from "./wait.ts";

export interface Survivor {
  pid: number;
  command: string;
}

/** Live processes (zombies count as dead) that carry `entry`, "NAME=value", in their environment. */
export function carriers(entry: string): Survivor[] {
  const found: Survivor[] = [];
  for (const name of readdirSync("/proc")) {
    const pid = Number(name);
    if (!(pid > 0) || pid === process.pid) continue;
    try {
      if (!readFileSync(`/proc/${pid}/environ`, "latin1").split("\0").includes(entry)) continue;
      if (!isRunning(pid)) continue;
      const command = readFileSync(`/proc/${pid}/cmdline`, "latin1").split("\0").join(" ").trim();
      found.push({ pid, command });
    } catch {
      // gone, or not ours to look at
    }
  }
  return found;
}

/** False for a pid that is gone or a zombie. */
export function isRunning(pid: number): boolean {
  try {
    const stat = readFileSync(`/proc/${pid}/stat`, "latin1");
    return !/^[ZX]/.test(stat.slice(stat.lastIndexOf(")") + 2));
  } catch {
    return false;
  }
}

/** Rejects when a carrier is still alive after `ms`; ends what is left, so that the next test starts clean. */
export async function noSurvivors(entry: string, ms = 15_000): Promise<void> {
  let left: Survivor[] = [];
  try {
    await until(
      "no survivors",
      () => {
        left = carriers(entry);
        return left.length === 0;
      },
      ms,
    );
  } catch {
    for (const { pid } of left) {
      try {
        process.kill(pid, "SIGKILL");
      } catch {
        // gone meanwhile
      }
    }
    throw new Error(`left alive: ${left.map((s) => `${s.pid} ${s.command}`).join("; ")}`);
  }
}
