// Facts of the machine that explain why a process came to nothing. Words in a log never are such a fact: an agent
// writes them. What is looked at is what the kernel says, before and after:
//   the boot (the machine was started anew), its count of processes killed for want of memory, room and inodes on our
//   disk, whether somebody listens at a port.

import { readFileSync } from "node:fs";
import { statfs } from "node:fs/promises";
import { BusbarError } from "../schemas/errors.ts";
import type { Outcome } from "../schemas/job.ts";

export interface MachineLook {
  /** Boot id; "" where it cannot be read. */
  boot: string;
  /** Processes that the kernel has killed for want of memory since the boot. */
  oomKills: number | undefined;
  /** Bytes and inodes that we may still use on the disk of the state directory. */
  free: number;
  inodes: number | undefined;
}

/** The end of a process, with the fact of the machine that explains it where there is one. */
export interface Ended {
  outcome: Outcome;
  machine?: string;
  /** The process itself filled the disk: what was found and removed (make-room.ts). */
  filled?: string;
}

/** With less room than this, nobody can write anything of use. */
export const DISK_GONE_BYTES = 1024 * 1024;

export async function lookAtMachine(dir: string): Promise<MachineLook> {
  const disk = await statfs(dir).catch(() => undefined);
  return {
    boot: bootId(),
    oomKills: oomKills(),
    free: disk === undefined ? Number.POSITIVE_INFINITY : disk.bavail * disk.bsize,
    // Some file systems have no such number and say 0 of 0.
    inodes: disk === undefined || disk.files === 0 ? undefined : disk.ffree,
  };
}

/** The trouble that the machine had between two looks, in words; undefined when there is no such fact. Pure. */
export function troubleBetween(before: Partial<MachineLook>, after: MachineLook): string | undefined {
  if (before.boot && after.boot && before.boot !== after.boot) return "the machine was started anew";
  if (before.oomKills !== undefined && after.oomKills !== undefined && after.oomKills > before.oomKills)
    return `the kernel killed ${after.oomKills - before.oomKills} processes for want of memory`;
  if (after.free < DISK_GONE_BYTES) return `the disk is full (${after.free} bytes are free)`;
  if (after.inodes === 0) return "the disk has no inode left";
  return undefined;
}

/** What is known about the end of a process that began after `before`. */
export async function explained(
  stateDir: string,
  before: Partial<MachineLook>,
  outcome: Outcome,
): Promise<Ended> {
  if (outcome.reason === "exit" && outcome.exit === 0) return { outcome };
  const machine = troubleBetween(before, await lookAtMachine(stateDir));
  return machine === undefined ? { outcome } : { outcome, machine };
}

/** Errors of the system at our own work that are nobody's doing but the machine's. */
const MACHINE_ERRNO = new Set(["ENOSPC", "EDQUOT", "EMFILE", "ENFILE", "ENOMEM", "EIO", "EROFS", "EFBIG"]);

/** The fact of the machine that an error of ours holds; undefined when it holds none. */
export function machineFault(error: unknown): string | undefined {
  for (let at: unknown = error; at instanceof Error; at = at.cause) {
    if (at instanceof BusbarError && at.code === "DISK_FULL") return at.message;
    const { code } = at as NodeJS.ErrnoException;
    if (code !== undefined && MACHINE_ERRNO.has(code)) return `the system answered ${code} to us`;
  }
  return undefined;
}

const LISTEN = "0A";

/** Whether any process listens at a TCP port of this machine now. */
export function isListening(port: number): boolean {
  const wanted = `:${port.toString(16).toUpperCase().padStart(4, "0")}`;
  return ["tcp", "tcp6"].some((table) =>
    read(`/proc/net/${table}`)
      .split("\n")
      .some((line) => {
        const [, local = "", , state] = line.trim().split(/\s+/);
        return state === LISTEN && local.endsWith(wanted);
      }),
  );
}

function bootId(): string {
  return read("/proc/sys/kernel/random/boot_id").trim();
}

function oomKills(): number | undefined {
  const [, count] = /^oom_kill (\d+)$/m.exec(read("/proc/vmstat")) ?? [];
  return count === undefined ? undefined : Number(count);
}

function read(path: string): string {
  try {
    return readFileSync(path, "latin1");
  } catch {
    return "";
  }
}
