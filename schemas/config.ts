// The configuration of a host or person: ~/.config/busbar/config.yaml, /etc/busbar/config.yaml.
// Unknown keys are refused. The bus reads it and hands it to the scheduler.

import { z } from "zod";
import { DISK_LIMIT_PERCENT, GC_IDLE_S, IDLE_EXIT_MS, KILL_GRACE_MS, MAX_WORKERS } from "./limits.ts";
import { EnvSpec, Limits } from "./task.ts";

export const Config = z.strictObject({
  /** Attempts at once on this host; a plan may ask for fewer. */
  workers: z.int().min(1).max(MAX_WORKERS).optional(),
  /** W6: no workspace is made when the disk is fuller than this. */
  disk_limit_percent: z.number().min(1).max(100).default(DISK_LIMIT_PERCENT),
  /** W9: idle workspaces are archived after this long. */
  gc_idle_s: z.number().min(0).default(GC_IDLE_S),
  /** Between TERM and KILL. */
  kill_grace_ms: z.number().min(0).max(60_000).default(KILL_GRACE_MS),
  /** Bus and scheduler end by themselves after this long without work and clients. */
  idle_exit_ms: z.number().min(1_000).default(IDLE_EXIT_MS),
  /** Who the scheduler's commits are by; never the user's signing key. */
  identity: z
    .strictObject({ name: z.string().min(1), email: z.string().min(1) })
    .default({ name: "busbar", email: "busbar@localhost" }),
  /** For every agent and check, beside the plan's own. */
  env: EnvSpec.default({ pass: [], set: {}, secret: [] }),
  limits: Limits.default({}),
  /** Own agent profiles: a command line that finds its prompt in the file $BUSBAR_PROMPT. */
  agents: z
    .record(
      z.string(),
      z.strictObject({ command: z.string().min(1), env: EnvSpec.default({ pass: [], set: {}, secret: [] }) }),
    )
    .default({}),
});
export type Config = z.infer<typeof Config>;
