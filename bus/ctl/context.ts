// What a verb gets: where it writes, what it was told, and the way to the bus. All of the outside world comes
// in through here, so that a verb can be tested with a made-up terminal and a made-up bus.

import { BusbarError } from "../../schemas/errors.ts";
import type { BusClient } from "../client/client.ts";
import type { Palette } from "./render/palette.ts";
import { hanging } from "./render/width.ts";

/** The part of the client that verbs use. */
export type Bus = Pick<BusClient, "call" | "on" | "closed" | "close">;

export interface Io {
  /** To standard output; fulfilled when it may be written on. */
  out(text: string | Uint8Array): Promise<void>;
  err(text: string): void;
  outTty: boolean;
  inTty: boolean;
  /** Cells per line of the terminal; Infinity where there is none. */
  columns(): number;
  rows(): number;
  onResize(fn: () => void): () => void;
}

export interface Ctx {
  io: Io;
  env: Readonly<Record<string, string | undefined>>;
  /** The directory that --repo names, or the current one. */
  dir: string;
  json: boolean;
  p: Palette;
  now(): number;
  /** The bus that runs; BUS_AWAY or BUS_NOT_ANSWERING when there is none. Starts nothing. */
  connect(): Promise<Bus>;
  /** Signals for as long as the verb runs; returns the way off. */
  onSignal(signal: "SIGINT" | "SIGTERM" | "SIGHUP", fn: () => void): () => void;
}

/** What was given on the command line, by kind; main.ts has refused what no verb takes. */
export class Args {
  readonly #values: ReadonlyMap<string, unknown>;
  constructor(
    /** Words that are not options, in order. */
    readonly words: readonly string[],
    values: ReadonlyMap<string, unknown>,
  ) {
    this.#values = values;
  }

  text(name: string): string | undefined {
    const value = this.#values.get(name);
    if (value === undefined) return undefined;
    if (typeof value !== "string" || value === "") throw usage(`--${name} needs a value`);
    return value;
  }

  /** Whether the option was given at all. */
  has(name: string): boolean {
    const value = this.#values.get(name);
    return value !== undefined && value !== false;
  }

  flag(name: string): boolean {
    return this.#values.get(name) === true;
  }

  /** A whole number not below `min`. */
  whole(name: string, min: number): number | undefined {
    const value = this.#values.get(name);
    if (value === undefined) return undefined;
    const n = typeof value === "string" && value.trim() !== "" ? Number(value) : Number.NaN;
    if (!Number.isSafeInteger(n) || n < min) {
      throw usage(`--${name} must be a whole number, at least ${min}`);
    }
    return n;
  }

  /** The word at `index`; main.ts has checked that needed ones are there. */
  word(index: number): string | undefined {
    return this.words[index];
  }
}

/** Words that a verb does not take; `help` says better than the verb's own help what would be right. */
export function usage(message: string, help?: string): BusbarError {
  return new BusbarError("USAGE", message, help === undefined ? {} : { help });
}

/** Writes lines, each ended. */
export async function say(ctx: Ctx, ...lines: string[]): Promise<void> {
  if (lines.length > 0) await ctx.io.out(`${lines.join("\n")}\n`);
}

/** Prose, broken between words where a terminal is narrower; what goes on is set in. */
export async function tell(ctx: Ctx, text: string, paint = (line: string) => line): Promise<void> {
  await say(ctx, ...hanging(text, ctx.io.columns()).map(paint));
}

/** One JSON text, indented for a terminal, on one line elsewhere. */
export async function sayJson(ctx: Ctx, value: unknown): Promise<void> {
  await ctx.io.out(`${JSON.stringify(value, null, ctx.io.outTty ? 2 : undefined)}\n`);
}
