// How we left an index that lies where others can write, and its bytes as long as nobody has changed them.

import { createHash } from "node:crypto";
import { constants } from "node:fs";
import { open, readFile, stat } from "node:fs/promises";

/** An index as we left it. */
export interface IndexSeal {
  hash: string;
  size: number;
  mtimeMs: number;
}

export async function sealIndex(path: string): Promise<IndexSeal> {
  const [bytes, { mtimeMs }] = await Promise.all([readFile(path), stat(path)]);
  return { hash: hashOf(bytes), size: bytes.length, mtimeMs };
}

function hashOf(bytes: Buffer): string {
  return createHash("sha256").update(bytes).digest("hex");
}

/** Undefined: it is not as it was. A pipe, a link or something huge in its place is not read. */
export async function readSealed(path: string, seal: IndexSeal): Promise<Buffer | undefined> {
  const file = await open(path, constants.O_RDONLY | constants.O_NOFOLLOW | constants.O_NONBLOCK).catch(
    () => undefined,
  );
  try {
    const stats = await file?.stat();
    if (!file || !stats?.isFile() || stats.size !== seal.size || stats.mtimeMs !== seal.mtimeMs)
      return undefined;
    const bytes = await file.readFile();
    return hashOf(bytes) === seal.hash ? bytes : undefined;
  } finally {
    await file?.close();
  }
}
