// Limits as a person writes them, in a plan and in the configuration, and what they mean in numbers.

import { z } from "zod";
import type { Limits } from "../limit-spec.ts";
import { LIMIT_PRESETS, MIN_NPROC } from "../limits.ts";
import { Duration, Size } from "./quantities.ts";
import { durationSeconds, sizeBytes } from "./units.ts";

export const LimitsInput = z
  .strictObject({
    preset: z
      .enum(["small", "medium", "large"] satisfies (keyof typeof LIMIT_PRESETS)[])
      .optional()
      .describe("Where the other limits start from"),
    memory: Size.optional().describe("Memory of all processes together, e.g. 1G; no swap"),
    pids: z.int().positive().optional().describe("Processes and threads at once"),
    cpus: z.number().min(0.01).max(1024).optional().describe("Cores' worth of CPU at once, e.g. 0.5"),
    cpu_weight: z
      .int()
      .min(1)
      .max(10_000)
      .optional()
      .describe("Share of the CPU where it is scarce; others have 100"),
    io_read: Size.optional().describe("Bytes a second read from the disk of the workspaces, e.g. 50M"),
    io_write: Size.optional().describe("Bytes a second written to the disk of the workspaces"),
    disk: Size.optional().describe("What an attempt may write into its own directories, e.g. 4G"),
    cpu_total: Duration.optional().describe("CPU time of all processes together, e.g. 30m"),
    cpu: Duration.optional().describe("CPU time of one process, e.g. 10m"),
    nofile: z.int().min(64).optional().describe("Open files of one process; default 65536"),
    nproc: z
      .int()
      .min(MIN_NPROC)
      .optional()
      .describe("Processes and threads of the user, all programs together; not for root; default 8192"),
    fsize: Size.optional().describe("Size of one file written, e.g. 100M"),
    core: Size.optional().describe("Size of a core dump; default none"),
    data: Size.optional().describe("Data segment of one process, e.g. 2G"),
    address_space: Size.optional().describe(
      "Address space of one process; Node needs more than 8G to work at all",
    ),
    strict: z.boolean().optional().describe("Start nothing where one of these cannot be set"),
  })
  .describe("Limits of an agent and of a check; what a machine cannot hold is said in the report");
export type LimitsInput = z.infer<typeof LimitsInput>;

/** A preset replaces what stands `under` it; single limits then stand over both. */
export function normaliseLimits(input: LimitsInput | undefined, under: Limits = {}): Limits {
  if (!input) return { ...under };
  const { preset, cpu, cpu_total, memory, io_read, io_write, disk, fsize, core, data, ...rest } = input;
  const { address_space, ...plain } = rest;
  const sizes = { memory, io_read, io_write, disk, fsize, core, data, address_space };
  return {
    ...(preset === undefined ? under : LIMIT_PRESETS[preset]),
    ...given(plain),
    ...given(mapped(sizes, sizeBytes)),
    ...given(mapped({ cpu_s: cpu, cpu_total_s: cpu_total }, wholeSeconds)),
  };
}

function wholeSeconds(value: string | number): number {
  return Math.max(1, Math.round(durationSeconds(value) ?? 0));
}

function mapped<K extends string>(
  values: Record<K, string | number | undefined>,
  read: (value: string | number) => number | undefined,
): Partial<Record<K, number>> {
  const entries = Object.entries<string | number | undefined>(values);
  return Object.fromEntries(
    entries.map(([name, value]) => [name, value === undefined ? undefined : read(value)]),
  ) as Partial<Record<K, number>>;
}

function given<T extends object>(values: T): { [K in keyof T]?: Exclude<T[K], undefined> } {
  return Object.fromEntries(Object.entries(values).filter(([, value]) => value !== undefined)) as never;
}
