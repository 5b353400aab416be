// What a shim costs: from its launch to its `register` at the bus, and its own memory while it watches a sleeping process.
// Floor: a Node that only connects to the socket.

import { type ChildProcess, spawn } from "node:child_process";
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { launchShim } from "../../scheduler/launch.ts";
import { type Bench, type BenchContext, interleave, median, type Row } from "./bench.ts";
import { type FakeBus, startFakeBus } from "./fake-bus.ts";
import { bundledShim, shimJob } from "./shim-job.ts";

const AT_ONCE = 10;
const FLOOR = 'require(\'net\').connect(process.argv[1]).write(\'{"id":1,"method":"register"}\\n\')';

export const shim: Bench = {
  name: "shim",
  about: `start and memory of a shim, ${AT_ONCE} of them alive`,
  run: measure,
};

async function measure(ctx: BenchContext): Promise<Row[]> {
  const bus = await startFakeBus(join(ctx.dir, "bus.sock"));
  const pids: number[] = [];
  const floors: ChildProcess[] = [];
  try {
    const rounds = ctx.quick ? 3 : AT_ONCE;
    const m = await interleave(rounds, {
      ours: (round) =>
        untilRegistered(bus, async () => {
          const ref = { run: "bench", task: `t${round}`, attempt: 1 };
          const job = shimJob(join(ctx.dir, `job${round}`), bus.path, ref, ["/bin/sleep", "60"]);
          pids.push((await launchShim(bundledShim(), job, process.env)).pid);
        }),
      floor: (round) =>
        untilRegistered(bus, async () => {
          const env = { PATH: process.env.PATH ?? "" };
          floors[round] = spawn(process.execPath, ["-e", FLOOR, bus.path], { env, stdio: "ignore" });
        }),
    });
    const anonymous = (list: number[]) => median(list.map((pid) => smaps(pid, "Anonymous")));
    const shared = (list: number[]) => median(list.map((pid) => smaps(pid, "Pss")));
    const floorPids = floors.map((child) => child.pid as number);
    return [
      {
        measure: "launch to register",
        unit: "ms",
        ours: m.ours,
        floor: { name: "node that connects", value: m.floor },
        target: 60,
      },
      {
        measure: "own memory of a shim",
        unit: "MB",
        ours: anonymous(pids),
        floor: { name: "node that connects", value: anonymous(floorPids) },
        target: 7,
      },
      {
        measure: `PSS of one of ${rounds} shims`,
        unit: "MB",
        ours: shared(pids),
        floor: { name: "node that connects", value: shared(floorPids) },
      },
    ];
  } finally {
    for (const pid of pids) process.kill(pid, "SIGTERM");
    for (const child of floors) child.kill("SIGKILL");
    await waitFor(() => bus.completed >= pids.length);
    bus.close();
  }
}

async function untilRegistered(bus: FakeBus, start: () => Promise<unknown>): Promise<number> {
  const before = bus.registered;
  const started = performance.now();
  await start();
  await waitFor(() => bus.registered > before);
  return performance.now() - started;
}

async function waitFor(condition: () => boolean): Promise<void> {
  const end = performance.now() + 20_000;
  while (!condition()) {
    if (performance.now() > end) throw new Error("a shim did not answer within 20 s");
    await new Promise((resolve) => setTimeout(resolve, 1));
  }
}

/** MB of one line of smaps_rollup. */
function smaps(pid: number, line: string): number {
  const text = readFileSync(`/proc/${pid}/smaps_rollup`, "utf8");
  return Number(new RegExp(`^${line}:\\s+(\\d+)`, "m").exec(text)?.[1]) / 1024;
}
