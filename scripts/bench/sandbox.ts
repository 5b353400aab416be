// What a sandbox costs at the start of a process: bubblewrap as agents get it, with the tools of this PATH, round a program
// that ends at once. Floor: the program alone.

import { spawnSync } from "node:child_process";
import { mkdirSync } from "node:fs";
import { homedir } from "node:os";
import { join } from "node:path";
import { sandboxOf } from "../../scheduler/confine.ts";
import { planSandbox } from "../../scheduler/sandbox.ts";
import { type Bench, type BenchContext, interleave, type Row } from "./bench.ts";

const ROUNDS = 30;

export const sandbox: Bench = {
  name: "sandbox",
  about: "start of a process in a sandbox",
  run: measure,
};

async function measure({ dir, quick, say }: BenchContext): Promise<Row[]> {
  const [stateDir, runtimeDir, repo] = ["state/k", "run/k", "repo"].map((name) => join(dir, name)) as [
    string,
    string,
    string,
  ];
  const work = join(stateDir, "work");
  mkdirSync(work, { recursive: true });
  const of = { repo, topLevel: null, stateDir, runtimeDir, node: process.execPath };
  const { tools, facts } = await sandboxOf({ ...of, home: homedir(), host: process.env });
  if (!tools) {
    say(`left out: ${facts.said}`);
    return [];
  }
  const place = { cwd: work, tmp: work, write: [work], read: [] };
  const started = (argv: string[]) => {
    const began = performance.now();
    const { status } = spawnSync(argv[0] as string, argv.slice(1), { stdio: "ignore" });
    if (status !== 0) throw new Error(`${argv[0]} ended with ${status}`);
    return Promise.resolve(performance.now() - began);
  };
  const shut = (network: "none" | "full") => [...planSandbox(tools, place, network).argv, "--", "/bin/true"];
  const m = await interleave(quick ? 5 : ROUNDS, {
    none: () => started(shut("none")),
    full: () => started(shut("full")),
    floor: () => started(["/bin/true"]),
  });
  const floor = { name: "the program alone", value: m.floor };
  return [
    { measure: "start without network", unit: "ms", ours: m.none, floor },
    { measure: "start with the host's network", unit: "ms", ours: m.full, floor },
  ];
}
