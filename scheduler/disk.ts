// W6: no workspace is made when the disk is nearly full. Said with figures and with what to do.

import { BusbarError } from "../schemas/errors.ts";
import type { DiskUse, Machine } from "./machine.ts";

const GIB = 1024 ** 3;

/** Throws DISK_FULL when `dir`'s disk is used beyond `limitPercent`. */
export async function checkDisk(machine: Machine, dir: string, limitPercent: number): Promise<DiskUse> {
  const use = await machine.disk(dir);
  if (use.usedPercent > limitPercent) {
    const used = use.usedPercent.toFixed(1);
    const free = (use.free / GIB).toFixed(1);
    throw new BusbarError(
      "DISK_FULL",
      `making a workspace below ${dir}: the disk is ${used} % full (limit ${limitPercent} %), ${free} GiB are free`,
      { dir, used_percent: use.usedPercent, limit_percent: limitPercent, free: use.free },
    );
  }
  return use;
}
