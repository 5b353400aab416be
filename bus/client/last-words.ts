// What a daemon says on standard error when it cannot start, and how whoever started it reads that:
//
//   busd: SOCKET_OBSTRUCTED: /run/x/bus.sock is a directory, not a socket of ours
//     more lines of the message
//     -> what to do
//
// An error that is not of the catalogue is INTERNAL; its stack stands below, for the log only.

import { BusbarError, ERRORS, type ErrorCode } from "../../schemas/errors.ts";

export type DaemonName = "busd" | "scheduler";

const ADVICE = "  -> ";

/** The text, with its line end. */
export function startFailure(name: DaemonName, error: unknown): string {
  const known = error instanceof BusbarError;
  const code: ErrorCode = known ? error.code : "INTERNAL";
  const message = known
    ? error.message
    : `it failed: ${error instanceof Error ? error.message : String(error)}`;
  const { help: nearer } = known ? error.data : {};
  const help = typeof nearer === "string" ? nearer : ERRORS[code].help;
  const stack = known || !(error instanceof Error) ? "" : `${error.stack}\n`;
  return `${name}: ${code}: ${message.trimEnd().replaceAll("\n", "\n  ")}\n${ADVICE}${help}\n${stack}`;
}

/** The last failure in a log: the error as it was thrown there. Undefined: the program said nothing of the kind. */
export function readStartFailure(log: string): BusbarError | undefined {
  const lines = log.split("\n");
  const at = lines.findLastIndex((line) => /^(?:busd|scheduler): [A-Z_]+: /.test(line));
  if (at < 0) return undefined;
  const [, code = "", first = ""] = /^\w+: ([A-Z_]+): (.*)$/.exec(lines[at] ?? "") ?? [];
  const end = lines.findIndex((line, i) => i > at && (line.startsWith(ADVICE) || !line.startsWith("  ")));
  const rest = lines.slice(at + 1, end < 0 ? undefined : end).map((line) => line.slice(2));
  const help = lines[end]?.startsWith(ADVICE) ? lines[end].slice(ADVICE.length) : undefined;
  const known: ErrorCode = Object.hasOwn(ERRORS, code) ? (code as ErrorCode) : "INTERNAL";
  return new BusbarError(known, [first, ...rest].join("\n"), help === undefined ? {} : { help });
}
