// Reading a log that may be large and may still grow: in pieces, never as a whole.

import { closeSync, fstatSync, openSync, readSync } from "node:fs";
import { StringDecoder } from "node:string_decoder";
import { ioError } from "../../schemas/errors.ts";
import { harmless } from "./render/width.ts";

const PIECE_BYTES = 64 * 1024;
/** A line longer than this is shown in parts. */
const MAX_LINE_CHARS = 64 * 1024;

export class LogFile {
  readonly #path: string;
  readonly #fd: number;
  #at = 0;

  constructor(path: string) {
    this.#path = path;
    try {
      this.#fd = openSync(path, "r");
    } catch (error) {
      throw ioError("opening the log", path, error);
    }
  }

  /** Goes to the beginning of the last `lines` lines, reading backwards in pieces. */
  tail(lines: number): void {
    let end = this.#size();
    this.#at = end;
    if (lines <= 0) return;
    let missing = lines;
    const piece = Buffer.alloc(PIECE_BYTES);
    // A line end at the very end of the file ends the last line; it does not begin another.
    if (end > 0 && this.#readAt(piece, 1, end - 1) === 1 && piece[0] === 0x0a) missing += 1;
    while (end > 0) {
      const from = Math.max(0, end - PIECE_BYTES);
      const n = this.#readAt(piece, end - from, from);
      for (let i = n - 1; i >= 0; i--) {
        if (piece[i] === 0x0a && --missing === 0) {
          this.#at = from + i + 1;
          return;
        }
      }
      end = from;
    }
    this.#at = 0;
  }

  /** The next piece, or undefined when there is none (yet). A file that was cut is read from its start. */
  next(): Buffer | undefined {
    if (this.#size() < this.#at) this.#at = 0;
    const piece = Buffer.alloc(PIECE_BYTES);
    const n = this.#readAt(piece, PIECE_BYTES, this.#at);
    this.#at += n;
    return n === 0 ? undefined : piece.subarray(0, n);
  }

  isEmpty(): boolean {
    return this.#size() === 0;
  }

  close(): void {
    closeSync(this.#fd);
  }

  #size(): number {
    return fstatSync(this.#fd).size;
  }

  #readAt(into: Buffer, length: number, at: number): number {
    try {
      return readSync(this.#fd, into, 0, length, at);
    } catch (error) {
      throw ioError("reading the log", this.#path, error);
    }
  }
}

// biome-ignore lint/suspicious/noControlCharactersInRegex: colours are what is taken out
const COLORS = /\x1b\[[0-9;]*m/g;

/** Bytes of a log to lines that a terminal can be given: colours out, other control characters shown. */
export class TerminalLog {
  readonly #decoder = new StringDecoder("utf8");
  #rest = "";

  take(piece: Buffer): string {
    const text = this.#rest + this.#decoder.write(piece);
    const cutAt = text.lastIndexOf("\n") + 1;
    this.#rest = text.slice(cutAt);
    const whole = text.slice(0, cutAt);
    if (this.#rest.length <= MAX_LINE_CHARS) return shown(whole);
    return shown(whole) + this.flush();
  }

  /** What has no line end yet. */
  flush(): string {
    const text = this.#rest;
    this.#rest = "";
    return shown(text);
  }
}

/** A lone carriage return draws a line over: here each of its states is a line. */
function shown(text: string): string {
  return harmless(text.replace(COLORS, "").replace(/\r+\n/g, "\n").replace(/\r/g, "\n"));
}
