// Starts the shim as the program it is, on a job, with a fake bus; and ends everything when the test is over.

import { type ChildProcess, spawn } from "node:child_process";
import { randomBytes } from "node:crypto";
import { mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import type { TestContext } from "node:test";
import { fileURLToPath } from "node:url";
import { buildSync } from "esbuild";
import { planLimits } from "../../scheduler/limit-plan.ts";
import type { Outcome, ShimJob } from "../../schemas/job.ts";
import { type FakeBus, fakeBus } from "./fake-bus.ts";
import { NO_GROUPS } from "./limit-facts.ts";
import { noSurvivors } from "./survivors.ts";
import { tempDir } from "./temp.ts";
import { until } from "./wait.ts";

const ROOT = fileURLToPath(new URL("../..", import.meta.url));
export const AGENTS = join(ROOT, "test/fixtures/agents-shim");

let bundle: Buffer | undefined;

/** The one file that is shipped, made from the sources as they are now. */
export function shimBundle(): Buffer {
  if (bundle) return bundle;
  const built = buildSync({
    entryPoints: [join(ROOT, "shim/bus-shim.ts")],
    bundle: true,
    minify: true,
    platform: "node",
    format: "cjs",
    target: "node20",
    write: false,
  });
  bundle = Buffer.from(built.outputFiles[0]?.contents ?? []);
  return bundle;
}

export interface ShimRun {
  job: ShimJob;
  bus: FakeBus;
  child: ChildProcess;
  /** What the shim said on stderr. */
  said(): string;
  exited: Promise<number | null>;
  log(): string;
  outbox(): Outcome;
  exists(file: string): boolean;
  /** The outcome that the bus was told, when the shim has ended. */
  end(ms?: number): Promise<Outcome>;
}

export interface World {
  dir: string;
  bus: FakeBus;
  /** Environment entry that everything started in this world carries. */
  entry: string;
  job(argv: string[], over?: Partial<ShimJob>): ShimJob;
  start(job: ShimJob): ShimRun;
}

/** A directory, a fake bus that is up, and jobs that are marked so that nothing is left behind unseen. */
export async function shimWorld(t: TestContext): Promise<World> {
  const dir = tempDir(t, "shim");
  const bus = await fakeBus(t, join(dir, "bus.sock"));
  const world = randomBytes(8).toString("hex");
  const entry = `BB_TEST_WORLD=${world}`;
  const program = join(dir, "bus-shim.cjs");
  writeFileSync(program, shimBundle());
  mkdirSync(join(dir, "a"), { mode: 0o700 });
  mkdirSync(join(dir, "work"));
  const shims: ChildProcess[] = [];
  t.after(async () => {
    for (const child of shims)
      if (child.exitCode === null && child.signalCode === null) child.kill("SIGKILL");
    await noSurvivors(entry);
  });
  const job = (argv: string[], over: Partial<ShimJob> = {}): ShimJob => ({
    v: 1,
    ref: { run: "r", task: "t", attempt: 1 },
    kind: "agent",
    name: "agent",
    argv,
    cwd: join(dir, "work"),
    dir: join(dir, "a"),
    files: { log: "agent.log", outbox: "outbox.json", done: "status.done", pid: "shim.json" },
    secrets: [],
    timeout_ms: 20_000,
    grace_ms: 500,
    limits: {},
    writes_in: dir,
    launch: planLimits(over.limits ?? {}, NO_GROUPS),
    bus: { socket: bus.socket, shim_token: "shim-token-0123456789", agent_token: "agent-token-0123456789" },
    ...over,
    env: { PATH: process.env.PATH ?? "/usr/bin:/bin", BB_TEST_WORLD: world, W: dir, ...over.env },
  });
  return { dir, bus, entry, job, start: (j) => startShim(program, j, bus, shims) };
}

function startShim(program: string, job: ShimJob, bus: FakeBus, shims: ChildProcess[]): ShimRun {
  const child = spawn(process.execPath, [program], {
    env: { PATH: "/usr/bin:/bin", SHIM_OWN: "must-not-get-through" },
    stdio: ["pipe", "ignore", "pipe"],
  });
  shims.push(child);
  let said = "";
  child.stderr?.on("data", (chunk) => {
    said += chunk;
  });
  child.stdin?.end(`${JSON.stringify(job)}\n`);
  const exited = new Promise<number | null>((resolve) => child.once("exit", (code) => resolve(code)));
  const read = (file: string) => readFileSync(join(job.dir, file), "utf8");
  const run: ShimRun = {
    job,
    bus,
    child,
    said: () => said,
    exited,
    log: () => read(job.files.log),
    outbox: () => JSON.parse(read(job.files.outbox)) as Outcome,
    exists: (file) => {
      try {
        read(file);
        return true;
      } catch {
        return false;
      }
    },
    end: async (ms = 15_000) => {
      await until(
        `the shim to end; it said: ${said}`,
        () => child.exitCode !== null || child.signalCode !== null,
        ms,
      );
      const told = bus.of("complete").at(-1)?.params.outcome;
      if (!told) throw new Error(`the bus was told no outcome; the shim said: ${said}`);
      return told as Outcome;
    },
  };
  return run;
}
