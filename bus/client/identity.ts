// Which process is it? A pid alone says nothing: pids are used again. Start time and boot id tell
// (case 62 stale-socket). Only /proc is asked; without it a process has no identity and is never judged.

import { readFileSync } from "node:fs";

export interface ProcessIdentity {
  pid: number;
  /** Field 22 of /proc/PID/stat: clock ticks since boot; "" where it cannot be read. */
  start_time: string;
  boot_id: string;
}

/** Start time of a process, or "" when there is none or it is a zombie. */
export function startTimeOf(pid: number): string {
  const fields = statOf(pid);
  return fields[0] === "Z" || fields[0] === "X" ? "" : (fields[19] ?? "");
}

/** Whether it was stopped (SIGSTOP, a debugger): it lives, and answers nobody until it is continued. */
export function isStopped(pid: number): boolean {
  return /^[Tt]$/.test(statOf(pid)[0] ?? "");
}

/** The fields of /proc/PID/stat from the state on; none when there is no such process. */
function statOf(pid: number): string[] {
  try {
    const stat = readFileSync(`/proc/${pid}/stat`, "latin1");
    // The command in brackets may hold anything, brackets too: fields are counted from the last one.
    return stat.slice(stat.lastIndexOf(")") + 2).split(" ");
  } catch {
    return [];
  }
}

export function bootId(): string {
  try {
    return readFileSync("/proc/sys/kernel/random/boot_id", "latin1").trim();
  } catch {
    return "";
  }
}

export function ownIdentity(pid = process.pid): ProcessIdentity {
  return { pid, start_time: startTimeOf(pid), boot_id: bootId() };
}

/** Whether exactly this process still runs. False also when nothing can be known. */
export function isSameProcess(known: ProcessIdentity): boolean {
  if (known.start_time === "" || known.boot_id !== bootId()) return false;
  return startTimeOf(known.pid) === known.start_time;
}
