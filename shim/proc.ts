// What /proc says about processes. Every read may fail at any moment: a process that is gone is `undefined`,
// never an error. States Z and X are dead: nobody may have reaped them yet, but nothing runs there any more.

import { readdirSync, readFileSync, readlinkSync } from "node:fs";

/** One process. `start` (clock ticks since boot) together with `pid` is its identity until the next boot. */
export interface Proc {
  pid: number;
  ppid: number;
  pgrp: number;
  sid: number;
  start: number;
  /** Z or X. */
  dead: boolean;
  /** Its own CPU time and that of the children it has waited for, in ms. */
  cpuMs: number;
  /** CPU time of the children it has waited for, and of theirs. */
  childCpuMs: number;
  /** Resident memory in pages. */
  rssPages: number;
}

/** How a process ended. */
export interface Exit {
  code: number | null;
  signal: string | null;
}

/** Clock ticks are 100 a second on every Linux that Node runs on. */
const MS_PER_TICK = 10;
const MAX_COMMAND_CHARS = 200;

/** The process, or undefined when there is none (or it may not be looked at). */
export function readProc(pid: number): Proc | undefined {
  const text = read(`/proc/${pid}/stat`);
  return text === undefined ? undefined : parseStat(pid, text.toString("latin1"));
}

/** A line of /proc/PID/stat; the command in it may hold spaces and brackets, so it counts from the last ")". */
export function parseStat(pid: number, text: string): Proc | undefined {
  const f = text.slice(text.lastIndexOf(")") + 2).split(" ");
  if (f.length < 22) return undefined;
  const childTicks = Number(f[13]) + Number(f[14]);
  const ticks = Number(f[11]) + Number(f[12]) + childTicks;
  return {
    pid,
    ppid: Number(f[1]),
    pgrp: Number(f[2]),
    sid: Number(f[3]),
    start: Number(f[19]),
    dead: f[0] === "Z" || f[0] === "X",
    cpuMs: ticks * MS_PER_TICK,
    childCpuMs: childTicks * MS_PER_TICK,
    rssPages: Number(f[21]),
  };
}

/** All process ids there are now. */
export function listPids(): number[] {
  const pids: number[] = [];
  for (const name of readdirSync("/proc")) {
    const pid = Number(name);
    if (pid > 0) pids.push(pid);
  }
  return pids;
}

/** Whether the process was started with `entry` ("NAME=value") in its environment. */
export function hasEnvironment(pid: number, entry: string): boolean {
  const text = read(`/proc/${pid}/environ`);
  if (text === undefined) return false;
  const at = text.indexOf(`${entry}\0`);
  return at === 0 || (at > 0 && text[at - 1] === 0);
}

/** Children of all threads of a process; undefined where the kernel does not offer the list. */
export function childrenOf(pid: number): number[] | undefined {
  const children: number[] = [];
  let threads: string[];
  try {
    threads = readdirSync(`/proc/${pid}/task`);
  } catch {
    return children;
  }
  let readable = threads.length === 0;
  for (const thread of threads) {
    const text = read(`/proc/${pid}/task/${thread}/children`);
    if (text === undefined) continue;
    readable = true;
    for (const child of text.toString("latin1").split(" ")) if (child !== "") children.push(Number(child));
  }
  return readable ? children : undefined;
}

/** The command line for people, cut to a bound; the bare name for a process without one. */
export function commandOf(pid: number): string {
  const line = read(`/proc/${pid}/cmdline`)?.toString("utf8").split("\0").join(" ").trim();
  const text = line || read(`/proc/${pid}/comm`)?.toString("utf8").trim() || "?";
  return text.length > MAX_COMMAND_CHARS ? `${text.slice(0, MAX_COMMAND_CHARS)}...` : text;
}

/** Bytes of a page, found by comparing what Node and the kernel say about this process. */
export function pageBytes(): number {
  const pages = readProc(process.pid)?.rssPages ?? 0;
  if (pages === 0) return 4096;
  const ratio = process.memoryUsage.rss() / pages;
  return 2 ** Math.round(Math.log2(ratio));
}

/**
 * Identity of a process beyond its number, `BOOT_ID:TICKS:PID_NAMESPACE`: which boot, clock ticks since then, and where
 * the number counts. What cannot be read is `unknown`, 0 or empty: whoever reads that knows nothing, not `dead`.
 */
export function startTime(pid: number): string {
  const boot = read("/proc/sys/kernel/random/boot_id")?.toString("latin1").trim() ?? "unknown";
  return `${boot}:${readProc(pid)?.start ?? 0}:${namespace()}`;
}

function namespace(): string {
  try {
    return readlinkSync("/proc/self/ns/pid").replace(/\D/g, "");
  } catch {
    return "";
  }
}

function read(path: string): Buffer | undefined {
  try {
    return readFileSync(path);
  } catch {
    return undefined;
  }
}
