// Small real repositories for tests, and the way to run a script in them as a user or an agent would.

import { execFileSync } from "node:child_process";
import { mkdirSync } from "node:fs";
import { join } from "node:path";
import type { TestContext } from "node:test";
import { probeRepository } from "../../bus/git/probe.ts";
import { type Control, openControl } from "../../scheduler/control.ts";
import { makeWorkspace, type Workspace } from "../../scheduler/workspace.ts";
import type { AttemptRef } from "../../schemas/ids.ts";
import { tempDir } from "./temp.ts";

/** A person's environment: an identity, nobody's configuration. */
export function personEnv(extra: Record<string, string> = {}): NodeJS.ProcessEnv {
  const env: NodeJS.ProcessEnv = {};
  for (const [name, value] of Object.entries(process.env)) if (!name.startsWith("GIT_")) env[name] = value;
  return {
    ...env,
    GIT_CONFIG_GLOBAL: "/dev/null",
    GIT_CONFIG_NOSYSTEM: "1",
    GIT_AUTHOR_NAME: "T",
    GIT_AUTHOR_EMAIL: "t@example.com",
    GIT_COMMITTER_NAME: "T",
    GIT_COMMITTER_EMAIL: "t@example.com",
    ...extra,
  };
}

/** Runs a bash script in `cwd`; its output without the last line end. Throws with stderr when it fails. */
export function sh(cwd: string, script: string, env: Record<string, string> = {}): string {
  const args = ["-c", `set -euo pipefail; ${script}`];
  const out = execFileSync("bash", args, {
    cwd,
    env: personEnv(env),
    encoding: "utf8",
    stdio: "pipe",
    maxBuffer: 1 << 28,
  });
  return out.replace(/\n$/, "");
}

export interface World {
  /** Temporary directory: `repo` and `state` are in it. */
  dir: string;
  repo: string;
  control: Control;
  base: string;
}

export const IDENTITY = { name: "busbar", email: "busbar@localhost" };

/** A repository made by `setup` (run in a fresh `repo` with branch main), with its control repository. */
export async function world(t: TestContext, setup: string, env: Record<string, string> = {}): Promise<World> {
  const dir = tempDir(t, "git");
  const repo = join(dir, "repo");
  sh(dir, "git init -q -b main repo");
  sh(repo, setup, { W: dir, ...env });
  return open(dir, repo);
}

export async function open(dir: string, repo: string): Promise<World> {
  const facts = await probeRepository(repo);
  const state = join(dir, "state");
  mkdirSync(state, { mode: 0o700, recursive: true });
  const base = facts.head.kind === "unborn" ? "" : facts.head.commit;
  return { dir, repo, control: openControl(state, facts), base };
}

export const attempt = (task: string, n = 1): AttemptRef => ({ run: "r", task, attempt: n });

/** The workspace of attempt 1 of `task`, after `agent` (a bash script) has run in it. */
export async function worked(
  w: World,
  task: string,
  agent: string,
  sparsePaths?: string[],
): Promise<Workspace> {
  const workspace = await makeWorkspace({
    control: w.control,
    dir: join(w.dir, "state", "runs", task),
    ref: attempt(task),
    base: w.base,
    ...(sparsePaths ? { checkout: "sparse" as const, sparsePaths } : { checkout: "full" as const }),
  });
  sh(workspace.work, agent, { W: w.dir });
  return workspace;
}
