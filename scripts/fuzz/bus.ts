// The real bus in this process: the daemon as busd makes it, on a repository of its own, with a person, a scheduler and
// attempts at work. In the end what lies on its disk must be the state that it had, and the journal must verify.

import { spawnSync } from "node:child_process";
import { mkdirSync, rmSync } from "node:fs";
import { join } from "node:path";
import { type BusClient, connectBus } from "../../bus/client/client.ts";
import { readToken } from "../../bus/client/find.ts";
import type { Daemon } from "../../bus/daemon.ts";
import { type BusPaths, busPaths, readEndpoint } from "../../bus/paths.ts";
import { Store } from "../../bus/state/store.ts";
import { jsonLog, systemClock } from "../../schemas/ports.ts";
import { daemonInProcess } from "../../test/helpers/daemon.ts";
import { dump } from "../../test/helpers/state.ts";
import { makeRepo, pathOf } from "../make-repo.ts";
import { type Facts, specOf } from "./calls.ts";

const TASKS = ["a", "b", "c", "d", "e", "f"];
const FILES = 40;

export interface FuzzedBus {
  socket: string;
  /** Lines of the bus's log so far. */
  log: readonly string[];
  /** A new run with three attempts at work; the run before it is given up. */
  freshFacts(): Promise<Facts>;
  /** Cancels the run of `facts`: whoever waits for one of its attempts is answered. */
  release(facts: Facts): Promise<void>;
  /** Ends the bus. Returns what is wrong with what it left on the disk. */
  end(): Promise<string[]>;
}

export async function startFuzzedBus(dir: string): Promise<FuzzedBus> {
  const repo = join(dir, "repo");
  const base = makeRepo({ dir: repo, files: FILES });
  const env = { BUSBAR_STATE_DIR: join(dir, "s"), BUSBAR_RUNTIME_DIR: join(dir, "r") };
  const workspace = join(dir, "w");
  for (const made of [env.BUSBAR_STATE_DIR, env.BUSBAR_RUNTIME_DIR, workspace])
    mkdirSync(made, { mode: 0o700 });
  const paths = busPaths(join(repo, ".git"), env, process.getuid?.() ?? 0);
  const log: string[] = [];
  const { daemon, store } = await daemonInProcess(paths, (line) => log.push(line));
  const endpoint = readEndpoint(paths.endpoint);
  if (!endpoint) throw new Error("the bus wrote no endpoint");
  const tokens = { person: [readToken(endpoint, "person")], scheduler: [readToken(endpoint, "scheduler")] };
  const as = (role: "person" | "scheduler") =>
    connectBus({ socket: daemon.socket, role, token: tokens[role][0] as string, client: "fuzz" });
  const [person, scheduler] = [await as("person"), await as("scheduler")];
  const known = { base, oids: objectIds(repo), repo: paths.common, workspace };
  let runs = 0;
  return {
    socket: daemon.socket,
    log,
    freshFacts: async () => {
      const run = `f${++runs}`;
      const reads = runs % 2 ? "run" : "dependencies";
      await person.call("submit_run", { spec: specOf(run, known, TASKS, reads) });
      const claims = await claimAll(scheduler, run, known);
      return {
        ...known,
        run,
        earlier: `f${Math.max(1, runs - 1)}`,
        tasks: TASKS,
        paths: [...Array.from({ length: 6 }, (_, i) => pathOf(i)), "src", "no/such/file.ts"],
        tokens: {
          ...tokens,
          agent: claims.map((claim) => claim.agent_token),
          shim: claims.map((claim) => claim.shim_token),
        },
        seq: () => store.seq,
      };
    },
    release: async ({ run }) => {
      await person.call("cancel", { run });
    },
    end: () => endAndCompare({ person, scheduler, daemon, store, paths }),
  };
}

async function claimAll(scheduler: BusClient, run: string, at: { base: string; workspace: string }) {
  const { tasks } = await scheduler.call("list_tasks", { run, states: ["ready"] });
  const { base, workspace } = at;
  return Promise.all(
    tasks.map(({ spec, state_version }) =>
      scheduler.call("claim", { run, task: spec.id, state_version, worker: "w", base, workspace }),
    ),
  );
}

function objectIds(repo: string): string[] {
  const args = ["rev-parse", "HEAD", "HEAD^{tree}", `HEAD:${pathOf(0)}`, `HEAD:${pathOf(1)}`];
  return spawnSync("git", args, { cwd: repo, encoding: "utf8" }).stdout.trim().split("\n");
}

interface Parts {
  person: BusClient;
  scheduler: BusClient;
  daemon: Daemon;
  store: Store;
  paths: BusPaths;
}

/** Ended and started again from checkpoint and journal, and from the journal alone: the same state each time. */
async function endAndCompare({ person, scheduler, daemon, store, paths }: Parts): Promise<string[]> {
  const faults: string[] = [];
  person.close();
  scheduler.close();
  await daemon.stop("fuzzed enough");
  const before = JSON.stringify(dump(store));
  const dir = join(paths.state, "bus");
  for (const from of ["checkpoint and journal", "the journal alone"]) {
    if (from === "the journal alone") rmSync(join(dir, "checkpoint"), { recursive: true });
    const again = await Store.open({ dir, clock: systemClock, log: jsonLog(() => {}) });
    if (JSON.stringify(dump(again)) !== before) faults.push(`another state after a start from ${from}`);
    const { ok, first_bad } = await again.verify();
    if (!ok) faults.push(`the journal does not verify: ${JSON.stringify(first_bad)}`);
    await again.close();
  }
  return faults;
}
