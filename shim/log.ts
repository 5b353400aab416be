// The log of a process, bounded on disk whatever the process prints (case 38 runaway-output):
//
// 1. The first `head` bytes are written to the log file as they come: people follow that file.
// 2. What comes after goes into a ring file beside it, which always holds the newest `tail` bytes.
// 3. At the end the ring is appended, after one line that says how many bytes were left out, and removed.
//
// Writes are synchronous: a slow disk then slows down the process (its FIFO fills), not the shim's memory. When
// the disk is full the bytes count as left out, and the process goes on.

import {
  closeSync,
  constants,
  fchmodSync,
  fstatSync,
  openSync,
  readSync,
  unlinkSync,
  writeSync,
} from "node:fs";
import { ioError } from "../schemas/errors.ts";
import { faultPoint } from "../schemas/fault-points.ts";
import { EVIDENCE_BYTES, LOG_HEAD_BYTES, LOG_TAIL_BYTES } from "../schemas/limits.ts";

const COPY_BYTES = 64 * 1024;
/** The tail begins at a line when one begins within this many bytes. */
const LINE_SEARCH_BYTES = 4 * 1024;

export interface LogSummary {
  /** Bytes of output that the log holds. */
  bytes: number;
  /** Bytes of output left out. */
  dropped: number;
  /** The end of the log, as text. */
  tail: string;
}

/** fs.writeSync, or a disk with faults. */
type Write = (fd: number, bytes: Buffer, from: number, length: number, at: number | null) => number;

export class BoundedLog {
  readonly #path: string;
  readonly #fd: number;
  readonly #write: Write;
  readonly #headBytes: number;
  readonly #tailBytes: number;
  #ringFd: number | undefined;
  /** Bytes in the log file. */
  #head = 0;
  /** Bytes that went to the ring, ever. */
  #ring = 0;
  #lost = 0;
  #summary: LogSummary | undefined;

  /** Makes the file anew (0600, never through a link). */
  constructor(
    path: string,
    bounds = { head: LOG_HEAD_BYTES, tail: LOG_TAIL_BYTES },
    write: Write = writeSync,
  ) {
    this.#path = path;
    this.#write = write;
    this.#headBytes = bounds.head;
    this.#tailBytes = bounds.tail;
    this.#fd = create(path);
  }

  /** `bytes` are used only during the call. Never throws. */
  write(bytes: Buffer): void {
    const toHead = Math.min(bytes.length, this.#headBytes - this.#head);
    if (toHead > 0) this.#head += this.#put(this.#fd, bytes.subarray(0, toHead), null);
    if (toHead < bytes.length) this.#toRing(bytes.subarray(toHead));
  }

  #toRing(bytes: Buffer): void {
    const size = this.#tailBytes;
    const skip = Math.max(0, bytes.length - size);
    this.#ring += skip;
    let rest = bytes.subarray(skip);
    while (rest.length > 0) {
      const at = this.#ring % size;
      const piece = rest.subarray(0, size - at);
      const fd = this.#openRing();
      if (fd === undefined || this.#put(fd, piece, at) < piece.length) return;
      this.#ring += piece.length;
      rest = rest.subarray(piece.length);
    }
  }

  #openRing(): number | undefined {
    try {
      this.#ringFd ??= create(`${this.#path}.tail`);
    } catch {
      // no room for another file: the end of the output is lost, the process is not
    }
    return this.#ringFd;
  }

  /** Bytes written; what could not be is counted. */
  #put(fd: number, bytes: Buffer, at: number | null): number {
    let done = 0;
    try {
      faultPoint("shim.log.before-write");
      while (done < bytes.length)
        done += this.#write(fd, bytes, done, bytes.length - done, at === null ? null : at + done);
    } catch {
      this.#lost += bytes.length - done;
    }
    return done;
  }

  /** Joins head and tail and closes; a second time it says the same again. Never throws. */
  close(): LogSummary {
    this.#summary ??= this.#close();
    return this.#summary;
  }

  #close(): LogSummary {
    let kept = 0;
    let tail = "";
    try {
      kept = this.#appendRing();
      tail = readTail(this.#fd, EVIDENCE_BYTES);
      closeSync(this.#fd);
    } catch {
      // the file system gave way: what was kept is not known to be there
    }
    return { bytes: this.#head + kept, dropped: this.#ring - kept + this.#lost, tail };
  }

  /** Bytes of the ring that came into the log. */
  #appendRing(): number {
    const fd = this.#ringFd;
    if (fd === undefined) return 0;
    const held = Math.min(this.#ring, this.#tailBytes);
    const first = this.#ring - held;
    const skip = first === 0 ? 0 : cleanStart(this.#readRing(fd, first, Math.min(held, LINE_SEARCH_BYTES)));
    const from = first + skip;
    if (from > 0) this.#put(this.#fd, Buffer.from(`\n[busbar: ${from + this.#lost} bytes left out]\n`), null);
    let kept = 0;
    for (let at = from; at < this.#ring; at += COPY_BYTES) {
      const piece = this.#readRing(fd, at, Math.min(COPY_BYTES, this.#ring - at));
      const lost = this.#lost;
      kept += this.#put(this.#fd, piece, null);
      this.#lost = lost; // counted as not kept
    }
    closeSync(fd);
    this.#ringFd = undefined;
    faultPoint("shim.log.before-remove-ring");
    unlinkSync(`${this.#path}.tail`);
    return kept;
  }

  /** `length` bytes of the stream that went to the ring, from its byte `from` on. */
  #readRing(fd: number, from: number, length: number): Buffer {
    const out = Buffer.alloc(length);
    for (let done = 0; done < length; ) {
      const at = (from + done) % this.#tailBytes;
      const bytes = readSync(fd, out, done, Math.min(length - done, this.#tailBytes - at), at);
      if (bytes === 0) break;
      done += bytes;
    }
    return out;
  }
}

function create(path: string): number {
  const flags = constants.O_RDWR | constants.O_CREAT | constants.O_TRUNC | constants.O_NOFOLLOW;
  try {
    faultPoint("shim.log.before-create");
    const fd = openSync(path, flags, 0o600);
    faultPoint("shim.log.before-permit");
    fchmodSync(fd, 0o600);
    return fd;
  } catch (error) {
    throw ioError("creating the log", path, error);
  }
}

/** Where text begins cleanly: after the first line end, else at the first whole character. */
function cleanStart(bytes: Buffer): number {
  const line = bytes.indexOf(0x0a);
  if (line >= 0) return line + 1;
  let at = 0;
  while (at < 3 && at < bytes.length && ((bytes[at] as number) & 0xc0) === 0x80) at += 1;
  return at;
}

function readTail(fd: number, bytes: number): string {
  const size = fstatSync(fd).size;
  const from = Math.max(0, size - bytes);
  const out = Buffer.alloc(size - from);
  readSync(fd, out, 0, out.length, from);
  return out.subarray(from === 0 ? 0 : cleanStart(out)).toString("utf8");
}
