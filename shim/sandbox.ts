// The sandbox round a process, as far as the shim must know of it: bubblewrap (scheduler/sandbox.ts says how it is called).
// Three processes stand in the process's place:
//
//   bwrap (our child) -> bwrap (number 1 inside) -> AGENT
//
// - The first two act on no signal but die of it, and all inside die with them: a polite signal goes to neither.
// - bwrap says on the descriptor `--json-status-fd` who number 1 is, before anything runs inside, and at the end with
//   which code the process ended. Without the second line it is bwrap that failed, not the process.
// - When number 1 is dead the kernel has ended all that was inside.
//
// The descriptor is a file without a name that is read where something is asked: nothing is waited for.

import { closeSync, openSync, readlinkSync, readSync, unlinkSync } from "node:fs";
import { join } from "node:path";
import { ioError } from "../schemas/errors.ts";
import { faultPoint } from "../schemas/fault-points.ts";
import { type Exit, type Proc, readProc } from "./proc.ts";

/** Two lines of bwrap; more is not its. */
const STATUS_BYTES = 4096;
/** bwrap tells a signal as a shell does: 128 + number. */
const SIGNAL_BASE = 128;
/** In the kernel's order from 1, as on x86 and ARM: node:os would cost memory for them. */
const SIGNALS =
  "HUP INT QUIT ILL TRAP ABRT BUS FPE KILL USR1 SEGV USR2 PIPE ALRM TERM STKFLT CHLD CONT STOP TSTP TTIN TTOU URG XCPU XFSZ".split(
    " ",
  );

export class Sandbox {
  /** Given to bwrap; ours too until `close`. */
  readonly fd: number;
  #root = 0;

  /** `dir`: where the file is made for a moment. Throws IO. */
  constructor(dir: string) {
    const path = join(dir, `.sandbox-${process.pid}`);
    try {
      faultPoint("shim.sandbox.before-open");
      this.fd = openSync(path, "w+", 0o600);
      faultPoint("shim.sandbox.before-unlink");
      unlinkSync(path);
    } catch (error) {
      throw ioError("making the status file of the sandbox", path, error);
    }
  }

  /** The process that we started has become bwrap, or will. */
  around(pid: number): void {
    this.#root = pid;
  }

  /** bwrap's own two processes. */
  isOwn(proc: Proc): boolean {
    return proc.pid === this.#root || proc.ppid === this.#root;
  }

  /** Whether nobody can be left inside. */
  isEmpty(): boolean {
    if (runs(this.#root)) return false;
    const init = this.#said(/"child-pid": *(\d+)/);
    if (init === undefined || !runs(init)) return true;
    // Alive under its number: number 1 itself, unless it is known to live in another place.
    const inside = this.#said(/"pid-namespace": *(\d+)/);
    const place = namespaceOf(init);
    return inside !== undefined && place !== undefined && place !== inside;
  }

  /** How the process inside ended, by how bwrap did; undefined when bwrap itself failed. */
  exitOf({ code, signal }: Exit): Exit | undefined {
    if (signal !== null) return { code, signal };
    const told = this.#said(/"exit-code": *(\d+)/);
    if (told === undefined) return undefined;
    const name = SIGNALS[told - SIGNAL_BASE - 1];
    return name === undefined ? { code: told, signal: null } : { code: null, signal: `SIG${name}` };
  }

  close(): void {
    closeSync(this.fd);
  }

  #said(what: RegExp): number | undefined {
    const bytes = Buffer.alloc(STATUS_BYTES);
    const text = bytes.toString("latin1", 0, readSync(this.fd, bytes, 0, STATUS_BYTES, 0));
    const found = what.exec(text)?.[1];
    return found === undefined ? undefined : Number(found);
  }
}

function runs(pid: number): boolean {
  const proc = readProc(pid);
  return proc !== undefined && !proc.dead;
}

function namespaceOf(pid: number): number | undefined {
  try {
    return Number(readlinkSync(`/proc/${pid}/ns/pid`).replace(/\D/g, ""));
  } catch {
    return undefined;
  }
}
