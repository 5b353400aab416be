// Reading blobs by object id: a miss goes through the persistent `git cat-file --batch`, a hit is a look-up.

import { spawnSync } from "node:child_process";
import { readFileSync } from "node:fs";
import { readFile } from "node:fs/promises";
import { join } from "node:path";
import { Blobs } from "../../bus/blobs.ts";
import { makeRepo, pathOf } from "../make-repo.ts";
import { type Bench, type BenchContext, interleave, type Row } from "./bench.ts";

const FILES = 5_000;
const READS = 400;
const SPAWNS = 10;

export const blobs: Bench = {
  name: "blobs",
  about: `one blob of about 2 KB out of ${FILES} files, page cache warm`,
  run: measure,
};

async function measure(ctx: BenchContext): Promise<Row[]> {
  const repo = join(ctx.dir, "repo");
  makeRepo({ dir: repo, files: FILES });
  const gitDir = join(repo, ".git");
  const oids = objectIds(repo);
  const pick = (round: number, n: number) => (round * 977 + n * 37) % FILES;
  const perRead = (ms: number, reads: number) => (ms * 1_000) / reads;

  const cold = await coldRead(gitDir, oids[0] as string);
  const warm = Blobs.of(gitDir);
  const missing = Blobs.of(gitDir);
  await missing.get(oids[1] as string);
  for (const oid of oids.slice(0, READS)) await warm.get(oid);
  try {
    const m = await interleave(ctx.quick ? 3 : 15, {
      miss: async (round) => {
        // A cache of its own each round, over a child that runs already.
        const started = performance.now();
        for (let n = 0; n < READS; n++) await missing.get(oids[(round * READS + n + 2) % FILES] as string);
        return perRead(performance.now() - started, READS);
      },
      hit: () => {
        const started = performance.now();
        for (let turn = 0; turn < 50; turn++) for (let n = 0; n < READS; n++) warm.cached(oids[n] as string);
        return perRead(performance.now() - started, READS * 50);
      },
      file: (round) => {
        const started = performance.now();
        for (let n = 0; n < READS; n++) readFileSync(join(repo, pathOf(pick(round, n))));
        return perRead(performance.now() - started, READS);
      },
      promise: async (round) => {
        const started = performance.now();
        for (let n = 0; n < READS; n++) await readFile(join(repo, pathOf(pick(round, n))));
        return perRead(performance.now() - started, READS);
      },
      show: (round) => {
        const started = performance.now();
        for (let n = 0; n < SPAWNS; n++)
          spawnSync("git", ["show", `HEAD:${pathOf(pick(round, n))}`], { cwd: repo });
        return perRead(performance.now() - started, SPAWNS);
      },
    });
    const floor = { name: "readFileSync", value: m.file };
    return [
      {
        measure: "blob miss, one at a time",
        unit: "us",
        ours: m.miss,
        floor,
        peer: { name: "spawned git show", value: m.show },
        target: 100,
      },
      {
        measure: "blob hit",
        unit: "us",
        ours: m.hit,
        floor,
        peer: { name: "fs.promises.readFile", value: m.promise },
        target: 2,
      },
      { measure: "first read after the start", unit: "ms", ours: cold, target: 30, note: "starts the child" },
    ];
  } finally {
    warm.close();
    missing.close();
  }
}

async function coldRead(gitDir: string, oid: string): Promise<number> {
  const started = performance.now();
  const first = Blobs.of(gitDir);
  await first.get(oid);
  const took = performance.now() - started;
  first.close();
  return took;
}

function objectIds(repo: string): string[] {
  const listed = spawnSync("git", ["ls-tree", "-r", "--object-only", "HEAD"], {
    cwd: repo,
    encoding: "utf8",
    maxBuffer: 1 << 28,
  });
  return listed.stdout.split("\n").filter(Boolean);
}
