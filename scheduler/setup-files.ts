// What the set-up steps of the gate left in a workspace: no part of an agent's change as long as it is untouched.
// After the set-up the touched paths are listed with their stat data; at capture those that still look the same are
// left out.

import { lstatSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { touchedPaths } from "./capture-scan.ts";
import type { Control } from "./control.ts";
import { writeJson } from "./edges.ts";
import type { Workspace } from "./workspace.ts";

type Stamp = string;

const FILE = "setup-files.json";

/** Writes the list into the attempt's directory. */
export async function noteSetupFiles(control: Control, workspace: Workspace, base: string): Promise<void> {
  const touched = await touchedPaths(control, workspace, base);
  const stamps: [string, Stamp][] = touched.map((path) => [path, stampOf(join(workspace.work, path))]);
  writeJson(join(workspace.dir, FILE), stamps);
}

/** Paths that the set-up touched and nobody since. */
export function untouchedSetupFiles(workspace: Pick<Workspace, "dir" | "work">): string[] {
  let stamps: [string, Stamp][];
  try {
    stamps = JSON.parse(readFileSync(join(workspace.dir, FILE), "utf8")) as [string, Stamp][];
  } catch {
    return [];
  }
  return stamps
    .filter(([path, stamp]) => stampOf(join(workspace.work, path)) === stamp)
    .map(([path]) => path);
}

function stampOf(path: string): Stamp {
  try {
    const { size, mtimeMs, ctimeMs, ino, mode } = lstatSync(path);
    return `${size} ${mtimeMs} ${ctimeMs} ${ino} ${mode}`;
  } catch {
    return "absent";
  }
}
