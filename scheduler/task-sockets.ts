// The sockets of attempts whose shim was killed: a shim takes its own away, nobody else would take away these.

import { readdirSync, rmSync } from "node:fs";
import { basename, join } from "node:path";
import { faultPoint } from "../schemas/fault-points.ts";
import type { AttemptRef } from "../schemas/ids.ts";
import { taskSocket } from "./dirs.ts";
import type { Kit } from "./kit.ts";

/** The attempt is over and its shim gone. */
export function removeTaskSocket({ runtimeDir }: Pick<Kit, "runtimeDir">, ref: AttemptRef): void {
  faultPoint("scheduler.task-socket.before-remove");
  rmSync(taskSocket(runtimeDir, ref), { force: true });
}

/** At the start: those of no attempt that runs. */
export function sweepTaskSockets({ runtimeDir, mirror }: Pick<Kit, "runtimeDir" | "mirror">): void {
  const live = new Set<string>();
  for (const { run, tasks, underway } of mirror.runs.values())
    for (const id of underway) {
      const attempt = tasks.get(id)?.attempts.at(-1)?.attempt;
      if (attempt !== undefined)
        live.add(basename(taskSocket(runtimeDir, { run: run.run, task: id, attempt })));
    }
  const dir = join(runtimeDir, "t");
  for (const name of readdirSync(dir)) {
    if (live.has(name)) continue;
    faultPoint("scheduler.task-socket.before-sweep");
    rmSync(join(dir, name), { force: true });
  }
}
