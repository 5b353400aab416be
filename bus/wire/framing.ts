// One JSON text per line, in UTF-8 (design section 5). What a stream gives in any pieces becomes frames:
//
// 1. `push` takes a chunk as it came; nothing is scanned yet.
// 2. `next` gives one frame at a time, so that the caller decides how many it handles in one turn.
// 3. A frame ends at "\n"; "\r" before it and blank lines do not count. U+2028 and the like are ordinary text.
// 4. A line beyond the bound is reported once, as OVERSIZED, as soon as that is known; its bytes are dropped
//    up to its newline and the connection goes on.
//
// Every byte is looked at once, whatever the pieces: no re-scan, and the held part grows by doubling.
// The shim uses this file: it imports nothing but limits and errors.

import { isUtf8 } from "node:buffer";
import { BusbarError } from "../../schemas/errors.ts";
import { MAX_FRAME_BYTES, MAX_FRAME_DEPTH } from "../../schemas/limits.ts";

/** Stands in the place of a frame that was too large. */
export const OVERSIZED = Symbol("oversized");

const NEWLINE = 0x0a;
/** A holding buffer above this is given back after its frame. */
const KEEP_BYTES = 64 * 1024;

/** Cuts a byte stream into lines. A frame is valid until the next call of `push` or `next`. */
export class FrameSplitter {
  readonly #max: number;
  #chunks: Buffer[] = [];
  /** Start of what is unread in the first chunk. */
  #at = 0;
  #held: Buffer = Buffer.alloc(0);
  #heldBytes = 0;
  #skipping = false;
  #queued = 0;

  constructor(maxBytes = MAX_FRAME_BYTES) {
    this.#max = maxBytes;
  }

  push(chunk: Buffer): void {
    if (chunk.length === 0) return;
    this.#chunks.push(chunk);
    this.#queued += chunk.length;
  }

  /** Bytes that came and are not yet part of a frame given out: the caller pauses its source by this. */
  get pendingBytes(): number {
    return this.#queued + this.#heldBytes;
  }

  /** True while `next` may give another frame without another `push`. */
  get hasInput(): boolean {
    return this.#chunks.length > 0;
  }

  /** The next frame (never blank, without its line end), OVERSIZED, or undefined: more input is needed. */
  next(): Buffer | typeof OVERSIZED | undefined {
    for (;;) {
      const chunk = this.#chunks[0];
      if (chunk === undefined) return undefined;
      const end = chunk.indexOf(NEWLINE, this.#at);
      const piece = chunk.subarray(this.#at, end < 0 ? chunk.length : end);
      this.#advance(chunk, end < 0 ? chunk.length : end + 1);
      if (end < 0) {
        if (this.#hold(piece)) return OVERSIZED;
        continue;
      }
      const line = this.#finish(piece);
      if (line === OVERSIZED) return OVERSIZED;
      if (line !== undefined && !isBlank(line)) return line;
    }
  }

  #advance(chunk: Buffer, to: number): void {
    this.#queued -= to - this.#at;
    this.#at = to;
    if (to < chunk.length) return;
    this.#chunks.shift();
    this.#at = 0;
  }

  /** Keeps a part of a line; true when the line has just become too large. */
  #hold(piece: Buffer): boolean {
    if (this.#skipping) return false;
    const size = this.#heldBytes + piece.length;
    if (size > this.#max) {
      this.#skipping = true;
      this.#drop();
      return true;
    }
    if (size > this.#held.length) {
      const grown = Buffer.allocUnsafe(Math.min(Math.max(size, this.#held.length * 2, 1024), this.#max));
      this.#held.copy(grown, 0, 0, this.#heldBytes);
      this.#held = grown;
    }
    piece.copy(this.#held, this.#heldBytes);
    this.#heldBytes = size;
    return false;
  }

  /** The line that ends with `piece`; undefined when it belonged to a frame already reported. */
  #finish(piece: Buffer): Buffer | typeof OVERSIZED | undefined {
    if (this.#skipping) {
      this.#skipping = false;
      return undefined;
    }
    if (this.#heldBytes === 0) return piece.length > this.#max ? OVERSIZED : piece;
    if (this.#hold(piece)) {
      this.#skipping = false;
      return OVERSIZED;
    }
    const line = this.#held.subarray(0, this.#heldBytes);
    // The buffer may be written again only after this frame was used: a large one is let go instead.
    if (this.#held.length > KEEP_BYTES) this.#held = Buffer.alloc(0);
    this.#heldBytes = 0;
    return line;
  }

  #drop(): void {
    this.#held = Buffer.alloc(0);
    this.#heldBytes = 0;
  }
}

function isBlank(line: Buffer): boolean {
  for (const byte of line) if (byte !== 0x20 && byte !== 0x0d && byte !== 0x09) return false;
  return true;
}

/** The value of a frame. Throws PARSE_ERROR, which never repeats what was sent. */
export function parseFrame(line: Buffer): unknown {
  if (!isUtf8(line)) throw new BusbarError("PARSE_ERROR", "the message is not UTF-8");
  if (isTooDeep(line))
    throw new BusbarError("PARSE_ERROR", `the message is nested deeper than ${MAX_FRAME_DEPTH} levels`);
  try {
    return JSON.parse(line.toString("utf8"));
  } catch {
    throw new BusbarError("PARSE_ERROR", "the message is not JSON");
  }
}

/** Whether brackets outside strings nest beyond MAX_FRAME_DEPTH; asked before any recursive code sees it. */
export function isTooDeep(line: Buffer): boolean {
  if (line.length <= MAX_FRAME_DEPTH) return false;
  let depth = 0;
  let inString = false;
  for (let i = 0; i < line.length; i++) {
    const byte = line[i];
    if (inString) {
      if (byte === 0x5c) i++;
      else if (byte === 0x22) inString = false;
    } else if (byte === 0x22) inString = true;
    else if (byte === 0x7b || byte === 0x5b) {
      depth += 1;
      if (depth > MAX_FRAME_DEPTH) return true;
    } else if (byte === 0x7d || byte === 0x5d) depth -= 1;
  }
  return false;
}

/** A value as a frame. JSON.stringify escapes line ends, so the text is one line. */
export function encodeFrame(value: unknown): string {
  return `${JSON.stringify(value)}\n`;
}
