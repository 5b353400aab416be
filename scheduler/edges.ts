// Small things that several parts need of the kit and of the disk.

import { readFileSync, writeFileSync } from "node:fs";
import { rm } from "node:fs/promises";
import { dirname } from "node:path";
import { ioError } from "../schemas/errors.ts";
import { faultPoint } from "../schemas/fault-points.ts";
import type { Random } from "../schemas/ports.ts";
import type { Task } from "../schemas/task.ts";
import { claimFile, makePrivateDir } from "./dirs.ts";
import type { JobBase } from "./jobs.ts";
import type { Attempt, Kit, Tokens } from "./kit.ts";

export function jobBase(kit: Kit): JobBase {
  return {
    config: kit.config,
    host: kit.env,
    socket: kit.socket,
    runtimeDir: kit.runtimeDir,
    stateDir: kit.stateDir,
    repo: kit.repo,
    topLevel: kit.control.topLevel,
    node: kit.shim.node,
    limitHost: kit.limitHost,
  };
}

export function randomHex(random: Random, digits: number): string {
  let text = "";
  while (text.length < digits) text += Math.floor(random() * 16).toString(16);
  return text;
}

/** Removes a directory that the scheduler made, whatever stands in it. */
export async function removeTree(dir: string): Promise<void> {
  try {
    faultPoint("scheduler.attempt.before-remove-tree");
    await rm(dir, { recursive: true, force: true, maxRetries: 3, retryDelay: 50 });
  } catch (error) {
    throw ioError("removing", dir, error);
  }
}

export function writeJson(path: string, value: unknown): void {
  writeText(path, `${JSON.stringify(value, null, 2)}\n`);
}

/** Mode 0600. */
export function writeText(path: string, text: string): void {
  try {
    faultPoint("scheduler.attempt.before-write-text");
    writeFileSync(path, text, { mode: 0o600 });
  } catch (error) {
    throw ioError("writing", path, error);
  }
}

/** What the scheduler that comes after must know about a claimed attempt. */
export interface ClaimNote {
  v: 1;
  tokens: Tokens;
}

export function writeClaimNote(path: string, tokens: Tokens): void {
  makePrivateDir(dirname(path));
  writeJson(path, { v: 1, tokens } satisfies ClaimNote);
}

/** An attempt that was claimed before, as it goes on. */
export function claimedBefore(kit: Kit, task: Task, at: { attempt: number; base: string }): Attempt {
  const { attempt, base } = at;
  const dir = task.attempts.find((record) => record.attempt === attempt)?.workspace ?? "";
  const tokens = readClaimNote(claimFile(kit.stateDir, dir)) ?? { shim: "", agent: "" };
  return {
    ref: { run: task.run, task: task.spec.id, attempt },
    dir,
    base,
    tokens,
    abort: new AbortController(),
  };
}

export function readClaimNote(path: string): Tokens | undefined {
  try {
    const note = JSON.parse(readFileSync(path, "utf8")) as Partial<ClaimNote>;
    return note.v === 1 && typeof note.tokens?.shim === "string" ? note.tokens : undefined;
  } catch {
    return undefined;
  }
}
