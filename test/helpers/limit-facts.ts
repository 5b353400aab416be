// What a host can hold, for tests that need no real one.

import { existsSync } from "node:fs";
import { PRLIMIT } from "../../scheduler/limit-host.ts";
import type { LimitFacts } from "../../schemas/limit-plan.ts";

/** This machine without control groups. */
export const NO_GROUPS: LimitFacts = {
  uid: process.getuid?.() ?? 0,
  prlimit: existsSync(PRLIMIT),
  groups: { kill: 0, memory: 0, pids: 0, cpu: 0, io: 0 },
};
