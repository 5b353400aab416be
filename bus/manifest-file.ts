// Writes an attempt's anchor to disk (W3): `workspace_manifest.json`, the mode and blob hash of every file of
// its newest snapshot, and `.workspace_commit`. Written in pieces: 57,000 files must not stall other callers.

import { type FileHandle, open, rename, rm } from "node:fs/promises";
import { join } from "node:path";
import { setImmediate as nextTurn } from "node:timers/promises";
import { ioError } from "../schemas/errors.ts";
import { faultPoint } from "../schemas/fault-points.ts";
import type { Manifest } from "./manifests.ts";

export interface ManifestFacts {
  run: string;
  task: string;
  attempt: number;
  base: string;
  commit: string;
  tree: string;
}

/** About 1 ms of work and 100 KB of text. */
const FILES_PER_PIECE = 1_000;

/** Returns the manifest's path and how many files it lists. Throws IO. */
export async function writeManifestFiles(
  dir: string,
  facts: ManifestFacts,
  manifest: Manifest,
): Promise<{ manifest: string; files: number }> {
  const path = join(dir, "workspace_manifest.json");
  let files = 0;
  await replaceFile(path, async (file) => {
    await file.write(`${JSON.stringify({ v: 1, ...facts }).slice(0, -1)},"files":{`);
    let piece: string[] = [];
    for (const name of manifest.paths()) {
      // Text, not an object: a file called `__proto__` is a key like any other.
      piece.push(`${files ? "," : ""}\n${JSON.stringify(name)}:${JSON.stringify(manifest.get(name))}`);
      files += 1;
      if (piece.length < FILES_PER_PIECE) continue;
      await file.write(piece.join(""));
      piece = [];
      await nextTurn();
    }
    await file.write(`${piece.join("")}\n}}\n`);
  });
  await replaceFile(join(dir, ".workspace_commit"), async (file) => {
    await file.write(`${facts.commit}\n`);
  });
  return { manifest: path, files };
}

/** All of it or nothing, by rename; a link that somebody put at the path is replaced, not followed. */
async function replaceFile(path: string, fill: (file: FileHandle) => Promise<void>): Promise<void> {
  const temp = `${path}.tmp`;
  try {
    faultPoint("bus.manifest.before-remove-old");
    await rm(temp, { force: true });
    faultPoint("bus.manifest.before-open");
    const file = await open(temp, "wx", 0o600);
    try {
      await fill(file);
    } finally {
      await file.close();
    }
    faultPoint("bus.manifest.before-rename");
    await rename(temp, path);
  } catch (error) {
    faultPoint("bus.manifest.before-clean-up");
    await rm(temp, { force: true });
    throw ioError("writing", path, error);
  }
}
