// Load: trivial tasks in a random graph on a repository of 5,000 files, 20 slots, to the end. The bus stays small,
// and nothing is left: no process, no descriptor, no lock, no temporary file. Every run of the tests takes a share of
// 40 tasks; BUSBAR_LOAD_TASKS=200 is the whole (some minutes, 5 GB of disk).

import assert from "node:assert/strict";
import { mkdirSync, readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { test } from "node:test";
import { makeRepo } from "../../scripts/make-repo.ts";
import { assertInvariants, lookAtCheckout } from "../helpers/invariants.ts";
import { makeWorld, type PlanTask } from "../helpers/world.ts";

const TASKS = Number(process.env.BUSBAR_LOAD_TASKS ?? 40);
const FILES = 5_000;
const MAX_RSS_MB = 100;

/** A small generator with a seed, so that the graph is the same every time. */
function random(seed: number): () => number {
  let state = seed;
  return () => {
    state = (Math.imul(state, 1664525) + 1013904223) >>> 0;
    return state / 2 ** 32;
  };
}

function graph(seed: number): PlanTask[] {
  const next = random(seed);
  return Array.from({ length: TASKS }, (_, i) => ({
    id: `t${i}`,
    command: `echo ${i} > out/t${i}.txt || { mkdir -p out; echo ${i} > out/t${i}.txt; }`,
    allowed_files: [`out/t${i}.txt`],
    acceptance: [`grep -qx ${i} out/t${i}.txt`],
    depends_on: [
      ...new Set(Array.from({ length: Math.floor(next() * 4) }, () => `t${Math.floor(next() * i)}`)),
    ].filter(() => i > 0),
  }));
}

/** Megabytes of a process, by VmHWM (the most it ever had). */
function peakMb(pid: number): number {
  const line = /VmHWM:\s+(\d+) kB/.exec(readFileSync(`/proc/${pid}/status`, "utf8"));
  return Number(line?.[1]) / 1024;
}

test("many tasks in a random graph on 5,000 files with 20 slots run to the end; the bus stays under 100 MB (S3, O5)", async (t) => {
  const world = makeWorld(t, "mkdir -p repo");
  mkdirSync(world.repo, { recursive: true });
  makeRepo({ dir: world.repo, files: FILES });
  assert.equal((await world.busctl(["up"])).code, 0);
  const { pid } = world.endpoint();
  const descriptors = () => readdirSync(`/proc/${pid}/fd`).length;
  const before = lookAtCheckout(world);
  const atRest = descriptors();
  const ran = await world.busctl(["run", world.plan(graph(42), { workers: 20 })], { timeoutMs: 900_000 });
  assert.equal(ran.code, 0, ran.out.slice(-4000) + ran.err.slice(-4000));
  const { run } = await world.state("r");
  assert.equal(run.landed.length, TASKS);
  const peak = peakMb(pid);
  t.diagnostic(
    `${TASKS} tasks landed in ${Math.round(ran.ms / 1000)} s; peak RSS of the bus ${peak.toFixed(0)} MB`,
  );
  assert.ok(peak < MAX_RSS_MB, `peak RSS ${peak} MB`);
  // The persistent cat-file child and the journal's segment may have been opened since; tasks must not add up.
  assert.ok(descriptors() <= atRest + 8, `descriptors ${atRest} -> ${descriptors()}`);
  await assertInvariants(world, "r", before);
  const { state_dir, runtime_dir } = world.endpoint();
  const down = await world.down();
  assert.equal(down.code, 0, down.out + down.err);
  assert.deepEqual(readdirSync(join(state_dir, "gate")), [], "no clean place is left");
  assert.deepEqual(
    readdirSync(runtime_dir).filter((name) => name.endsWith(".sock")),
    [],
  );
  assert.deepEqual(readdirSync(join(runtime_dir, "t")), [], "no task socket is left");
});
