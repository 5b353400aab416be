// Exit codes of busctl; the same table is in README.md and in `busctl help run`.

import { BusbarError, type ErrorCode } from "../../schemas/errors.ts";

export const EXIT = {
  /** Done; for `run`: every task is merged. */
  ok: 0,
  /** The run ended with tasks that are blocked, failed or cancelled. */
  unfinished: 1,
  /** Plan, words or repository refused; nothing was started or changed. */
  refused: 2,
  /** Bus or machine trouble, or the bus does not run. */
  infra: 3,
  /** The scheduler paused the run, nobody is at a terminal to see it, and nothing of it moves: `busctl resume` goes on. */
  paused: 4,
  /** Detached, the run goes on: Ctrl-C, or SIGTERM where another command began it. */
  detached: 130,
} as const;

/** Trouble of the machine, the bus or the repository's storage: not the person's words. */
const INFRA: ReadonlySet<ErrorCode> = new Set([
  "INTERNAL",
  "PARSE_ERROR",
  "INVALID_REQUEST",
  "METHOD_NOT_FOUND",
  "NOT_GREETED",
  "PROTOCOL_MISMATCH",
  "BAD_TOKEN",
  "FORBIDDEN",
  "FRAME_TOO_LARGE",
  "TIMEOUT",
  "BUS_AWAY",
  "BUS_NOT_ANSWERING",
  "SOCKET_PATH_TOO_LONG",
  "SOCKET_OBSTRUCTED",
  "UNSAFE_DIRECTORY",
  "LOCK_UNAVAILABLE",
  "DIRECTORY_UNUSABLE",
  "SCHEDULER_NOT_ANSWERING",
  "STORAGE",
  "JOURNAL_DAMAGED",
  "KEY_UNUSABLE",
  "STATE_TOO_NEW",
  "SHUTTING_DOWN",
  "OBJECT_MISSING",
  "OBJECT_DAMAGED",
  "GIT_FAILED",
  "GIT_TIMEOUT",
  "DISK_FULL",
  "WORKSPACE_FAILED",
  "SPAWN_FAILED",
  "IO",
]);

export function exitCodeOf(error: unknown): number {
  if (!(error instanceof BusbarError)) return EXIT.infra;
  return INFRA.has(error.code) ? EXIT.infra : EXIT.refused;
}
