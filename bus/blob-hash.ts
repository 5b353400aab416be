// The hash of a blob's bytes, by isomorphic-git (the one file that imports it) for SHA-1 repositories and by
// Node's crypto for SHA-256 ones, which the package does not know. The import costs 80 ms and 12 MB, so it
// happens when it is first needed, or when `warmHash` is called in a quiet moment.

import { createHash } from "node:crypto";

type HashBlob = (blob: { object: Uint8Array }) => Promise<{ oid: string }>;
let loading: Promise<HashBlob> | undefined;

/** Loads the package ahead of the first use. */
export function warmHash(): Promise<HashBlob> {
  loading ??= import("isomorphic-git").then((git) => git.hashBlob);
  return loading;
}

/** Whether `bytes` are the blob that `oid` names; the length of `oid` says which hash is meant. */
export async function isBlob(oid: string, bytes: Buffer): Promise<boolean> {
  if (oid.length === 64) {
    const hash = createHash("sha256").update(`blob ${bytes.length}\0`).update(bytes);
    return hash.digest("hex") === oid;
  }
  const hashBlob = await warmHash();
  return (await hashBlob({ object: bytes })).oid === oid;
}
