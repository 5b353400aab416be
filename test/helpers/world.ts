// A world for end-to-end tests: a temporary folder W with a real repository W/repo, little agents in W/agents,
// and the real compiled programs, started as a user starts them. When the test ends the bus is taken down, and
// survivors (processes, temporary files) fail the test.

import { type ChildProcess, spawn, spawnSync } from "node:child_process";
import {
  existsSync,
  mkdirSync,
  mkdtempSync,
  readFileSync,
  realpathSync,
  rmSync,
  writeFileSync,
} from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { TestContext } from "node:test";
import { fileURLToPath } from "node:url";
import { connectThin, type ThinClient } from "../../bus/client/thin.ts";
import type { Endpoint } from "../../bus/paths.ts";
import type { JournalRecord } from "../../schemas/events.ts";
import type { Run, Task } from "../../schemas/task.ts";
import { processesOf } from "./processes.ts";
import { until } from "./wait.ts";

export const ROOT = fileURLToPath(new URL("../..", import.meta.url));
export const BUSCTL = join(ROOT, "dist/bus/ctl/main.js");

export interface Ran {
  code: number | null;
  signal: string | null;
  out: string;
  err: string;
  ms: number;
}

export interface PlanTask {
  id: string;
  command?: string;
  allowed_files?: string[];
  acceptance?: unknown[];
  [key: string]: unknown;
}

export interface World {
  W: string;
  repo: string;
  env: Record<string, string>;
  /** Runs a bash script with `set -euo pipefail` in W; throws with its output when it fails. */
  sh(script: string, env?: Record<string, string>): string;
  /** Writes W/agents/<name>.sh and returns the command line that runs it. */
  agent(name: string, script: string): string;
  git(...args: string[]): string;
  /** Writes a plan file; `gate: none` and `sandbox: off` unless given. Returns its path. */
  plan(tasks: PlanTask[], more?: Record<string, unknown>): string;
  busctl(
    args: string[],
    options?: { cwd?: string; env?: Record<string, string>; timeoutMs?: number },
  ): Promise<Ran>;
  start(args: string[], options?: { cwd?: string; env?: Record<string, string> }): Started;
  /** `busctl run FILE` to the end. */
  run(tasks: PlanTask[], more?: Record<string, unknown>): Promise<Ran>;
  bus(): Promise<ThinClient>;
  state(run: string): Promise<{ run: Run; tasks: Map<string, Task> }>;
  audit(filter: Record<string, unknown>): Promise<JournalRecord[]>;
  endpoint(): Endpoint;
  down(): Promise<Ran>;
}

export interface Started {
  child: ChildProcess;
  out(): string;
  err(): string;
  ended: Promise<Ran>;
}

const IDENTITY = {
  GIT_AUTHOR_NAME: "T",
  GIT_AUTHOR_EMAIL: "t@example.com",
  GIT_COMMITTER_NAME: "T",
  GIT_COMMITTER_EMAIL: "t@example.com",
};

/** A world whose repository was made by `setup` (bash, cwd W); default: one commit with f.txt on main. */
export function makeWorld(t: TestContext, setup?: string): World {
  const world = newWorld();
  t.after(() => endWorld(world));
  fillWorld(world, setup);
  return world;
}

/** The same for whoever is no test: `fillWorld` makes its repository, `endWorld` takes it down and away. */
export function newWorld(): World {
  const W = realpathSync(mkdtempSync(join(tmpdir(), "bb-w-")));
  mkdirSync(join(W, "agents"));
  mkdirSync(join(W, "home"));
  const env: Record<string, string> = {
    PATH: process.env.PATH ?? "/usr/bin:/bin",
    HOME: join(W, "home"),
    W,
    LANG: "C.UTF-8",
    BUSBAR_STATE_DIR: join(W, "state"),
    BUSBAR_RUNTIME_DIR: W,
    NO_COLOR: "1",
  };
  return build(W, env);
}

export function fillWorld(world: World, setup?: string): void {
  world.sh(setup ?? "git init -q -b main repo; cd repo; echo base > f.txt; git add -A; git commit -qm base");
}

function build(W: string, env: Record<string, string>): World {
  const repo = join(W, "repo");
  const world: World = {
    W,
    repo,
    env,
    sh: (script, more = {}) => bash(script, W, { ...env, ...IDENTITY, ...more }),
    agent(name, script) {
      writeFileSync(join(W, "agents", `${name}.sh`), script);
      return `bash ${W}/agents/${name}.sh`;
    },
    git: (...args) => bash('git -C repo "$@"', W, { ...env, ...IDENTITY }, args).trimEnd(),
    plan(tasks, more = {}) {
      const file = join(W, "plan.json");
      const plan = {
        run: "r",
        repo,
        gate: "none",
        // Agents of tests leave their marks beside the workspace.
        sandbox: "off",
        defaults: { env: { pass: ["W"] } },
        ...more,
        tasks: tasks.map(filled),
      };
      writeFileSync(file, JSON.stringify(plan, null, 1));
      return file;
    },
    busctl: (args, options) => started(args, { cwd: repo, ...options }, env).ended,
    start: (args, options) => started(args, { cwd: repo, ...options }, env),
    run: (tasks, more) => world.busctl(["run", world.plan(tasks, more)]),
    async bus() {
      const { socket, runtime_dir } = world.endpoint();
      const token = readFileSync(join(runtime_dir, "tokens", "person"), "utf8").trim();
      return connectThin({ socket, role: "person", token, client: "test" });
    },
    async state(run) {
      const got = await ask<{ run: Run; tasks: Task[] }>(world, "get_run", { run });
      return { run: got.run, tasks: new Map(got.tasks.map((task) => [task.spec.id, task])) };
    },
    async audit(filter) {
      return (await ask<{ records: JournalRecord[] }>(world, "query_audit", { limit: 10_000, ...filter }))
        .records;
    },
    endpoint: () =>
      JSON.parse(
        bash(
          `cat "$(git -C repo rev-parse --path-format=absolute --git-common-dir)/busbar/endpoint.json"`,
          W,
          env,
        ),
      ),
    down: () => world.busctl(["down"], { cwd: repo }),
  };
  return world;
}

async function ask<T>(world: World, method: string, params: unknown): Promise<T> {
  const client = await world.bus();
  try {
    return (await client.call(method, params)) as T;
  } finally {
    client.close();
  }
}

/** What every task of a case has unless it says otherwise. */
function filled(task: PlanTask): PlanTask {
  return { retries: 0, allowed_files: ["**"], acceptance: ["true"], ...task };
}

function bash(script: string, cwd: string, env: Record<string, string>, args: string[] = []): string {
  const run = spawnSyncText(["-c", `set -euo pipefail\n${script}`, "bash", ...args], cwd, env);
  if (run.status !== 0)
    throw new Error(`script failed (${run.status}): ${script}\n${run.stdout}\n${run.stderr}`);
  return run.stdout;
}

function spawnSyncText(args: string[], cwd: string, env: Record<string, string>) {
  const plain = { GIT_CONFIG_GLOBAL: "/dev/null", GIT_CONFIG_NOSYSTEM: "1", ...env };
  return spawnSync("bash", args, { cwd, env: plain, encoding: "utf8", timeout: 60_000, maxBuffer: 64 << 20 });
}

function started(
  args: string[],
  options: { cwd?: string; env?: Record<string, string>; timeoutMs?: number },
  env: Record<string, string>,
): Started {
  const begun = performance.now();
  const child = spawn(process.execPath, [BUSCTL, ...args], {
    cwd: options.cwd,
    env: { ...env, ...options.env },
    stdio: ["ignore", "pipe", "pipe"],
  });
  let out = "";
  let err = "";
  child.stdout?.setEncoding("utf8").on("data", (text: string) => (out += text));
  child.stderr?.setEncoding("utf8").on("data", (text: string) => (err += text));
  const timer = setTimeout(() => {
    err += `\n[test] busctl ${args.join(" ")} did not end in time`;
    child.kill("SIGKILL");
  }, options.timeoutMs ?? 120_000);
  const ended = new Promise<Ran>((resolve, reject) => {
    child.once("error", reject);
    child.once("close", (code, signal) => {
      clearTimeout(timer);
      resolve({ code, signal, out, err, ms: performance.now() - begun });
    });
  });
  return { child, out: () => out, err: () => err, ended };
}

/** Takes the bus down and looks for what was left: processes that know W, sockets, locks. */
export async function endWorld(
  world: World,
  keep: boolean = process.env.BUSBAR_TEST_KEEP === "1",
): Promise<void> {
  try {
    if (existsSync(join(world.repo))) await world.busctl(["down"], { cwd: world.repo, timeoutMs: 120_000 });
    await until(`no process of ${world.W}`, () => processesOf(world.W).length === 0, 30_000).catch(
      (error: Error) => {
        const left = processesOf(world.W);
        for (const one of left) process.kill(one.pid, "SIGKILL");
        throw new Error(`${error.message}: ${left.map((one) => `${one.pid} ${one.command}`).join("; ")}`);
      },
    );
  } finally {
    if (!keep) rmSync(world.W, { recursive: true, force: true, maxRetries: 5 });
  }
}
