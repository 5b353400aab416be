// A run starts from its base, not from what earlier runs left on their integration branches. Where such a branch is not in
// the base, the person is told once, before the run, and how to go on from it.

import { integrationBranch } from "../../schemas/ids.ts";
import { git } from "../git/run.ts";
import { plural } from "./render/time.ts";

/** Integration branches that hold commits which `base` has not; newest first, without that of the run itself. */
export async function unmergedBranches(commonDir: string, base: string, run: string): Promise<string[]> {
  const words = [
    "for-each-ref",
    "--sort=-committerdate",
    `--no-merged=${base}`,
    "--format=%(refname:lstrip=2)",
  ];
  const { stdout, exit } = await git([...words, "refs/heads/busbar/"], {
    gitDir: commonDir,
    // A base whose history is cut or far away says nothing about what is in it.
    okExits: [0, 128, 129],
  });
  if (exit !== 0) return [];
  return stdout.split("\n").filter((name) => name !== "" && name !== integrationBranch(run));
}

/** One line; undefined: nothing to be told. */
export function unmergedNote(branches: readonly string[], baseName: string): string | undefined {
  const [newest, ...others] = branches;
  if (newest === undefined) return undefined;
  if (others.length === 0)
    return `${newest} is not in ${baseName}; this plan starts without it. To start from it: run --base ${newest}`;
  const all = `${newest} and ${plural(others.length, "older branch", "older branches")} of busbar/`;
  return `${all} are not in ${baseName}; this plan starts without them. To start from the newest: run --base ${newest}`;
}
