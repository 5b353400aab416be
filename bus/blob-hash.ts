// Whether bytes are the blob that an object id names; asked of every object before its first byte leaves.
//
// 1. Node's crypto hashes every object: 8 us for 10 KB, where isomorphic-git (the one file that imports it) takes 106,
//    most of it for copies and promises.
// 2. A mismatch is a heavy claim: it makes a person look for a broken disk. So it is not made on one hash alone:
//    isomorphic-git, whose code shares nothing with ours, hashes the bytes too, and only if it comes to the same is the
//    object called damaged. It knows SHA-1 only; for SHA-256 repositories Node's hash stands alone.
//
// The package costs 80 ms and 12 MB, so it is loaded at the first mismatch, which most buses never see.

import { createHash } from "node:crypto";

/** Whether `bytes` are the blob that `oid` names; the length of `oid` says which hash is meant. */
export async function isBlob(oid: string, bytes: Buffer): Promise<boolean> {
  if (hashOf(oid, bytes) === oid) return true;
  return oid.length === 64 ? false : (await secondOpinion(bytes)) === oid;
}

function hashOf(oid: string, bytes: Buffer): string {
  const hash = createHash(oid.length === 64 ? "sha256" : "sha1");
  return hash.update(`blob ${bytes.length}\0`).update(bytes).digest("hex");
}

async function secondOpinion(bytes: Buffer): Promise<string> {
  const { hashBlob } = await import("isomorphic-git");
  return (await hashBlob({ object: bytes })).oid;
}
