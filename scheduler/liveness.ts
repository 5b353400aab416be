// Whether a process that was written down is still the one that runs: pid and start time together. Three answers:
// what cannot be known neither kills nor frees (design section 6).

import { readdirSync, readFileSync } from "node:fs";

export type Liveness = "alive" | "dead" | "unknown";

/** What a shim writes about itself before it starts anything. */
export interface PidFile {
  pid: number;
  /** `BOOT_ID:TICKS`. */
  start_time: string;
}

/** `none`: there is no such file, so no shim has come as far as starting its process. */
export function readPidFile(path: string): PidFile | "none" | "unknown" {
  let text: string;
  try {
    text = readFileSync(path, "utf8");
  } catch (error) {
    return (error as NodeJS.ErrnoException).code === "ENOENT" ? "none" : "unknown";
  }
  try {
    const value = JSON.parse(text) as Partial<PidFile> | null;
    if (Number.isInteger(value?.pid) && value?.start_time !== undefined)
      return { pid: value.pid as number, start_time: String(value.start_time) };
  } catch {
    // a half-written file says nothing
  }
  return "unknown";
}

export function liveness(process: PidFile): Liveness {
  const stat = readStat(process.pid);
  if (stat === "none") return "dead";
  if (stat === undefined) return "unknown";
  const [boot = "", ticks = ""] = process.start_time.split(":");
  if (stat.dead || ticks !== stat.start) return "dead";
  const now = bootId();
  return now === undefined ? "unknown" : now === boot ? "alive" : "dead";
}

function bootId(): string | undefined {
  try {
    return readFileSync("/proc/sys/kernel/random/boot_id", "latin1").trim();
  } catch {
    return undefined;
  }
}

/** Start time of a process in clock ticks since boot, as /proc says it; undefined when there is none. */
export function startTime(pid: number): string | undefined {
  const stat = readStat(pid);
  return stat === undefined || stat === "none" ? undefined : stat.start;
}

function readStat(pid: number): { start: string; dead: boolean } | "none" | undefined {
  try {
    const text = readFileSync(`/proc/${pid}/stat`, "latin1");
    const fields = text.slice(text.lastIndexOf(")") + 2).split(" ");
    const start = fields[19];
    return start === undefined ? undefined : { start, dead: fields[0] === "Z" || fields[0] === "X" };
  } catch (error) {
    const code = (error as NodeJS.ErrnoException).code;
    return code === "ENOENT" || code === "ESRCH" ? "none" : undefined;
  }
}

/** Processes started with `entry` ("NAME=value") in their environment: what a killed shim left behind. */
export function findByEnvironment(entry: string): number[] {
  const found: number[] = [];
  for (const name of readdirSync("/proc")) {
    const pid = Number(name);
    if (!(pid > 1) || pid === process.pid) continue;
    try {
      const environ = readFileSync(`/proc/${pid}/environ`, "latin1");
      if (environ.split("\0").includes(entry)) found.push(pid);
    } catch {
      // gone, or not ours
    }
  }
  return found;
}
