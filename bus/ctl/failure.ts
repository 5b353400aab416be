// How a failure is said: what failed in one line, what to do in the next. Never a stack trace, unless
// BUSBAR_DEBUG=1 asks for it. With --json an object on standard error.

import { BusbarError, knownError } from "../../schemas/errors.ts";
import type { Palette } from "./render/palette.ts";
import { harmless, wrap } from "./render/width.ts";

const NAME = "busctl:";

export interface FailureOptions {
  json: boolean;
  debug: boolean;
  p: Palette;
  /** Cells of the terminal that standard error is; Infinity where it is none. */
  width: number;
}

/** Text for standard error, with its line end. */
export function failureText(error: unknown, { json, debug, p, width }: FailureOptions): string {
  const typed = knownError(error);
  const words = `busctl failed: ${error instanceof Error ? error.message : String(error)}`;
  const known = typed ?? new BusbarError("INTERNAL", words);
  const help = typed ? helpOf(typed) : "This is a fault of busbar; BUSBAR_DEBUG=1 shows where it happened.";
  const stack = debug && error instanceof Error ? `${error.stack ?? ""}\n` : "";
  if (json) {
    const { message, code } = known;
    return `${stack}${JSON.stringify({ error: { code, message, help, ...extras(known) } })}\n`;
  }
  const [first = "", ...rest] = `${NAME} ${harmless(known.message).trimEnd()}`
    .split("\n")
    .flatMap((line) => wrap(line, width - 2));
  const more = rest.map((line) => `  ${line}`);
  const cure = wrap(harmless(help), width - 5).map((line, i) => `  ${i === 0 ? p.dim("->") : "  "} ${line}`);
  return `${stack}${[p.red(NAME) + first.slice(NAME.length), ...more, ...cure].join("\n")}\n`;
}

/** A nearer word of help than the catalogue's may come with the error. */
function helpOf(error: BusbarError): string {
  const help = typeof error.data.help === "string" ? error.data.help : error.help;
  const { request_id } = error.data;
  return typeof request_id === "string" ? `${help} (request id ${request_id})` : help;
}

/** Facts that a program may want: the faults of a plan, the process or the log that is meant. */
const FACTS = ["problems", "pid", "path", "log"] as const;

function extras(error: BusbarError): Record<string, unknown> {
  const found = FACTS.filter((name) => error.data[name] !== undefined);
  return Object.fromEntries(found.map((name) => [name, error.data[name]]));
}
