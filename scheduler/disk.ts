// W6: no workspace is made when the disk is nearly full. Said with figures and with what to do.

import { BusbarError, isCode } from "../schemas/errors.ts";
import type { Kit } from "./kit.ts";
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

const LOOK_AGAIN_MS = 1_000;

/** Before a claim: a full disk is waited for, it does not use up tries. Looked at once a second at most. */
export class DiskGate {
  readonly #kit: Pick<Kit, "machine" | "stateDir" | "config" | "log">;
  readonly #now: () => number;
  #room = true;
  #looked = Number.NEGATIVE_INFINITY;

  /** `now` never jumps. */
  constructor(kit: Pick<Kit, "machine" | "stateDir" | "config" | "log">, now: () => number) {
    this.#kit = kit;
    this.#now = now;
  }

  /** False while the disk is used beyond its limit; said once. What cannot be read is left to the attempt. */
  async hasRoom(): Promise<boolean> {
    const now = this.#now();
    if (now - this.#looked < LOOK_AGAIN_MS) return this.#room;
    this.#looked = now;
    const { machine, stateDir, config, log } = this.#kit;
    const fault = await checkDisk(machine, stateDir, config.disk_limit_percent).then(
      () => undefined,
      (error: unknown) => (isCode(error, "DISK_FULL") ? error : undefined),
    );
    const room = fault === undefined;
    if (!room && this.#room) log.error("nothing is claimed until there is room", { why: fault.message });
    if (room && !this.#room) log.info("the disk has room again", { dir: stateDir });
    this.#room = room;
    return room;
  }
}
