// bubblewrap for a test, on a machine that has it and lets it work.

import { spawnSync } from "node:child_process";
import type { TestContext } from "node:test";

const NAMESPACES = ["--unshare-user", "--unshare-pid", "--unshare-net", "--die-with-parent"];

/** False, with the reason said, where no sandbox can be made. */
export function hasSandbox(t: TestContext): boolean {
  const args = [...NAMESPACES, "--ro-bind", "/", "/", "--proc", "/proc", "--dev", "/dev", "true"];
  const { status, stderr, error } = spawnSync("bwrap", args, { encoding: "utf8" });
  if (status === 0) return true;
  const why = error ? "bubblewrap is not installed" : stderr.trim();
  console.log(`LEFT OUT: ${t.name.split(":")[0]} with a real sandbox (needs bubblewrap: ${why})`);
  t.skip("no sandbox here");
  return false;
}
