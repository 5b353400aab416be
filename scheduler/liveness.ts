// Whether a process that was written down is still the one that runs: pid and start time together. Three answers:
// what cannot be known neither kills nor frees (design section 6). `unknown` comes from
//
// - a start time that its writer could not read, or a pid file that cannot be read;
// - another PID namespace: the number means another process there;
// - /proc that may not be read (EACCES, EPERM), or hides a process that a signal would reach (hidepid).
//
// Another boot, no such process, a zombie, and another start time under the same number are all `dead`.

import { readFileSync, readlinkSync } from "node:fs";

export type Liveness = "alive" | "dead" | "unknown";

/** `stopped`: by SIGSTOP or a debugger; it is there, and cannot act. */
export type Probed =
  | { kind: "alive"; stopped: boolean }
  | { kind: "dead" }
  | { kind: "unknown"; why: string };

/** What a shim writes about itself before it starts anything, and tells the bus. */
export interface PidFile {
  pid: number;
  /** `BOOT_ID:TICKS:PID_NAMESPACE`; older ones lack the last. */
  start_time: string;
  /** The process that it stands round, once it is started. */
  child?: { pid: number; start_time: string };
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
    const child = soundIdentity(value?.child);
    const self = soundIdentity(value);
    if (self) return { ...self, ...(child && { child }) };
  } catch {
    // a half-written file says nothing
  }
  return "unknown";
}

function soundIdentity(value: Partial<PidFile> | null | undefined): PidFile | undefined {
  const { pid, start_time } = value ?? {};
  if (!Number.isSafeInteger(pid) || (pid as number) <= 1 || typeof start_time !== "string") return undefined;
  return { pid: pid as number, start_time };
}

export function liveness(process: PidFile): Liveness {
  return probe(process).kind;
}

/** The kernel as `probe` asks it; a test has its own. */
export interface Kernel {
  /** Throws as fs does. */
  read(path: string): string;
  link(path: string): string;
  /** As kill(2) with signal 0: throws ESRCH or EPERM. */
  signal0(pid: number): void;
}

const KERNEL: Kernel = {
  read: (path) => readFileSync(path, "latin1"),
  link: (path) => readlinkSync(path),
  signal0: (pid) => void process.kill(pid, 0),
};

export function probe({ pid, start_time }: PidFile, kernel: Kernel = KERNEL): Probed {
  const [boot = "", ticks = "", namespace = ""] = start_time.split(":");
  const now = bootId(kernel);
  const isKnown = /^[0-9a-f-]{36}$/.test(boot) && Number(ticks) > 0;
  if (now !== undefined && isKnown && boot !== now) return { kind: "dead" };
  if (!isKnown) return { kind: "unknown", why: "its start time was not written down" };
  if (now === undefined) return { kind: "unknown", why: "the boot id of this machine cannot be read" };
  const own = ownNamespace(kernel);
  if (namespace !== "" && own !== "" && namespace !== own)
    return { kind: "unknown", why: "it was started in another PID namespace" };
  const stat = readStat(pid, kernel);
  if (typeof stat === "string") return withoutStat(pid, stat, kernel);
  if (stat.dead || stat.start !== Number(ticks)) return { kind: "dead" };
  return { kind: "alive", stopped: stat.stopped };
}

/** No stat: it is gone, or it is kept from us. */
function withoutStat(pid: number, code: string, kernel: Kernel): Probed {
  if (code !== "ENOENT" && code !== "ESRCH")
    return { kind: "unknown", why: `/proc/${pid}/stat cannot be read: ${code}` };
  try {
    kernel.signal0(pid);
  } catch {
    // ESRCH: nobody. EPERM: of another user, and ours are of this one.
    return { kind: "dead" };
  }
  // It may have come between the two questions.
  return typeof readStat(pid, kernel) === "string"
    ? { kind: "unknown", why: `/proc hides process ${pid}` }
    : { kind: "dead" };
}

function bootId(kernel: Kernel): string | undefined {
  return quietly(() => kernel.read("/proc/sys/kernel/random/boot_id").trim());
}

function ownNamespace(kernel: Kernel): string {
  return quietly(() => kernel.link("/proc/self/ns/pid"))?.replace(/\D/g, "") ?? "";
}

/** Start time of a process in clock ticks since boot, as /proc says it; undefined when there is none. */
export function startTime(pid: number): string | undefined {
  const stat = readStat(pid, KERNEL);
  return typeof stat === "string" ? undefined : String(stat.start);
}

/** A process that runs now, as a pid file would name it. */
export function identityOf(pid: number): PidFile | undefined {
  const stat = readStat(pid);
  const boot = bootId(KERNEL);
  if (typeof stat === "string" || boot === undefined) return undefined;
  return { pid, start_time: `${boot}:${stat.start}:${ownNamespace(KERNEL)}` };
}

/** One process as /proc/PID/stat says it. */
export interface Stat {
  pid: number;
  ppid: number;
  sid: number;
  start: number;
  /** Z or X: nothing runs there any more. */
  dead: boolean;
  stopped: boolean;
}

/** The error's code where it cannot be read. */
export function readStat(pid: number, kernel: Pick<Kernel, "read"> = KERNEL): Stat | string {
  try {
    const text = kernel.read(`/proc/${pid}/stat`);
    // The command in brackets may hold anything, brackets too: fields are counted from the last one.
    const fields = text.slice(text.lastIndexOf(")") + 2).split(" ");
    if (fields.length < 22) return "EPROTO";
    const [state = ""] = fields;
    return {
      pid,
      ppid: Number(fields[1]),
      sid: Number(fields[3]),
      start: Number(fields[19]),
      dead: state === "Z" || state === "X",
      stopped: state === "T" || state === "t",
    };
  } catch (error) {
    return (error as NodeJS.ErrnoException).code ?? "EIO";
  }
}

function quietly<T>(read: () => T): T | undefined {
  try {
    return read();
  } catch {
    return undefined;
  }
}
