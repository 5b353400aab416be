// The limits of a process, as plan, check and configuration give them once they are read.

import { z } from "zod";
import { MIN_NPROC } from "./limits.ts";

/** Of a process and of all that it starts; what each needs of a machine stands in limit-plan.ts. Sizes in bytes. */
export const Limits = z.strictObject({
  memory: z.int().positive().optional(),
  pids: z.int().positive().optional(),
  /** Cores' worth of CPU time at once. */
  cpus: z.number().positive().optional(),
  /** Share of the CPU where it is scarce; 100 is what others have. */
  cpu_weight: z.int().min(1).max(10_000).optional(),
  /** A second, from and to the disk of the workspace. */
  io_read: z.int().positive().optional(),
  io_write: z.int().positive().optional(),
  /** What an attempt may write into its own directories. */
  disk: z.int().positive().optional(),
  /** CPU seconds of all together, and of one process. */
  cpu_total_s: z.int().positive().optional(),
  cpu_s: z.int().positive().optional(),
  nofile: z.int().min(64).optional(),
  /** Processes and threads of the user. */
  nproc: z.int().min(MIN_NPROC).optional(),
  fsize: z.int().positive().optional(),
  core: z.int().min(0).optional(),
  data: z.int().positive().optional(),
  address_space: z.int().positive().optional(),
  /** Nothing starts where one of these cannot be set. */
  strict: z.boolean().optional(),
});
export type Limits = z.infer<typeof Limits>;
