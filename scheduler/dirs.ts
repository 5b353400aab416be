// Where an attempt and its checks live below the state directory. Names only, and making the directories.
//
//   runs/<run>/<stamp>-<task>-<attempt>-<h6>/   the attempt: work/, home/ tmp/ cache/ config/ data/ state/ bin/,
//                                                context.json, prompt.md, run_metadata.json, output/, checks/
//   gate/<run>-<task>-<attempt>-<h6>/            the clean place of checks; removed after them
//   scheduler/claims/<name of the attempt>.json  tokens of an attempt, for the scheduler that comes after

import { createHash } from "node:crypto";
import { chmodSync, mkdirSync, writeFileSync } from "node:fs";
import { basename, join } from "node:path";
import { ioError } from "../schemas/errors.ts";
import { faultPoint } from "../schemas/fault-points.ts";
import { type AttemptRef, attemptLabel } from "../schemas/ids.ts";
import type { Homes } from "./environment.ts";

/** File names inside an attempt's directory. */
export const FILES = {
  log: "agent.log",
  outbox: "outbox.json",
  done: "status.done",
  pid: "shim.json",
  context: "context.json",
  prompt: "prompt.md",
  metadata: "run_metadata.json",
} as const;

/** `20260102T030405Z-<task>-<attempt>-<h6>`: sorts by time, says whose it is, is never used twice. */
export function attemptName(ref: AttemptRef, now: number, h6: string): string {
  const stamp = new Date(now).toISOString().replace(/[-:]|\.\d+/g, "");
  return `${stamp}-${ref.task}-${ref.attempt}-${h6}`;
}

export function attemptDir(stateDir: string, ref: AttemptRef, name: string): string {
  return join(stateDir, "runs", ref.run, name);
}

export function gateDir(stateDir: string, ref: AttemptRef, h6: string): string {
  return join(stateDir, "gate", `${ref.run}-${ref.task}-${ref.attempt}-${h6}`);
}

export function claimFile(stateDir: string, workspace: string): string {
  return join(stateDir, "scheduler", "claims", `${basename(workspace)}.json`);
}

/** Short, because a socket's name may have 107 bytes only. */
export function taskSocket(runtimeDir: string, ref: AttemptRef): string {
  const hash = createHash("sha256").update(attemptLabel(ref)).digest("hex").slice(0, 12);
  return join(runtimeDir, "t", hash);
}

export function homesOf(dir: string): Homes {
  return {
    home: join(dir, "home"),
    tmp: join(dir, "tmp"),
    cache: join(dir, "cache"),
    config: join(dir, "config"),
    data: join(dir, "data"),
    state: join(dir, "state"),
  };
}

/** Makes `dir` (mode 0700, parents too) and its homes. */
export function makeHomes(dir: string): Homes {
  const homes = homesOf(dir);
  makePrivateDir(dir);
  for (const home of Object.values(homes)) makePrivateDir(home);
  writeGitConfig(homes.home);
  return homes;
}

/** Enough for `git init && git commit` in a home that has no identity of its own; nothing of the user's. */
const GIT_CONFIG = `[user]
\tname = busbar agent
\temail = agent@busbar.invalid
[init]
\tdefaultBranch = main
[gc]
\tauto = 0
[advice]
\tdetachedHead = false
`;

function writeGitConfig(home: string): void {
  const file = join(home, ".gitconfig");
  try {
    faultPoint("scheduler.homes.before-git-config");
    writeFileSync(file, GIT_CONFIG, { mode: 0o600 });
  } catch (error) {
    throw ioError("writing", file, error);
  }
}

export function makePrivateDir(dir: string): void {
  try {
    faultPoint("scheduler.homes.before-make");
    mkdirSync(dir, { recursive: true, mode: 0o700 });
  } catch (error) {
    throw ioError("making the directory", dir, error);
  }
}

/** A small program on the agent's PATH: `busbar-call METHOD '{...}'` speaks to the bus as this attempt. */
export function writeCallProgram(dir: string, node: string, shim: readonly string[]): string {
  const bin = join(dir, "bin");
  makePrivateDir(bin);
  const words = [node, ...shim, "call"].map((word) => `'${word.replaceAll("'", "'\\''")}'`);
  const file = join(bin, "busbar-call");
  try {
    faultPoint("scheduler.call-program.before-write");
    writeFileSync(file, `#!/bin/sh\nexec ${words.join(" ")} "$@"\n`);
    faultPoint("scheduler.call-program.before-permit");
    chmodSync(file, 0o755);
  } catch (error) {
    throw ioError("writing", file, error);
  }
  return bin;
}
