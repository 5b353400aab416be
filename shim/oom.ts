// Whom the kernel killed at the limit of a group's memory: it counts them in the group and names them in its log only.
// Where that may be read, it is asked; nothing depends on it but words.
//
//   ...;oom-kill:constraint=CONSTRAINT_MEMCG,...,task_memcg=/busbar/NAME,task=node,pid=812,uid=0
//   ...;Memory cgroup out of memory: Killed process 812 (node) total-vm:1084352kB, anon-rss:97152kB, ...

import { closeSync, constants, openSync, readSync } from "node:fs";

export interface Killed {
  pid: number;
  /** As the kernel has it: 15 bytes of what the program calls itself. */
  name: string;
  /** Bytes that it held. */
  rss: number;
}

const KERNEL_LOG = "/dev/kmsg";
const RECORD_BYTES = 8 * 1024;
/** A log without end must not hold up the report. */
const MAX_RECORDS = 20_000;

/** Those of the groups with these names, as far as the kernel's log is open to us. */
export function killedForMemory(groups: readonly string[]): Killed[] {
  let fd: number;
  try {
    fd = openSync(KERNEL_LOG, constants.O_RDONLY | constants.O_NONBLOCK);
  } catch {
    return [];
  }
  try {
    return killedIn(recordsOf(fd), groups);
  } finally {
    closeSync(fd);
  }
}

function* recordsOf(fd: number): Generator<string> {
  const buffer = Buffer.alloc(RECORD_BYTES);
  for (let n = 0; n < MAX_RECORDS; n += 1) {
    try {
      const length = readSync(fd, buffer, 0, RECORD_BYTES, null);
      if (length === 0) return;
      yield buffer.toString("utf8", 0, length);
    } catch (error) {
      // EPIPE: the record was overwritten meanwhile; the next one is read. EAGAIN: that was the last.
      if ((error as NodeJS.ErrnoException).code !== "EPIPE") return;
    }
  }
}

/** Pure. */
export function killedIn(records: Iterable<string>, groups: readonly string[]): Killed[] {
  const pids = new Set<number>();
  const killed: Killed[] = [];
  for (const record of records) {
    const chosen = /oom-kill:.*task_memcg=([^,]*),task=.*,pid=(\d+),uid=/.exec(record);
    const parts = chosen?.[1]?.split("/") ?? [];
    if (groups.some((name) => parts.includes(name))) pids.add(Number(chosen?.[2]));
    const [, pid, name = "", kib] =
      /Killed process (\d+) \((.*)\) total-vm:\S+ anon-rss:(\d+)kB/.exec(record) ?? [];
    if (pid !== undefined && pids.delete(Number(pid)))
      killed.push({ pid: Number(pid), name, rss: Number(kib) * 1024 });
  }
  return killed;
}
