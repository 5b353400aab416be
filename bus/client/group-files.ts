// A control group as files: who is in it, and its removal. For the shim, which made it, and for the scheduler, when the shim
// is gone. What a process made below its own group belongs to it.

import { readdirSync, readFileSync, rmdirSync } from "node:fs";
import { join } from "node:path";
import { faultPoint } from "../../schemas/fault-points.ts";

/** All that live in the group and in those below it. */
export function groupMembers(dir: string): number[] {
  return [...ownMembers(dir), ...below(dir).flatMap(groupMembers)];
}

function ownMembers(dir: string): number[] {
  try {
    const text = readFileSync(join(dir, "cgroup.procs"), "utf8");
    return text.split("\n").filter(Boolean).map(Number);
  } catch {
    return [];
  }
}

/** With those below it. False while the kernel still holds it. */
export function removeGroup(dir: string): boolean {
  try {
    for (const inner of below(dir)) removeGroup(inner);
    faultPoint("shared.group.before-remove");
    rmdirSync(dir);
    return true;
  } catch (error) {
    return (error as NodeJS.ErrnoException).code === "ENOENT";
  }
}

function below(dir: string): string[] {
  try {
    return readdirSync(dir, { withFileTypes: true })
      .filter((entry) => entry.isDirectory())
      .map(({ name }) => join(dir, name));
  } catch {
    return [];
  }
}
