// A real bus in a process of its own for benches, with one claimed attempt: the agent whose reads are measured.

import { type ChildProcess, spawn } from "node:child_process";
import { mkdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { type BusClient, connectBus } from "../../bus/client/client.ts";
import { readToken } from "../../bus/client/find.ts";
import { readEndpoint } from "../../bus/paths.ts";
import { HEARTBEAT_MS } from "../../schemas/limits.ts";
import type { ClaimAnswer } from "../../schemas/methods.ts";
import { benchRun } from "./plan.ts";

/** Started with the flags that busctl starts it with. */
export const BUSD_WORDS = [
  "--max-semi-space-size=4",
  join(import.meta.dirname, "..", "..", "dist", "bus", "busd.js"),
];

export interface BusProcess {
  pid: number;
  socket: string;
  agentToken: string;
  /** MB resident. */
  memory(): number;
  end(): Promise<void>;
}

export async function startBus(dir: string, repo: string, base: string): Promise<BusProcess> {
  const common = join(repo, ".git");
  const env = { ...process.env, BUSBAR_STATE_DIR: join(dir, "s"), BUSBAR_RUNTIME_DIR: join(dir, "r") };
  for (const made of [env.BUSBAR_STATE_DIR, env.BUSBAR_RUNTIME_DIR]) mkdirSync(made, { mode: 0o700 });
  const child = spawn(process.execPath, [...BUSD_WORDS, "--repo", common], {
    env,
    stdio: ["ignore", "pipe", "inherit"],
  });
  const socket = await readySocket(child);
  const runtime = readEndpoint(join(common, "busbar", "endpoint.json"));
  if (!runtime) throw new Error("the bus wrote no endpoint");
  const as = (role: "person" | "scheduler") =>
    connectBus({ socket, role, token: readToken(runtime, role), client: "bench" });
  const person = await as("person");
  const scheduler = await as("scheduler");
  const { agent_token: agentToken, attempt } = await claimOne(person, scheduler, { repo: common, base, dir });
  const renewing = setInterval(() => {
    scheduler.call("attempt_update", { run: "bench", task: "task_0", attempt }).catch(() => {}); // the reads would fail
  }, HEARTBEAT_MS);
  return {
    pid: child.pid as number,
    socket,
    agentToken,
    memory: () =>
      Number(/VmRSS:\s+(\d+)/.exec(readFileSync(`/proc/${child.pid}/status`, "utf8"))?.[1]) / 1024,
    end: async () => {
      clearInterval(renewing);
      person.close();
      scheduler.close();
      child.kill("SIGTERM");
      await new Promise((resolve) => (child.exitCode === null ? child.on("exit", resolve) : resolve(0)));
    },
  };
}

/** The path that follows `ready `. */
export function readySocket(child: ChildProcess): Promise<string> {
  return new Promise((resolve, reject) => {
    let text = "";
    child.stdout?.on("data", (chunk: Buffer) => {
      text += chunk;
      const found = /^ready (.*)\n/m.exec(text);
      if (found?.[1]) resolve(found[1]);
    });
    child.on("exit", (code) => reject(new Error(`busd ended with ${code}`)));
    child.on("error", reject);
  });
}

async function claimOne(
  person: BusClient,
  scheduler: BusClient,
  at: { repo: string; base: string; dir: string },
): Promise<ClaimAnswer> {
  const spec = benchRun({ run: "bench", repo: at.repo, base: at.base, tasks: 1 });
  await person.call("submit_run", { spec });
  const worker = "bench-worker";
  await scheduler.call("register_worker", {
    worker,
    host: "here",
    pid: process.pid,
    start_time: "0",
    slots: 1,
  });
  const { tasks } = await scheduler.call("list_tasks", { run: "bench" });
  const state_version = tasks[0]?.state_version ?? 0;
  const order = { run: "bench", task: "task_0", state_version, worker, base: at.base, workspace: at.dir };
  return scheduler.call("claim", order);
}
