// The hash chain of the journal: a line is the record's JSON with a last member `mac`,
//   mac = first 16 bytes of HMAC-SHA256(key, previous mac in hex + JSON without mac), in hex.
// Who does not hold the key can neither change, insert, drop nor reorder a line unseen. A cut tail does not show in
// the chain itself; the checkpoint and the anchor in the repository show it.

import { createHmac, createSecretKey, type Hmac, type KeyObject } from "node:crypto";

/** Before the first record. */
export const FIRST_MAC = "0".repeat(32);
const SUFFIX = /^,"mac":"([0-9a-f]{32})"\}$/;
const SUFFIX_LENGTH = ',"mac":"'.length + 32 + '"}'.length;

const prepared = new WeakMap<Buffer, KeyObject>();

/** A key that is made ready once saves a fifth of every mac. */
function hmacOf(key: Buffer): Hmac {
  let ready = prepared.get(key);
  if (!ready) {
    ready = createSecretKey(key);
    prepared.set(key, ready);
  }
  return createHmac("sha256", ready);
}

/** The line (without newline) for a record's JSON, and its mac. `body` ends with `}`. */
export function seal(key: Buffer, previous: string, body: string): { line: string; mac: string } {
  const mac = hmacOf(key).update(previous).update(body).digest("hex").slice(0, 32);
  return { line: `${body.slice(0, -1)},"mac":"${mac}"}`, mac };
}

/** The mac a line claims to have; undefined when it does not end like a sealed line. */
export function claimedMac(line: Buffer): string | undefined {
  return SUFFIX.exec(line.toString("latin1", Math.max(0, line.length - SUFFIX_LENGTH)))?.[1];
}

/** The line's mac when the line follows `previous`; undefined when not. */
export function follows(key: Buffer, previous: string, line: Buffer): string | undefined {
  const claimed = claimedMac(line);
  if (claimed === undefined) return undefined;
  const mac = hmacOf(key)
    .update(previous)
    .update(line.subarray(0, line.length - SUFFIX_LENGTH))
    .update("}")
    .digest("hex")
    .slice(0, 32);
  return mac === claimed ? mac : undefined;
}

/** The record's JSON without its mac. */
export function bodyOf(line: Buffer): string {
  return `${line.toString("utf8", 0, line.length - SUFFIX_LENGTH)}}`;
}
