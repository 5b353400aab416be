// What a verb of busctl is: enough to parse its words, to write its help and to complete it in a shell.

import type { Args, Ctx } from "./context.ts";

export interface OptionDef {
  name: string;
  short?: string;
  /** Name of its value in the help, e.g. FILE; absent: a flag. */
  value?: string;
  help: string;
}

export interface VerbModule {
  /** Fulfilled with the exit code; throws BusbarError for what went wrong. */
  run(ctx: Ctx, args: Args): Promise<number>;
}

export type Group = "Plan and run" | "Watch" | "Look at the work" | "Decide" | "House";

export interface VerbDef {
  name: string;
  group: Group;
  /** The words it takes, as shown, e.g. "FILE|DIR". */
  words: string;
  min: number;
  max: number;
  summary: string;
  options: readonly OptionDef[];
  /** Lines under the options in the help of the verb. */
  more?: readonly string[];
  examples: readonly (readonly [command: string, what: string])[];
  /** What its first word is, for completion. */
  completes?: "file" | "shell";
  load(): Promise<VerbModule>;
}

/** Options that every verb takes. */
export const GLOBAL_OPTIONS: readonly OptionDef[] = [
  {
    name: "repo",
    value: "DIR",
    help: "repository to work on (default: the one around the current directory)",
  },
  { name: "json", help: "answer in JSON; errors too, on standard error" },
  { name: "no-color", help: "no colours (also NO_COLOR=1)" },
  { name: "help", short: "h", help: "this help" },
];
