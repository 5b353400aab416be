// Capture of an attempt that changed five files and added one, on 5,000 files.

import { spawnSync } from "node:child_process";
import { rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { probeRepository } from "../../bus/git/probe.ts";
import { capture as takeCapture } from "../../scheduler/capture.ts";
import { openControl } from "../../scheduler/control.ts";
import { makeWorkspace } from "../../scheduler/workspace.ts";
import { makeRepo, pathOf } from "../make-repo.ts";
import { type Bench, type BenchContext, interleave, type Row, timed } from "./bench.ts";

const FILES = 5_000;

export const capture: Bench = {
  name: "capture",
  about: `5 changed files and 1 new one on ${FILES} files`,
  run: measure,
};

async function measure(ctx: BenchContext): Promise<Row[]> {
  const repo = join(ctx.dir, "repo");
  const base = makeRepo({ dir: repo, files: FILES });
  const control = openControl(ctx.dir, await probeRepository(repo));
  const ref = { run: "bench", task: "t", attempt: 1 };
  const workspace = await makeWorkspace({ control, dir: join(ctx.dir, "w"), ref, base, checkout: "full" });
  const identity = { name: "busbar", email: "busbar@localhost" };
  let version = 0;
  const edit = () => {
    version += 1;
    for (let i = 0; i < 5; i++)
      writeFileSync(join(workspace.work, pathOf(i * 700)), `// version ${version} of ${i}\n`);
    writeFileSync(join(workspace.work, "src", "new.ts"), `// version ${version}\n`);
  };
  const addAll = (index: string) => {
    const env = { ...process.env, GIT_INDEX_FILE: index };
    for (const args of [["add", "-A"], ["write-tree"]]) {
      const result = spawnSync("git", args, { cwd: workspace.work, env, encoding: "utf8" });
      if (result.status !== 0) throw new Error(`git ${args[0]}: ${result.stderr}`);
    }
  };
  const m = await interleave(ctx.quick ? 3 : 9, {
    ours: () => {
      edit();
      const order = { control, workspace, ref, base, version, message: "Captured", identity };
      return timed(() => takeCapture(order));
    },
    fresh: async () => {
      edit();
      const index = join(ctx.dir, "fresh-index");
      rmSync(index, { force: true });
      return await timed(() => addAll(index));
    },
    again: async () => {
      edit();
      return await timed(() => addAll(join(workspace.work, ".git", "index")));
    },
  });
  return [
    {
      measure: "capture: tree, commit and ref",
      unit: "ms",
      ours: m.ours,
      floor: { name: "git add -A in the same index, write-tree", value: m.again },
      peer: { name: "git add -A in a fresh index, write-tree", value: m.fresh },
      target: 110,
      note: "the target is the one for 57,000 files",
    },
  ];
}
