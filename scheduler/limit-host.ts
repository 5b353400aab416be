// What this host can hold processes to. Asked once, at the start; the answer goes to the bus, so that people are told and
// plans that need more are refused.

import { existsSync, readFileSync, readlinkSync, statSync } from "node:fs";
import { dirname, join } from "node:path";
import type { LimitFacts } from "../schemas/limit-plan.ts";
import type { HostEnv } from "./environment.ts";
import { type GroupHost, probeGroups } from "./group-host.ts";

export interface LimitHost {
  facts: LimitFacts;
  groups: GroupHost;
}

/** Of util-linux; looked for in the system's own directories only. */
export const PRLIMIT = "/usr/bin/prlimit";

/** `stateDir`: below it lie the workspaces. `groups`: those that processes get, where it is not the scheduler that starts them. */
export function probeLimits(env: HostEnv, stateDir: string, groups = probeGroups(env)): LimitHost {
  const own = readFileSync("/proc/self/limits", "latin1");
  const nofile = hardLimit(own, "Max open files");
  const nproc = hardLimit(own, "Max processes");
  const disk = diskOf(stateDir);
  const version = (name: "all" | "memory" | "pids" | "cpu" | "io") => groups[name]?.v ?? 0;
  const facts: LimitFacts = {
    uid: process.getuid?.() ?? 0,
    ...(nofile === undefined ? {} : { hard_nofile: nofile }),
    ...(nproc === undefined ? {} : { hard_nproc: nproc }),
    prlimit: existsSync(PRLIMIT),
    ...(disk === undefined ? {} : { disk }),
    groups: {
      kill: version("all"),
      memory: version("memory"),
      pids: version("pids"),
      cpu: version("cpu"),
      io: version("io"),
    },
  };
  return { facts, groups };
}

/** Undefined: unlimited. */
function hardLimit(text: string, name: string): number | undefined {
  const word = new RegExp(`^${name}\\s+\\S+\\s+(\\S+)`, "m").exec(text)?.[1];
  return word === undefined || word === "unlimited" ? undefined : Number(word);
}

const MINOR_BITS = 256;

/** The whole disk under a directory: a partition cannot be limited. Undefined for file systems without a disk of their own. */
function diskOf(dir: string): string | undefined {
  try {
    const { dev } = statSync(dir);
    // The encoding of the C library, as far as numbers below 4096 and 1048576 go.
    const major = Math.floor(dev / MINOR_BITS) % 4096;
    const minor = (dev % MINOR_BITS) + Math.floor(dev / 2 ** 20) * MINOR_BITS;
    const block = `/sys/dev/block/${major}:${minor}`;
    if (!existsSync(block)) return undefined;
    if (!existsSync(join(block, "partition"))) return `${major}:${minor}`;
    const parent = dirname(join("/sys/dev/block", readlinkSync(block)));
    return readFileSync(join(parent, "dev"), "latin1").trim();
  } catch {
    return undefined;
  }
}
