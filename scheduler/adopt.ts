// At the start: what an earlier scheduler left behind (design section 8).
//
// 1. Checks of the earlier one are ended: their results would reach nobody; they are run again.
// 2. Its clean places are removed.
// 3. Each running attempt of ours is taken over. Its shim lives: its end is waited for. Its shim has ended: the outbox
//    says how. Shim gone without outbox: what it left is ended, the attempt is lost (innocent), its work is kept.
//    Whether the shim lives cannot be known: waited for, neither killed nor freed.
// 4. No agent was started yet: lost; the bus tries again.

import { existsSync, readdirSync } from "node:fs";
import { join } from "node:path";
import { setTimeout as delay } from "node:timers/promises";
import type { Task } from "../schemas/task.ts";
import { claimFile, FILES } from "./dirs.ts";
import { readClaimNote, removeTree } from "./edges.ts";
import type { Attempt, Kit } from "./kit.ts";
import { liveness, type PidFile, readPidFile } from "./liveness.ts";
import { endStrays } from "./strays.ts";
import { openWorkspace, type Workspace } from "./workspace.ts";

export type Adopted =
  | { kind: "watch"; attempt: Attempt; workspace: Workspace }
  /** `innocent`: no agent had been started. */
  | { kind: "lost"; attempt: Attempt; why: string; innocent: boolean };

/** What to do with a running attempt of ours. Looks at the disk only. */
export function adopt(kit: Kit, task: Task): Adopted | undefined {
  const { state } = task;
  if (state.name !== "running" || state.worker !== kit.worker) return undefined;
  const dir = state.workspace;
  const tokens = readClaimNote(claimFile(kit.stateDir, dir));
  const attempt: Attempt = {
    ref: { run: task.run, task: task.spec.id, attempt: state.attempt },
    dir,
    base: state.base,
    tokens: tokens ?? { shim: "", agent: "" },
    abort: new AbortController(),
  };
  const lost = (why: string, innocent: boolean): Adopted => ({ kind: "lost", attempt, why, innocent });
  if (!tokens) return lost("the scheduler ended right after the claim", true);
  if (readPidFile(join(dir, FILES.pid)) === "none" && !existsSync(join(dir, FILES.outbox)))
    return lost("the scheduler ended before the agent was started", true);
  try {
    return { kind: "watch", attempt, workspace: openWorkspace(dir) };
  } catch (error) {
    return lost(`the workspace cannot be opened: ${String(error)}`, false);
  }
}

/** Ends checks of an earlier scheduler and removes its clean places. */
export async function clearChecks(kit: Kit): Promise<void> {
  const shims = [...attemptDirs(kit)].flatMap((dir) => liveCheckShims(join(dir, "checks")));
  for (const shim of shims) signal(shim, "SIGTERM");
  const limit = performance.now() + kit.config.kill_grace_ms + CLEAR_SLACK_MS;
  while (shims.some((shim) => liveness(shim) === "alive") && performance.now() < limit)
    await delay(LOOK_EVERY_MS);
  for (const shim of shims) if (liveness(shim) === "alive") signal(shim, "SIGKILL");
  for (const dir of gateDirs(kit)) {
    if (shims.length > 0) await endStrays(dir, 0);
    await removeTree(dir);
  }
}

const LOOK_EVERY_MS = 20;
const CLEAR_SLACK_MS = 5_000;

function signal(shim: PidFile, name: NodeJS.Signals): void {
  try {
    process.kill(shim.pid, name);
  } catch {
    // ESRCH: ended by itself
  }
}

/** Attempts that checks may have run for: running, or in the train. */
function* attemptDirs(kit: Kit): Iterable<string> {
  for (const { tasks, underway } of kit.mirror.runs.values())
    for (const id of underway) {
      const workspace = tasks.get(id)?.attempts.at(-1)?.workspace;
      if (workspace !== undefined) yield workspace;
    }
}

function liveCheckShims(dir: string): PidFile[] {
  return names(dir)
    .filter((name) => name.endsWith(".shim.json"))
    .map((name) => readPidFile(join(dir, name)))
    .filter((file) => typeof file === "object")
    .filter((file) => liveness(file) === "alive");
}

function gateDirs(kit: Kit): string[] {
  const top = join(kit.stateDir, "gate");
  return names(top).map((name) => join(top, name));
}

function names(dir: string): string[] {
  try {
    return readdirSync(dir);
  } catch {
    return [];
  }
}
