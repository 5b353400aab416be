// The bundled shim, as in production, and a job for it.

import { mkdirSync } from "node:fs";
import { join } from "node:path";
import type { ShimProgram } from "../../scheduler/launch.ts";
import type { AttemptRef } from "../../schemas/ids.ts";
import type { ShimJob } from "../../schemas/job.ts";

export function bundledShim(): ShimProgram {
  const program = join(import.meta.dirname, "..", "..", "dist", "shim", "bus-shim.cjs");
  return { node: process.execPath, args: [program] };
}

/** A job that runs `argv` in `dir`, which is made. */
export function shimJob(dir: string, socket: string, ref: AttemptRef, argv: string[]): ShimJob {
  mkdirSync(dir, { recursive: true, mode: 0o700 });
  return {
    v: 1,
    ref,
    kind: "check",
    name: "bench",
    argv,
    cwd: dir,
    dir,
    files: { log: "agent.log", outbox: "outbox.json", done: "status.done", pid: "shim.json" },
    env: { PATH: "/usr/bin:/bin" },
    secrets: [],
    timeout_ms: 120_000,
    grace_ms: 1_000,
    limits: {},
    writes_in: dir,
    launch: { steps: [], wrap: [], writes: [], missing: [] },
    bus: { socket, shim_token: "bench" },
  };
}
