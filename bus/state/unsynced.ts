// The bytes of a file that no good sync has confirmed yet, kept to be written again after one that failed.

import { faultPoint } from "../../schemas/fault-points.ts";
import { type DiskFile, writeAll } from "./disk.ts";

export class Unsynced {
  #parts: { offset: number; bytes: Buffer }[] = [];
  #size = 0;

  /** How many bytes are kept. */
  get size(): number {
    return this.#size;
  }

  /** How many pieces there are now, for `confirm` later. */
  get count(): number {
    return this.#parts.length;
  }

  add(offset: number, bytes: Buffer): void {
    this.#parts.push({ offset, bytes });
    this.#size += bytes.length;
  }

  /** The oldest `count` pieces are on the disk. */
  confirm(count: number): void {
    for (const { bytes } of this.#parts.splice(0, count)) this.#size -= bytes.length;
  }

  /** Nothing from `end` on counts any more. */
  cut(end: number): void {
    const kept = this.#parts.filter(({ offset }) => offset < end);
    this.#parts = kept.map(({ offset, bytes }) => ({ offset, bytes: bytes.subarray(0, end - offset) }));
    this.#size = this.#parts.reduce((sum, { bytes }) => sum + bytes.length, 0);
  }

  /** Whether anything before `offset` waits for a sync. */
  has(offset: number): boolean {
    return this.#parts.some((part) => part.offset < offset);
  }

  async writeAgain(file: DiskFile): Promise<void> {
    for (const { offset, bytes } of this.#parts) {
      faultPoint("bus.journal.before-write-again");
      await writeAll(file, bytes, offset);
    }
  }
}
