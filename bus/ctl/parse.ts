// The command line of one verb, read by yargs: options by the verb table, words kept as they are.

import yargs from "yargs";
import { BusbarError } from "../../schemas/errors.ts";
import { showId } from "../../schemas/ids.ts";
import { nearest } from "../../schemas/plan/nearest.ts";
import { Args, usage } from "./context.ts";
import { GLOBAL_OPTIONS, type OptionDef, type VerbDef } from "./verb-def.ts";

/** Throws USAGE, with the nearest right option where one is misspelt. */
export function parseVerb(verb: VerbDef, argv: readonly string[]): Args {
  const options = [...verb.options, ...GLOBAL_OPTIONS];
  const values = readOptions(verb, options, argv);
  const words = ((values._ as unknown[] | undefined) ?? []).map(String);
  const map = new Map<string, unknown>();
  for (const { name } of options) {
    const value: unknown = values[name];
    if (value !== undefined) map.set(name, value);
  }
  const args = new Args(words, map);
  if (!args.flag("help")) checkWords(verb, words);
  return args;
}

function readOptions(verb: VerbDef, options: readonly OptionDef[], argv: readonly string[]) {
  const parser = yargs()
    .help(false)
    .version(false)
    .exitProcess(false)
    .showHelpOnFail(false)
    .parserConfiguration({
      "parse-positional-numbers": false,
      "parse-numbers": false,
      "boolean-negation": false,
      "camel-case-expansion": false,
      "dot-notation": false,
      "duplicate-arguments-array": false,
    })
    .strictOptions()
    .fail((message: string | null, error: Error | undefined) => {
      throw error instanceof BusbarError ? error : usage(explain(verb, options, message ?? String(error)));
    });
  for (const o of options) {
    parser.option(o.name, {
      ...(o.value ? { type: "string" as const, requiresArg: true } : { type: "boolean" as const }),
      ...(o.short ? { alias: o.short } : {}),
    });
  }
  return parser.parseSync([...argv]) as Record<string, unknown>;
}

function explain(verb: VerbDef, options: readonly OptionDef[], message: string): string {
  const unknown = /^Unknown arguments?: (.+)$/.exec(message)?.[1]?.split(", ")[0];
  if (unknown !== undefined) {
    const near = nearest(
      unknown,
      options.map((o) => o.name),
    );
    const dashes = unknown.length === 1 ? "-" : "--";
    return `busctl ${verb.name} has no option ${showOption(dashes + unknown)}${near ? `; did you mean --${near}?` : ""}`;
  }
  const needy = /^Not enough arguments following: (.+)$/.exec(message)?.[1];
  if (needy !== undefined) return `${needy.length === 1 ? "-" : "--"}${needy} needs a value`;
  return message.split("\n")[0] ?? message;
}

function showOption(option: string): string {
  return showId(option).slice(1, -1);
}

function checkWords(verb: VerbDef, words: readonly string[]): void {
  const takes = `usage: busctl ${verb.name}${verb.words ? ` ${verb.words}` : ""}`;
  if (words.length < verb.min) throw usage(`busctl ${verb.name} needs ${verb.words}; ${takes}`);
  if (words.length > verb.max) {
    throw usage(`busctl ${verb.name} does not take ${showId(words[verb.max])}; ${takes}`);
  }
}
