// Starting work: trivial tasks through the real shim against bare spawns, and the arithmetic of a large graph.
//
// The shim registers before its process starts and reports its end, so a bus is needed: a line server in this process
// that answers all calls (fake-bus.ts). What is measured is launch, register, process, outbox, report, end.

import { spawn } from "node:child_process";
import { join } from "node:path";
import { checkGraph } from "../../bus/state/graph.ts";
import { launchShim, type ShimProgram } from "../../scheduler/launch.ts";
import { type Bench, type BenchContext, interleave, type Row, timed } from "./bench.ts";
import { startFakeBus } from "./fake-bus.ts";
import { bundledShim, shimJob } from "./shim-job.ts";

const AT_ONCE = 20;
const DAG = 10_000;

export const dispatch: Bench = {
  name: "dispatch",
  about: `trivial tasks, ${AT_ONCE} at once; a graph of ${DAG} tasks`,
  run: measure,
};

async function measure(ctx: BenchContext): Promise<Row[]> {
  const tasks = ctx.quick ? 60 : 1_000;
  const bus = await startFakeBus(join(ctx.dir, "bus.sock"));
  const shim = bundledShim();
  try {
    const m = await interleave(ctx.quick ? 1 : 3, {
      shim: async (round) =>
        rate(tasks, await inParallel(tasks, (i) => throughShim(ctx.dir, bus.path, shim, round, i))),
      node: async () => rate(tasks, await inParallel(tasks, () => end(process.execPath, ["-e", ""]))),
      bare: async () => rate(tasks, await inParallel(tasks, () => end("/bin/true", []))),
    });
    if (bus.completed === 0) throw new Error("no shim reported its end");
    const graph = await interleave(ctx.quick ? 3 : 9, { ours: () => timed(() => checkGraph(nodes())) });
    return [
      {
        measure: `${tasks} trivial tasks through the shim`,
        unit: "/s",
        ours: m.shim,
        floor: { name: "bare spawn of /bin/true", value: m.bare },
        peer: { name: "bare spawn of an empty node", value: m.node },
        target: 400,
      },
      { measure: `graph of ${DAG} checked and ordered`, unit: "ms", ours: graph.ours, target: 50 },
    ];
  } finally {
    bus.close();
  }
}

const rate = (tasks: number, ms: number) => (tasks * 1_000) / ms;

function inParallel(count: number, one: (i: number) => Promise<unknown>): Promise<number> {
  let next = 0;
  const worker = async () => {
    for (let i = next++; i < count; i = next++) await one(i);
  };
  return timed(() => Promise.all(Array.from({ length: AT_ONCE }, worker)));
}

function end(program: string, args: string[]): Promise<void> {
  return new Promise((resolve, reject) => {
    spawn(program, args, { stdio: "ignore" })
      .on("error", reject)
      .on("close", () => resolve());
  });
}

async function throughShim(
  top: string,
  socket: string,
  shim: ShimProgram,
  round: number,
  i: number,
): Promise<void> {
  const ref = { run: "bench", task: `t${i}`, attempt: round + 1 };
  const job = shimJob(join(top, "jobs", `${round}-${i}`), socket, ref, ["/bin/true"]);
  const { how, words } = await (await launchShim(shim, job, process.env)).ended;
  if (how !== "exit 0") throw new Error(`the shim ended (${how}): ${words}`);
}

/** 100 layers of 100; each task waits for two of the layer before. */
function nodes(): { id: string; depends_on: string[] }[] {
  return Array.from({ length: DAG }, (_, i) => {
    const before = i - 100;
    const depends_on = before < 0 ? [] : [`t${before}`, `t${before - (before % 100) + ((before * 7) % 100)}`];
    return { id: `t${i}`, depends_on };
  });
}
