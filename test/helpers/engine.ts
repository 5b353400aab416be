// The engine without busctl: the real compiled bus, scheduler and shim on a real repository; runs are submitted as a
// person's client would. Everything is ended and removed after the test.

import { type ChildProcess, spawn } from "node:child_process";
import { existsSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import type { TestContext } from "node:test";
import { fileURLToPath } from "node:url";
import { type BusClient, connectBus } from "../../bus/client/client.ts";
import { FAULT_VARIABLE } from "../../bus/client/fault.ts";
import { findBus, readToken } from "../../bus/client/find.ts";
import type { Endpoint } from "../../bus/paths.ts";
import type { FaultPoint } from "../../schemas/fault-points.ts";
import type { Run, RunSpec, Task, TaskSpec } from "../../schemas/task.ts";
import { isAlive, processesOf } from "./processes.ts";
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
  /** `more`: further arguments. */
  startScheduler(more?: string[]): Program;
  bus: Program;
  /** The bus again, after it was killed; `person` is connected anew. */
  startBus(): Promise<void>;
  /** SIGKILL, and waits until it is gone. */
  kill(program: Program): Promise<void>;
  /** pid of the newest attempt's shim, as its pid file says. */
  shimOf(run: string, task: string): Promise<number>;
  submit(tasks: TaskSpec[], more?: Partial<RunSpec>): Promise<string>;
  state(run: string): Promise<{ run: Run; task(id: string): Task }>;
  /** Waits until the run cannot move by itself any more. */
  ended(run: string, ms?: number): Promise<{ run: Run; task(id: string): Task }>;
  git(script: string): string;
  log(): string;
  /** Whoever passes this point next dies there (bus/client/fault.ts); gives the file, which goes when it did. */
  arm(point: FaultPoint): string;
  /** Whether the point was passed by anybody. */
  passed(point: FaultPoint): boolean;
}

/** `setup` runs in a fresh repository on branch main. */
export async function engineWorld(
  t: TestContext,
  setup = "echo base > f.txt; git add -A; git commit -qm base",
  options: { config?: object; schedulerArgs?: string[] } = {},
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
    BUSBAR_CONFIG: join(dir, "config.json"),
    [FAULT_VARIABLE]: join(dir, "faults"),
  };
  writeFileSync(env.BUSBAR_CONFIG, JSON.stringify(options.config ?? {}));
  const common = join(repo, ".git");
  const start = (program: string, more: string[] = []) =>
    startProgram([join(DIST, program), "--repo", common, ...more], env);
  const bus = start("bus/busd.js");
  const { found, person } = await meet(common, bus);
  t.after(() => finish(dir, world.person));
  const logOf = (name: string) => read(join(found.state_dir, "logs", name));
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
    scheduler: start("scheduler/main.js", options.schedulerArgs),
    startScheduler: (more = []) => {
      world.scheduler = start("scheduler/main.js", more);
      return world.scheduler;
    },
    bus,
    async startBus() {
      world.person.close();
      world.bus = start("bus/busd.js");
      world.person = (await meet(common, world.bus)).person;
    },
    kill,
    async shimOf(run, id) {
      const dir = (await world.state(run)).task(id).attempts.at(-1)?.workspace ?? "";
      return await until("the pid file", () => pidIn(join(dir, "shim.json")));
    },
    async submit(tasks, more = {}) {
      const base = sh(repo, "git rev-parse HEAD");
      const spec = runSpecOf(more.run ?? "r", tasks, { repo: common, base, ...more });
      try {
        return (await world.person.call("submit_run", { spec })).run;
      } catch (error) {
        throw new Error(`submit_run: ${String(error)}\n${logOf("busd.log").slice(-4000)}`);
      }
    },
    async state(run) {
      const answer = await world.person.call("get_run", { run });
      return { run: answer.run, task: (id) => answer.tasks.find((task) => task.spec.id === id) as Task };
    },
    async ended(run, ms = 60_000) {
      const over = async () => (await world.person.call("get_run", { run })).tasks.every(isOver);
      await until(`run ${run} is at its end`, over, ms).catch((error: Error) => {
        throw new Error(`${error.message}\n${world.log().slice(-6000)}`);
      });
      return world.state(run);
    },
    git: (script) => sh(repo, script),
    log: () => logOf("scheduler.log"),
    ...faultsIn(join(dir, "faults")),
  };
  return world;
}

function faultsIn(dir: string): Pick<EngineWorld, "arm" | "passed"> {
  return {
    arm(point) {
      const file = join(dir, point);
      writeFileSync(file, "");
      return file;
    },
    passed: (point) => existsSync(join(dir, "passed", point)),
  };
}

function read(file: string): string {
  return existsSync(file) ? readFileSync(file, "utf8") : "";
}

async function kill({ child }: Program): Promise<void> {
  child.kill("SIGKILL");
  await until("it is gone", () => !isAlive(child.pid ?? 0));
}

/** The bus that this program is, once it answers. */
async function meet(common: string, bus: Program): Promise<{ found: Endpoint; person: BusClient }> {
  const found = await until("the bus answers", async () => {
    if (bus.child.exitCode !== null) throw new Error(`busd ended: ${bus.err()}`);
    const { endpoint, state } = await findBus(common);
    return state === "alive" && endpoint?.pid === bus.child.pid && endpoint;
  });
  const { socket } = found;
  const token = readToken(found, "person");
  return { found, person: await connectBus({ socket, role: "person", token, client: "test" }) };
}

/** The pid that stands in a file, alone or as `pid` of JSON; 0 while there is none. */
export function pidIn(file: string): number {
  try {
    const text = readFileSync(file, "utf8");
    return text.startsWith("{") ? Number((JSON.parse(text) as { pid: number }).pid) : Number(text);
  } catch {
    return 0;
  }
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
  await until("no process is left", gone, 30_000).catch((error: Error) => {
    const left = processesOf(dir);
    for (const one of left) process.kill(one.pid, "SIGKILL");
    throw new Error(`${error.message}: ${left.map((one) => `${one.pid} ${one.command}`).join("; ")}`);
  });
  // The directory was removed before (temp.ts); what was still at work may have made a part of it again.
  rmSync(dir, { recursive: true, force: true });
}
