// `busd --repair look|cut`: what `busctl repair` starts. Takes both locks of the bus, so that none runs meanwhile, and prints one JSON
// object: what is damaged and what taking it out would cost, and after `cut` where the copies lie.

import { join } from "node:path";
import type { Former } from "../schemas/answers.ts";
import { BusbarError } from "../schemas/errors.ts";
import { systemClock } from "../schemas/ports.ts";
import { gitAnchor } from "./git-anchor.ts";
import { gitRefs } from "./git-refs.ts";
import { LockHold } from "./lock.ts";
import { type BusPaths, makeDirectories } from "./paths.ts";
import { systemDisk } from "./state/disk.ts";
import {
  type Finding,
  giveUp,
  lookAtDamage,
  lookAtFormer,
  type RepairPorts,
  takeOut,
} from "./state/repair.ts";

export interface Repaired {
  finding?: Finding;
  copies?: string;
  /** Nothing is damaged, but a state that ran this repository before is not here: it is given up, records up to `to`. */
  former?: Former;
  to?: number;
}

/** Throws ALREADY_RUNNING, STATE_IN_USE, and what reading and writing the state may throw. */
export async function repair(paths: BusPaths, uid: number, deed: "look" | "cut"): Promise<Repaired> {
  makeDirectories(paths, uid);
  const lock = await LockHold.take(paths.lock);
  if (!lock)
    throw new BusbarError(
      "ALREADY_RUNNING",
      `repairing ${paths.state}: a bus runs; end it with \`busctl down\``,
    );
  const stateLock = await LockHold.take(paths.stateLock).catch((error: unknown) => {
    lock.release();
    throw error;
  });
  try {
    // A bus that lost the lock of its repository goes on for a moment, and one that is stopped for longer.
    if (!stateLock)
      throw new BusbarError(
        "STATE_IN_USE",
        `repairing ${paths.state}: a bus still holds ${paths.stateLock}`,
        { lock: paths.stateLock },
      );
    const ports = {
      disk: systemDisk,
      dir: join(paths.state, "bus"),
      monotonic: () => systemClock.monotonic(),
    };
    const finding = await lookAtDamage(ports);
    if (!finding) return await former(paths, ports, deed);
    if (deed === "look") return { finding };
    // To the millisecond: one that was killed may have left its copies within the same second.
    const stamp = new Date(systemClock.now()).toISOString().replace(/[-:.]/g, "");
    return { finding, copies: await takeOut(ports, finding, stamp) };
  } finally {
    stateLock?.release();
    lock.release();
  }
}

async function former(paths: BusPaths, ports: RepairPorts, deed: "look" | "cut"): Promise<Repaired> {
  const found = await lookAtFormer(ports, gitAnchor(paths.common, paths.state), gitRefs(paths));
  if (found && deed === "cut") await giveUp(ports, found.former, found.to);
  return found ?? {};
}
