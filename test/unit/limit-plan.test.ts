// What is asked of limits, what a host can hold, and how it is set.

import assert from "node:assert/strict";
import test from "node:test";
import { planLimits } from "../../scheduler/limit-plan.ts";
import { inForceLine, type LimitFacts, missingLimits, mustHold, stricter } from "../../schemas/limit-plan.ts";
import type { Limits } from "../../schemas/limit-spec.ts";
import { limitsLine } from "../../schemas/limit-words.ts";
import { LIMIT_PRESETS } from "../../schemas/limits.ts";

const BARE: LimitFacts = {
  uid: 1000,
  hard_nofile: 4096,
  hard_nproc: 5000,
  prlimit: true,
  groups: { kill: 0, memory: 0, pids: 0, cpu: 0, io: 0 },
};
const V1: LimitFacts = {
  uid: 0,
  prlimit: true,
  disk: "259:2",
  groups: { kill: 2, memory: 1, pids: 1, cpu: 1, io: 1 },
};
const V2: LimitFacts = { ...V1, groups: { kill: 2, memory: 2, pids: 2, cpu: 2, io: 2 } };
const ALL: Limits = {
  memory: 64 * 1024 ** 2,
  pids: 40,
  cpus: 0.5,
  cpu_weight: 50,
  io_read: 4096,
  io_write: 8192,
};
const values = (limits: Limits, facts: LimitFacts) =>
  planLimits(limits, facts).writes.map(({ in: where, file, value }) => `${where} ${file} ${value}`);

test("L2: limits of a process: open files alike soft and hard, no core dump, what is larger than the host's is told", () => {
  const { steps, wrap, missing } = planLimits({ nofile: 1024, cpu_s: 10, fsize: 1025 }, BARE);
  assert.deepEqual(steps, [
    "ulimit -c 0",
    "ulimit -n 1024",
    "ulimit -S -t 10",
    "ulimit -H -t 15",
    "ulimit -f 3",
  ]);
  assert.deepEqual(wrap, ["/usr/bin/prlimit", "--nproc=5000:5000", "--"]);
  assert.deepEqual(missing, []);
  const more = planLimits({ nofile: 9000, nproc: 64, data: 4096, address_space: 2 ** 34, core: 1024 }, BARE);
  assert.deepEqual(more.steps, ["ulimit -c 2", "ulimit -n 4096", "ulimit -d 4", "ulimit -v 16777216"]);
  assert.equal(more.wrap[1], "--nproc=64:64");
  assert.deepEqual(more.missing, ["nofile 9000: the hard limit here is 4096"]);
});

test("L2: root is not held by nproc, and without prlimit nobody is: said only where it was asked for", () => {
  assert.deepEqual(planLimits({ nproc: 64 }, V1).missing, ["nproc 64: root is not held by it"]);
  assert.deepEqual(planLimits({ nproc: 64 }, { ...BARE, prlimit: false }).missing, [
    "nproc 64: prlimit is not installed",
  ]);
  assert.deepEqual([planLimits({}, V1).missing, planLimits({}, V1).wrap], [[], []]);
});

test("L3: version 2: no swap, a little room between high and max, weight and quota, the disk by number", () => {
  assert.deepEqual(values(ALL, V2), [
    "memory memory.max 67108864",
    "memory memory.high 65011712",
    "memory memory.swap.max 0",
    "pids pids.max 40",
    "cpu cpu.max 50000 100000",
    "cpu cpu.weight 50",
    "io io.max 259:2 rbps=4096",
    "io io.max 259:2 wbps=8192",
  ]);
});

test("L3: version 1: the same by its own files", () => {
  assert.deepEqual(values(ALL, V1), [
    "memory memory.limit_in_bytes 67108864",
    "memory memory.memsw.limit_in_bytes 67108864",
    "pids pids.max 40",
    "cpu cpu.cfs_quota_us 50000",
    "cpu cpu.shares 512",
    "io blkio.throttle.read_bps_device 259:2 4096",
    "io blkio.throttle.write_bps_device 259:2 8192",
  ]);
  assert.deepEqual(values({ cpus: 0.001 }, V1), ["cpu cpu.cfs_quota_us 1000"]);
  assert.deepEqual(values({}, V2), []);
});

test("L3: what no group holds here is named with its value; disk, CPU time and file size need none", () => {
  assert.deepEqual(missingLimits({ ...ALL, disk: 1, cpu_s: 1, cpu_total_s: 9, fsize: 1 }, BARE), [
    "memory 64 MiB: no control group for it here",
    "pids 40: no control group for it here",
    "cpus 0.5: no control group for it here",
    "cpu_weight 50: no control group for it here",
    "io_read 4 KiB/s: no control group for it here",
    "io_write 8 KiB/s: no control group for it here",
  ]);
  const { disk: _, ...diskless } = V2;
  assert.deepEqual(missingLimits({ io_read: 1 }, diskless), [
    "io_read 1 B/s: the workspaces lie on no disk of their own",
  ]);
  assert.equal(inForceLine(V2).split("; ")[0], "kill, memory, pids, cpu, io by control group v2");
  assert.equal(
    inForceLine(BARE),
    "files, CPU time, file size, nproc by ulimit; not held: kill, memory, pids, cpu, io",
  );
});

test("L3: strict: nothing starts where a limit cannot be held, and the error names each", () => {
  mustHold({ memory: 5 }, BARE, "task a");
  mustHold({ memory: 5, strict: true }, V1, "task a");
  assert.throws(() => mustHold({ memory: 5, pids: 3, strict: true }, BARE, "task a"), {
    code: "LIMIT_NOT_HELD",
    message: /task a is not started: .* memory 5 B: no control group .*; pids 3: no control group/,
  });
});

test("L3: of plan and host the stricter counts, for every limit; strict where one of them is", () => {
  assert.deepEqual(stricter({ memory: 5, pids: 9 }, { memory: 7, pids: 3, nofile: 64 }), {
    memory: 5,
    pids: 3,
    nofile: 64,
  });
  assert.deepEqual(stricter({ strict: true }, { cpus: 0.5, strict: false }), { strict: true, cpus: 0.5 });
  assert.deepEqual(stricter({}, {}), {});
});

test("L3: a preset in words", () => {
  assert.equal(
    limitsLine({ ...LIMIT_PRESETS.medium, cpu_s: 9, strict: true }),
    "memory 1 GiB, pids 256, cpus 0.5, nofile 1024, disk 4 GiB, cpu 9 s, strict",
  );
});
