// The configuration of a host or person: ~/.config/busbar/config.yaml, /etc/busbar/config.yaml.
// Unknown keys are refused. The bus reads it and hands it to the scheduler.

import { z } from "zod";
import { Limits } from "./limit-spec.ts";
import {
  DISK_LIMIT_PERCENT,
  GC_IDLE_S,
  IDLE_EXIT_MS,
  KILL_GRACE_MS,
  LEASE_MS,
  MAX_WORKERS,
  MIN_LEASE_S,
} from "./limits.ts";
import { LimitsInput } from "./plan/limits-input.ts";
import { SandboxSaid } from "./sandbox.ts";
import { EnvSpec, NO_ENV } from "./task.ts";

export const Config = z
  .strictObject({
    workers: z
      .int()
      .min(1)
      .max(MAX_WORKERS)
      .optional()
      .describe("Attempts at once on this host; a plan may ask for fewer"),
    disk_limit_percent: z
      .number()
      .min(1)
      .max(100)
      .default(DISK_LIMIT_PERCENT)
      .describe("No workspace is made when the disk is fuller than this (W6)"),
    gc_idle_s: z
      .number()
      .min(0)
      .default(GC_IDLE_S)
      .describe("Idle workspaces are archived after this long (W9)"),
    kill_grace_ms: z.number().min(0).max(60_000).default(KILL_GRACE_MS).describe("Between TERM and KILL"),
    lease_s: z
      .number()
      .min(MIN_LEASE_S)
      .max(3_600)
      .default(LEASE_MS / 1000)
      .describe("An attempt without a sign of life for this long counts as lost and is tried again"),
    idle_exit_ms: z
      .number()
      .min(1_000)
      .default(IDLE_EXIT_MS)
      .describe("Bus and scheduler end by themselves after this long without work and clients"),
    identity: z
      .strictObject({ name: z.string().min(1), email: z.string().min(1) })
      .default({ name: "busbar", email: "busbar@localhost" })
      .describe("Who the scheduler's commits are by; never the user's signing key"),
    audit: z
      .strictObject({
        keep_days: z
          .number()
          .positive()
          .optional()
          .describe("Closed files whose newest record is older than this are removed"),
        keep_bytes: z
          .int()
          .min(0)
          .optional()
          .describe("The oldest closed files are removed while all together are larger than this"),
      })
      .default({})
      .describe(
        "How much of the audit log is kept, in whole files of 64 MB before packing; all of it where nothing is said",
      ),
    env: EnvSpec.default(NO_ENV).describe("For every agent and check, beside the plan's own"),
    limits: Limits.default({}),
    sandbox: SandboxSaid.exactOptional().describe(
      "As in a plan; of what the two say the stricter counts, and the paths of both",
    ),
    agents: z
      .record(
        z.string(),
        z.strictObject({
          command: z.string().min(1).describe("Command line of the agent"),
          env: EnvSpec.default(NO_ENV).describe("Environment that this agent needs"),
        }),
      )
      .default({})
      .describe("Own agent profiles: a command line that finds its prompt in the file $BUSBAR_PROMPT"),
  })
  .describe("The configuration of busbar, of a host or a person");
export type Config = z.infer<typeof Config>;

/** As it is written: limits with units and presets. */
export const ConfigFile = Config.extend({
  limits: LimitsInput.optional().describe(
    "Upper bounds for every agent and check on this host; where a plan or /etc says less, that counts",
  ),
}).describe("The configuration of busbar, of a host or a person");
