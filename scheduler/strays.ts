// Ends what a shim left behind that was itself killed: everything that carries the directory of the attempt or check
// in its environment. TERM, a grace time, then KILL, until nobody is found (case 71 restart-mid-run: never two agents
// of one task at the same time).

import { setTimeout as delay } from "node:timers/promises";
import { findByEnvironment } from "./liveness.ts";

const LOOK_EVERY_MS = 50;
/** After KILL only the kernel is in the way; more time would not help. */
const GIVE_UP_MS = 5_000;

/** The variable that every process of an attempt or check has; its value is used once. */
export const DIR_VARIABLE = "BUSBAR_DIR";

export interface Strays {
  /** Those that lived when it began. */
  found: number[];
  /** Those that could not be ended; empty unless something is wrong. */
  survivors: number[];
}

export async function endStrays(dir: string, graceMs: number): Promise<Strays> {
  const entry = `${DIR_VARIABLE}=${dir}`;
  const started = performance.now();
  const found = findByEnvironment(entry);
  let left = found;
  signalAll(left, "SIGTERM");
  while (left.length > 0 && performance.now() - started < graceMs + GIVE_UP_MS) {
    await delay(LOOK_EVERY_MS);
    left = findByEnvironment(entry);
    if (performance.now() - started >= graceMs) signalAll(left, "SIGKILL");
  }
  return { found, survivors: left };
}

function signalAll(pids: readonly number[], signal: NodeJS.Signals): void {
  for (const pid of pids) {
    try {
      process.kill(pid, signal);
    } catch {
      // ESRCH: it has ended by itself
    }
  }
}
