// The way back after a death: from the start of busd's process to its first answer about the run, with 200 tasks, 20 of
// them at work, and 100,000 events that the checkpoint has, or has not, seen. Floor: a bare node that reads the journal.

import { spawn, spawnSync } from "node:child_process";
import { cpSync, mkdirSync, readdirSync, rmSync } from "node:fs";
import { join } from "node:path";
import { connectBus } from "../../bus/client/client.ts";
import { readToken } from "../../bus/client/find.ts";
import { busPaths } from "../../bus/paths.ts";
import { Store } from "../../bus/state/store.ts";
import { systemClock } from "../../schemas/ports.ts";
import { makeRepo } from "../make-repo.ts";
import { type Bench, type BenchContext, interleave, type Row, timed } from "./bench.ts";
import { BUSD_WORDS, readySocket } from "./bus-process.ts";
import { addHistory, beginHistory, type History } from "./history.ts";

const EVENTS = 100_000;
const TASKS = 200;
const RUNNING = 20;

export const recovery: Bench = {
  name: "recovery",
  about: `from the start of the bus to its first answer: ${TASKS} tasks, ${RUNNING} running, ${EVENTS} events`,
  run: measure,
};

async function measure(ctx: BenchContext): Promise<Row[]> {
  const repo = join(ctx.dir, "repo");
  const base = makeRepo({ dir: repo, files: 20 });
  const common = join(repo, ".git");
  const history: History = {
    run: "long",
    repo: common,
    base,
    workspace: ctx.dir,
    tasks: TASKS,
    running: RUNNING,
  };
  const events = ctx.quick ? EVENTS / 10 : EVENTS;
  const since = await writeState(join(ctx.dir, "since"), common, history, async (store, add) => {
    await store.checkpoint();
    await add(events);
  });
  const before = await writeState(join(ctx.dir, "before"), common, history, async (store, add) => {
    await add(events);
    await store.checkpoint();
  });
  const m = await interleave(ctx.quick ? 1 : 3, {
    since: (round) => back(since, join(ctx.dir, `since-${round}`), common),
    before: (round) => back(before, join(ctx.dir, `before-${round}`), common),
    floor: () => timed(() => readAll(busPaths(common, stateEnv(since), uid()).state)),
  });
  const floor = { name: "node reading the journal", value: m.floor };
  return [
    {
      measure: `back with ${events} events since the checkpoint`,
      unit: "ms",
      ours: m.since,
      floor,
      target: 2_000,
    },
    { measure: `back with ${events} events before it`, unit: "ms", ours: m.before, floor, target: 2_000 },
  ];
}

const uid = () => process.getuid?.() ?? 0;
const stateEnv = (dir: string) => ({ BUSBAR_STATE_DIR: dir, BUSBAR_RUNTIME_DIR: `${dir}.r` });

/** Leaves the state as a bus leaves it that is killed after `fill`. Returns the directory. */
async function writeState(
  dir: string,
  common: string,
  history: History,
  fill: (store: Store, add: (events: number) => Promise<void>) => Promise<void>,
): Promise<string> {
  const at = join(busPaths(common, stateEnv(dir), uid()).state, "bus");
  mkdirSync(at, { recursive: true, mode: 0o700 });
  const quiet = { info: () => {}, warn: () => {}, error: () => {} };
  const store = await Store.open({ dir: at, clock: systemClock, log: quiet });
  await beginHistory(store, history);
  await fill(store, (events) => addHistory(store, history, events));
  const killed = `${dir}.killed`;
  cpSync(dir, killed, { recursive: true });
  await store.close(); // with a checkpoint, which the copy does not have
  rmSync(dir, { recursive: true });
  return killed;
}

/** Milliseconds from the start of the process to the answer; on a copy, since a start writes a checkpoint. */
async function back(state: string, copy: string, common: string): Promise<number> {
  cpSync(state, copy, { recursive: true });
  const env = { ...process.env, ...stateEnv(copy) };
  mkdirSync(env.BUSBAR_RUNTIME_DIR, { mode: 0o700 });
  const started = performance.now();
  const child = spawn(process.execPath, [...BUSD_WORDS, "--repo", common], {
    env,
    stdio: ["ignore", "pipe", "inherit"],
  });
  const ended = new Promise((resolve) => child.once("exit", resolve));
  try {
    const socket = await readySocket(child);
    const token = readToken({ runtime_dir: busPaths(common, env, uid()).runtime }, "person");
    const client = await connectBus({ socket, role: "person", token, client: "bench" });
    const { tasks } = await client.call("get_run", { run: "long" });
    const took = performance.now() - started;
    client.close();
    if (tasks.filter((task) => task.state.name === "running").length !== RUNNING)
      throw new Error("not all running tasks came back");
    return took;
  } finally {
    child.kill("SIGKILL");
    await ended;
    for (const left of [copy, env.BUSBAR_RUNTIME_DIR]) rmSync(left, { recursive: true, force: true });
  }
}

function readAll(state: string): void {
  const dir = join(state, "bus", "journal");
  const files = readdirSync(dir).map((name) => join(dir, name));
  const program =
    "let n = 0; for (const f of process.argv.slice(1)) n += require('fs').readFileSync(f).length; if (!n) process.exit(1)";
  const { status } = spawnSync(process.execPath, ["-e", program, ...files]);
  if (status !== 0) throw new Error("the floor read nothing");
}
