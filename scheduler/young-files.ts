// Most builds of git compare times by the second. Where a check starts in the second of the checkout, a change of a
// file's mode in that second is therefore not seen (a change of its content is: git reads such files). The index
// holds the nanoseconds all the same; for the files of that second we compare them ourselves.
// Format: gitformat-index, version 2; https://git-scm.com/docs/index-format

import { lstat } from "node:fs/promises";
import { nameIn } from "./on-disk.ts";

export interface YoungFile {
  /** Bytes as latin1. */
  name: string;
  ctimeNs: bigint;
}

const HEADER_BYTES = 12;
/** Ten fields of four bytes before the object id, two of flags after it. */
const STAT_BYTES = 40;
const NAME_BITS = 0xfff;

/** The entries whose ctime is in `second` (since 1970) or later. Throws for an index of another version. */
export function youngFiles(index: Buffer, second: number, oidBytes: 20 | 32): YoungFile[] {
  if (index.toString("latin1", 0, 4) !== "DIRC" || index.readUInt32BE(4) !== 2)
    throw new TypeError("the index is not of version 2");
  const found: YoungFile[] = [];
  const fixed = STAT_BYTES + oidBytes + 2;
  let at = HEADER_BYTES;
  for (let left = index.readUInt32BE(8); left > 0; left -= 1) {
    const flags = index.readUInt16BE(at + fixed - 2);
    const start = at + fixed;
    const end = index.indexOf(0, start + ((flags & NAME_BITS) === NAME_BITS ? NAME_BITS : flags & NAME_BITS));
    const seconds = index.readUInt32BE(at);
    if (seconds >= second)
      found.push({
        name: index.toString("latin1", start, end),
        ctimeNs: BigInt(seconds) * 1_000_000_000n + BigInt(index.readUInt32BE(at + 4)),
      });
    // One to eight zero bytes, so that an entry's length is a multiple of eight.
    at += (fixed + (end - start) + 8) & ~7;
  }
  return found;
}

/** Names of those that were touched since, or are gone. */
export async function touchedSince(work: string, files: readonly YoungFile[]): Promise<string[]> {
  const touched: string[] = [];
  for (const { name, ctimeNs } of files) {
    const stats = await lstat(nameIn(work, name), { bigint: true }).catch(() => undefined);
    if (stats?.ctimeNs !== ctimeNs) touched.push(name);
  }
  return touched;
}
