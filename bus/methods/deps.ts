// What the handlers that change state are given.

import type { Config } from "../../schemas/config.ts";
import { isCode } from "../../schemas/errors.ts";
import type { AttemptRef } from "../../schemas/ids.ts";
import type { Clock, Log, Random } from "../../schemas/ports.ts";
import type { Store } from "../state/store.ts";
import type { AttemptPeers } from "./peers.ts";
import type { Workers } from "./workers.ts";

export interface Deps {
  store: Store;
  clock: Clock;
  log: Log;
  random: Random;
  config: Config;
  stateDir: string;
  runtimeDir: string;
  /** Makes the token of one attempt (bus/tokens.ts). */
  tokenFor(role: "shim" | "agent", ref: AttemptRef): string;
  workers: Workers;
  peers: AttemptPeers;
  /** An attempt lives: its lease counts anew (bus/state/timers.ts). */
  signOfLife(ref: AttemptRef, who: "agent" | "check" | "worker"): void;
}

/**
 * Waits for a change by somebody whose word says that an attempt lives. While the disk refuses nobody's word can be
 * written, but it was spoken all the same: when there is room again, no lease has run down meanwhile.
 */
export function signsOfLife({ signOfLife }: Pick<Deps, "signOfLife">) {
  return async <T>(ref: AttemptRef, who: "agent" | "check" | "worker", change: Promise<T>): Promise<T> => {
    try {
      const answer = await change;
      signOfLife(ref, who);
      return answer;
    } catch (error) {
      if (isCode(error, "STORAGE")) signOfLife(ref, who);
      throw error;
    }
  };
}
