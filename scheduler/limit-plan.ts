// How limits are set: what is asked and what this host can hold in, commands and values out. Pure; the shim does it
// (shim/group.ts, shim/launch.ts). Facts that the forms rest on:
//
// - Node lifts its soft limit of open files to the hard one at start, so soft and hard are set alike.
// - dash has no `ulimit -u`; prlimit sets it. Root is never held by it, and it counts all programs of the user.
// - `ulimit -f` and `-c` of a POSIX shell count blocks of 512 bytes, `-d` and `-v` KiB.
// - At the limit of CPU seconds SIGXCPU says why; SIGKILL follows for those who ignore it.
// - memory.high makes a hog slow before it is killed, so that a runner can give room back: it stands a little below.
// - No group is killed as a whole (memory.oom.group stays 0): the largest dies, its parent lives to hear of it.

import type { GroupWrite, LaunchPlan } from "../schemas/job.ts";
import { type LimitFacts, missingLimits } from "../schemas/limit-plan.ts";
import type { Limits } from "../schemas/limit-spec.ts";
import { limitWords } from "../schemas/limit-words.ts";
import { NOFILE_HOST, NPROC_HOST } from "../schemas/limits.ts";
import { PRLIMIT } from "./limit-host.ts";

const BLOCK_BYTES = 512;
const KIB = 1024;
const CPU_HARD_AFTER_S = 5;
/** The part of memory.max that lies above memory.high. */
const HIGH_PART = 32;
const CPU_PERIOD_US = 100_000;
/** The kernel refuses less. */
const MIN_QUOTA_US = 1_000;
/** Shares of version 1 that weigh as much as the weight 100. */
const SHARES = 1024;

export function planLimits(limits: Limits, facts: LimitFacts): LaunchPlan {
  return {
    steps: steps(limits, facts),
    wrap: nprocWrap(limits, facts),
    writes: writes(limits, facts),
    missing: missingLimits(limits, facts),
  };
}

function steps(limits: Limits, { uid, hard_nofile }: LimitFacts): string[] {
  const { nofile = NOFILE_HOST, cpu_s, fsize, data, address_space, core = 0 } = limits;
  const files = uid === 0 ? nofile : Math.min(nofile, hard_nofile ?? nofile);
  const result = [`ulimit -c ${Math.floor(core / BLOCK_BYTES)}`, `ulimit -n ${files}`];
  if (cpu_s !== undefined) result.push(`ulimit -S -t ${cpu_s}`, `ulimit -H -t ${cpu_s + CPU_HARD_AFTER_S}`);
  if (fsize !== undefined) result.push(`ulimit -f ${Math.ceil(fsize / BLOCK_BYTES)}`);
  if (data !== undefined) result.push(`ulimit -d ${Math.ceil(data / KIB)}`);
  if (address_space !== undefined) result.push(`ulimit -v ${Math.ceil(address_space / KIB)}`);
  return result;
}

function nprocWrap({ nproc = NPROC_HOST }: Limits, { uid, prlimit, hard_nproc }: LimitFacts): string[] {
  if (uid === 0 || !prlimit) return [];
  const held = Math.min(nproc, hard_nproc ?? nproc);
  return [PRLIMIT, `--nproc=${held}:${held}`, "--"];
}

function writes(limits: Limits, { groups, disk }: LimitFacts): GroupWrite[] {
  return [
    ...(groups.memory === 0 ? [] : memory(limits, groups.memory)),
    ...(groups.pids === 0 ? [] : pids(limits)),
    ...(groups.cpu === 0 ? [] : cpu(limits, groups.cpu)),
    ...(groups.io === 0 || disk === undefined ? [] : io(limits, groups.io, disk)),
  ];
}

function memory({ memory: max }: Limits, v: 1 | 2): GroupWrite[] {
  if (max === undefined) return [];
  const asked = limitWords("memory", max);
  // Where swap is not counted there is nothing to forbid.
  return v === 1
    ? [
        { in: "memory", file: "memory.limit_in_bytes", value: String(max), asked },
        { in: "memory", file: "memory.memsw.limit_in_bytes", value: String(max) },
      ]
    : [
        { in: "memory", file: "memory.max", value: String(max), asked },
        { in: "memory", file: "memory.high", value: String(max - Math.ceil(max / HIGH_PART)) },
        { in: "memory", file: "memory.swap.max", value: "0" },
      ];
}

function pids({ pids: max }: Limits): GroupWrite[] {
  if (max === undefined) return [];
  return [{ in: "pids", file: "pids.max", value: String(max), asked: limitWords("pids", max) }];
}

function cpu({ cpus, cpu_weight: weight }: Limits, v: 1 | 2): GroupWrite[] {
  const result: GroupWrite[] = [];
  if (cpus !== undefined) {
    const quota = Math.max(MIN_QUOTA_US, Math.round(cpus * CPU_PERIOD_US));
    const asked = limitWords("cpus", cpus);
    if (v === 2) result.push({ in: "cpu", file: "cpu.max", value: `${quota} ${CPU_PERIOD_US}`, asked });
    else result.push({ in: "cpu", file: "cpu.cfs_quota_us", value: String(quota), asked });
  }
  if (weight !== undefined) {
    const asked = limitWords("cpu_weight", weight);
    const shares = Math.max(2, Math.round((weight * SHARES) / 100));
    if (v === 2) result.push({ in: "cpu", file: "cpu.weight", value: String(weight), asked });
    else result.push({ in: "cpu", file: "cpu.shares", value: String(shares), asked });
  }
  return result;
}

function io({ io_read: read, io_write: write }: Limits, v: 1 | 2, disk: string): GroupWrite[] {
  const both: [string, string, string, number | undefined][] = [
    ["io_read", "rbps", "read", read],
    ["io_write", "wbps", "write", write],
  ];
  return both.flatMap(([name, key, word, value]): GroupWrite[] => {
    if (value === undefined) return [];
    const asked = limitWords(name, value);
    return v === 2
      ? [{ in: "io", file: "io.max", value: `${disk} ${key}=${value}`, asked }]
      : [{ in: "io", file: `blkio.throttle.${word}_bps_device`, value: `${disk} ${value}`, asked }];
  });
}
