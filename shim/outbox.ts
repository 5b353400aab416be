// What the shim leaves on disk, each written whole or not at all: a temporary file, fsync, rename, fsync of the
// directory. In this order: the pid file before the process starts, the outbox before the outcome is reported,
// the done file after the outbox, the acknowledgement after the bus has taken the outcome.

import { closeSync, fsyncSync, openSync, renameSync, rmSync, writeSync } from "node:fs";
import { basename, dirname, join } from "node:path";
import { ioError } from "../schemas/errors.ts";
import { faultPoint } from "../schemas/fault-points.ts";
import type { Outcome, ShimJob } from "../schemas/job.ts";

/** Who the shim is, and how what it started can be found when it is gone itself. */
export interface PidFile {
  v: 1;
  pid: number;
  /** `BOOT_ID:TICKS:PID_NAMESPACE` (proc.ts). */
  start_time: string;
  ref: ShimJob["ref"];
  kind: ShimJob["kind"];
  name: string;
  /** Environment entry that all processes of this job carry. */
  mark: string;
  /** The process itself, once it is started. */
  child?: { pid: number; start_time: string };
}

/** The short form for people and scripts (W10). */
export type DoneFile = Pick<Outcome, "v" | "reason" | "exit" | "signal" | "ended">;

export function doneOf(outcome: Outcome): DoneFile {
  const { v, reason, exit, signal, ended } = outcome;
  return { v, reason, exit, signal, ended };
}

/** Writes `value` as JSON to `path`, durably. Throws IO with path and deed. */
export function writeDurably(path: string, value: unknown): void {
  const dir = dirname(path);
  const temporary = join(dir, `.${basename(path)}.${process.pid}.tmp`);
  try {
    faultPoint("shim.durable-file.before-open");
    const fd = openSync(temporary, "w", 0o600);
    try {
      faultPoint("shim.durable-file.before-write");
      writeSync(fd, `${JSON.stringify(value)}\n`);
      faultPoint("shim.durable-file.before-sync");
      fsyncSync(fd);
    } finally {
      closeSync(fd);
    }
    faultPoint("shim.durable-file.before-rename");
    renameSync(temporary, path);
    const dirFd = openSync(dir, "r");
    faultPoint("shim.durable-file.before-sync-directory");
    fsyncSync(dirFd);
    closeSync(dirFd);
  } catch (error) {
    // `path` may be a directory that an agent made: its outcome goes to the bus, and nothing half is left here.
    faultPoint("shim.durable-file.before-clean-up");
    rmSync(temporary, { force: true });
    throw ioError("writing", path, error);
  }
}

/** Name of the file that says that the bus has the outcome. */
export function ackPath(outbox: string): string {
  return `${outbox}.ack`;
}
