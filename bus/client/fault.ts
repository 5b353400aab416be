// Arms the fault points of a program: with BUSBAR_FAULT=DIR in the environment of bus and scheduler (a shim gets it by
// its job, an agent never). Who passes point NAME while the file DIR/NAME is there takes the file away and dies by
// SIGKILL at that moment: exactly one process dies for one file, and a file can be put there at any time. A number in
// the file lets that many less one go by first. DIR/passed/NAME says that the point was passed.
//
// For tests only: without the variable nothing of this is done.

import { existsSync, mkdirSync, readFileSync, unlinkSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { armFaultPoints, type FaultPoint } from "../../schemas/fault-points.ts";

export const FAULT_VARIABLE = "BUSBAR_FAULT";

/** Nothing where `dir` is not given. */
export function armFaults(dir: string | undefined): void {
  if (!dir) return;
  const seen = new Set<FaultPoint>();
  const passed = join(dir, "passed");
  mkdirSync(passed, { recursive: true });
  armFaultPoints((name) => {
    if (!seen.has(name)) writeFileSync(join(passed, name), "");
    seen.add(name);
    if (existsSync(join(dir, name)) && isTurn(join(dir, name))) process.kill(process.pid, "SIGKILL");
  });
}

function isTurn(file: string): boolean {
  try {
    const left = Number(readFileSync(file, "utf8"));
    if (left > 1) writeFileSync(file, String(left - 1));
    else unlinkSync(file);
    return !(left > 1);
  } catch {
    return false; // somebody else was faster and died
  }
}
