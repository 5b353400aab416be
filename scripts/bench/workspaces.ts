// Workspaces on a repository of 5,000 files, against `git worktree add` one at a time (what most tools do).

import { spawnSync } from "node:child_process";
import { rmSync } from "node:fs";
import { join } from "node:path";
import { probeRepository } from "../../bus/git/probe.ts";
import { type Control, openControl } from "../../scheduler/control.ts";
import { makeWorkspace } from "../../scheduler/workspace.ts";
import { makeRepo, pathOf } from "../make-repo.ts";
import { type Bench, type BenchContext, interleave, type Row, timed } from "./bench.ts";

const FILES = 5_000;
const FEW = 20;
const MANY = 200;

export const workspaces: Bench = {
  name: "workspaces",
  about: `${FEW} and ${MANY} workspaces of a repository of ${FILES} files`,
  run: measure,
};

interface Place {
  repo: string;
  base: string;
  control: Control;
  dir: string;
}

async function measure(ctx: BenchContext): Promise<Row[]> {
  const repo = join(ctx.dir, "repo");
  const base = makeRepo({ dir: repo, files: FILES });
  const control = openControl(ctx.dir, await probeRepository(repo));
  const place = { repo, base, control, dir: ctx.dir };
  const rounds = ctx.quick ? 1 : 3;
  const disk = new Map<string, number>();
  const m = await interleave(rounds, {
    full: (round) => each(place, `full${round}`, FEW, (dir) => ours(place, dir, "full"), disk, "full"),
    worktree: (round) => each(place, `tree${round}`, FEW, (dir) => worktree(place, dir), disk, "worktree"),
    sparse: (round) =>
      each(place, `sparse${round}`, FEW, (dir) => ours(place, dir, "sparse"), disk, "sparse"),
  });
  ctx.say(`  ${MANY} sparse ones, four at a time ...`);
  const many = await manySparse(place, disk);
  const peer = { name: "git worktree add", value: m.worktree };
  return [
    { measure: "one full workspace (of 20)", unit: "ms", ours: m.full, peer },
    { measure: "one sparse workspace of 5 files (of 20)", unit: "ms", ours: m.sparse, peer },
    {
      measure: `${MANY} sparse workspaces in all`,
      unit: "ms",
      ours: many,
      peer: { name: "git worktree add, scaled up from 20", value: m.worktree * MANY },
      target: 1_000,
    },
    {
      measure: "disk of a full workspace",
      unit: "KB",
      ours: disk.get("full") ?? 0,
      peer: { name: "git worktree add", value: disk.get("worktree") ?? 0 },
    },
    {
      measure: "disk of a sparse workspace",
      unit: "KB",
      ours: disk.get("sparse") ?? 0,
      peer: { name: "git worktree add", value: disk.get("worktree") ?? 0 },
    },
  ];
}

/** Milliseconds per workspace, made one after the other; measures the disk of the last and removes all. */
async function each(
  place: Place,
  name: string,
  count: number,
  make: (dir: string) => Promise<unknown>,
  disk: Map<string, number>,
  kind: string,
): Promise<number> {
  const dirs = Array.from({ length: count }, (_, i) => join(place.dir, `${name}-${i}`));
  const took = await timed(async () => {
    for (const dir of dirs) await make(dir);
  });
  disk.set(kind, diskOf(dirs[count - 1] as string));
  for (const dir of dirs) rmSync(dir, { recursive: true, force: true });
  if (kind === "worktree") spawnSync("git", ["worktree", "prune"], { cwd: place.repo });
  return took / count;
}

function ours(place: Place, dir: string, checkout: "full" | "sparse"): Promise<unknown> {
  const ref = { run: "bench", task: "t", attempt: 1 };
  const sparsePaths = [0, 1, 2, 3, 4].map((i) => pathOf(i * 40));
  return makeWorkspace({ control: place.control, dir, ref, base: place.base, checkout, sparsePaths });
}

async function worktree(place: Place, dir: string): Promise<void> {
  const result = spawnSync("git", ["worktree", "add", "-q", "--detach", dir, place.base], {
    cwd: place.repo,
    encoding: "utf8",
  });
  if (result.status !== 0) throw new Error(`git worktree add: ${result.stderr}`);
}

async function manySparse(place: Place, disk: Map<string, number>): Promise<number> {
  const dirs = Array.from({ length: MANY }, (_, i) => join(place.dir, `many-${i}`));
  let next = 0;
  const worker = async () => {
    for (let i = next++; i < dirs.length; i = next++) await ours(place, dirs[i] as string, "sparse");
  };
  const took = await timed(() => Promise.all([worker(), worker(), worker(), worker()]));
  disk.set("sparse", diskOf(dirs[0] as string));
  for (const dir of dirs) rmSync(dir, { recursive: true, force: true });
  return took;
}

/** KB of blocks. */
function diskOf(dir: string): number {
  return Number(spawnSync("du", ["-sk", dir], { encoding: "utf8" }).stdout.split("\t")[0]);
}
