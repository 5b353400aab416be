// What a bench is, and how its figures are taken: variants interleaved round by round in one run, medians, ratios.

import { mkdtempSync, realpathSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";

export interface Row {
  measure: string;
  unit: "us" | "ms" | "/s" | "MB" | "KB";
  ours: number;
  /** The least that this machine can do it with, and the best that others do, in the same unit and run. */
  floor?: { name: string; value: number };
  peer?: { name: string; value: number };
  /** In `unit`; "/s" is reached at or above, all others at or below. */
  target?: number;
  /** A target relative to the floor: at most so many times its time (or its rate divided by that). */
  targetRatio?: number;
  note?: string;
}

export interface BenchContext {
  /** A directory that is removed afterwards. */
  dir: string;
  /** Fewer rounds: for trying a bench out. */
  quick: boolean;
  say(text: string): void;
}

export interface Bench {
  name: string;
  about: string;
  run(ctx: BenchContext): Promise<Row[]>;
}

export function median(values: readonly number[]): number {
  const sorted = values.toSorted((a, b) => a - b);
  const middle = sorted.length >> 1;
  if (sorted.length === 0) return Number.NaN;
  return sorted.length % 2 === 1
    ? (sorted[middle] as number)
    : ((sorted[middle - 1] as number) + (sorted[middle] as number)) / 2;
}

/** Milliseconds that `fn` takes. */
export async function timed(fn: () => unknown): Promise<number> {
  const started = performance.now();
  await fn();
  return performance.now() - started;
}

export type Variants = Record<string, (round: number) => number | Promise<number>>;

/** Medians per variant; each round runs all variants once, in an order that turns, so that neighbours hit all alike. */
export async function interleave<V extends Variants>(
  rounds: number,
  variants: V,
): Promise<Record<keyof V, number>> {
  const names = Object.keys(variants) as (keyof V & string)[];
  const taken = new Map<string, number[]>(names.map((name) => [name, []]));
  for (let round = 0; round < rounds; round++) {
    const turn = round % names.length;
    for (const name of [...names.slice(turn), ...names.slice(0, turn)])
      taken.get(name)?.push(await (variants[name] as Variants[string])(round));
  }
  return Object.fromEntries([...taken].map(([name, values]) => [name, median(values)])) as Record<
    keyof V,
    number
  >;
}

/** A directory for the bench, removed whatever happens. */
export async function withDir<T>(fn: (dir: string) => Promise<T>): Promise<T> {
  const dir = realpathSync(mkdtempSync(join(tmpdir(), "bb-bench-")));
  try {
    return await fn(dir);
  } finally {
    rmSync(dir, { recursive: true, force: true, maxRetries: 5 });
  }
}
