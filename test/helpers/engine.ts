// The engine without busctl: the real compiled bus, scheduler and shim on a real repository; runs are submitted as a
// person's client would. Everything is ended and removed after the test.

import { type ChildProcess, spawn } from "node:child_process";
import { existsSync, readFileSync } from "node:fs";
import { join } from "node:path";
import type { TestContext } from "node:test";
import { fileURLToPath } from "node:url";
import { type BusClient, connectBus } from "../../bus/client/client.ts";
import { findBus, readToken } from "../../bus/client/find.ts";
import type { Run, RunSpec, Task, TaskSpec } from "../../schemas/task.ts";
import { processesOf } from "./processes.ts";
import { sh } from "./repo.ts";
import { runSpecOf, specOf } from "./tasks.ts";
import { tempDir } from "./temp.ts";
import { until } from "./wait.ts";

const DIST = fileURLToPath(new URL("../../dist", import.meta.url));

export interface Program {
  child: ChildProcess;
  err(): string;
}

export interface EngineWorld {
  dir: string;
  repo: string;
  person: BusClient;
  /** A connection with the scheduler's rights, while no scheduler lives. */
  asScheduler(): Promise<BusClient>;
  scheduler: Program;
  startScheduler(): Program;
  submit(tasks: TaskSpec[], more?: Partial<RunSpec>): Promise<string>;
  state(run: string): Promise<{ run: Run; task(id: string): Task }>;
  /** Waits until the run cannot move by itself any more. */
  ended(run: string, ms?: number): Promise<{ run: Run; task(id: string): Task }>;
  git(script: string): string;
  log(): string;
}

/** `setup` runs in a fresh repository on branch main. */
export async function engineWorld(
  t: TestContext,
  setup = "echo base > f.txt; git add -A; git commit -qm base",
): Promise<EngineWorld> {
  const dir = tempDir(t, "eng");
  const repo = join(dir, "repo");
  sh(dir, "git init -q -b main repo");
  sh(repo, setup, { W: dir });
  const env = {
    ...process.env,
    BUSBAR_STATE_DIR: join(dir, "state"),
    BUSBAR_RUNTIME_DIR: dir,
    W: dir,
    HOME: dir,
  };
  const common = join(repo, ".git");
  const start = (program: string) => startProgram([join(DIST, program), "--repo", common], env);
  const bus = start("bus/busd.js");
  const found = await until("the bus answers", async () => {
    if (bus.child.exitCode !== null) throw new Error(`busd ended: ${bus.err()}`);
    const { endpoint, state } = await findBus(common);
    return state === "alive" && endpoint;
  });
  const person = await connectBus({
    socket: found.socket,
    role: "person",
    token: readToken(found, "person"),
    client: "test",
  });
  t.after(() => finish(dir, person));
  const logs = join(found.state_dir, "logs");
  const logOf = (name: string) =>
    existsSync(join(logs, name)) ? readFileSync(join(logs, name), "utf8") : "";
  const world: EngineWorld = {
    dir,
    repo,
    person,
    asScheduler: () =>
      connectBus({
        socket: found.socket,
        role: "scheduler",
        token: readToken(found, "scheduler"),
        client: "test",
      }),
    scheduler: start("scheduler/main.js"),
    startScheduler: () => start("scheduler/main.js"),
    async submit(tasks, more = {}) {
      const base = sh(repo, "git rev-parse HEAD");
      const spec = runSpecOf(more.run ?? "r", tasks, { repo: common, base, ...more });
      try {
        return (await person.call("submit_run", { spec })).run;
      } catch (error) {
        throw new Error(`submit_run: ${String(error)}\n${logOf("busd.log").slice(-4000)}`);
      }
    },
    async state(run) {
      const answer = await person.call("get_run", { run });
      return { run: answer.run, task: (id) => answer.tasks.find((task) => task.spec.id === id) as Task };
    },
    async ended(run, ms = 60_000) {
      const over = async () => {
        const { tasks } = await person.call("get_run", { run });
        return tasks.every(isOver);
      };
      await until(`run ${run} is at its end; log:\n${world.log().slice(-4000)}`, over, ms).catch(
        (error: Error) => {
          throw new Error(`${error.message}\n${world.log().slice(-6000)}`);
        },
      );
      return world.state(run);
    },
    git: (script) => sh(repo, script),
    log: () => logOf("scheduler.log"),
  };
  return world;
}

export function isOver({ state }: Task): boolean {
  return (
    state.name === "blocked" ||
    state.name === "cancelled" ||
    (state.name === "passed" && state.merged !== null)
  );
}

/** A task whose agent is a shell line that sees W. */
export function shellTask(id: string, command: string, more: Partial<TaskSpec> = {}): TaskSpec {
  const env = { pass: ["W"], set: {}, secret: [] };
  return specOf(id, { command, acceptance: [{ run: "true" }], env, ...more });
}

function startProgram(args: string[], env: NodeJS.ProcessEnv): Program {
  const child = spawn(process.execPath, args, { env, stdio: ["ignore", "ignore", "pipe"], detached: true });
  let err = "";
  child.stderr?.setEncoding("utf8").on("data", (text: string) => {
    err = (err + text).slice(-8_000);
  });
  return { child, err: () => err };
}

async function finish(dir: string, person: BusClient): Promise<void> {
  await person.call("shutdown", {}).catch(() => {});
  person.close();
  const gone = () => processesOf(dir).length === 0;
  await until("no process is left", gone, 20_000).catch((error: Error) => {
    const left = processesOf(dir);
    for (const one of left) process.kill(one.pid, "SIGKILL");
    throw new Error(`${error.message}: ${left.map((one) => `${one.pid} ${one.command}`).join("; ")}`);
  });
}
