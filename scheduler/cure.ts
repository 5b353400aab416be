// Faults of the host or the plan that every task of a run meets alike, and that only a person mends: a secret whose source
// gives nothing (a password manager that is locked), a file of `copy` that is gone. No try can help, so none is used up:
// the run is paused with the cure, and the attempt is held as it is (bases.ts).

import { BusbarError } from "../schemas/errors.ts";

/** In words, with what a person can do; undefined for what is nothing of the kind. `error`: also as the cause of one. */
export function cureOf(error: unknown): string | undefined {
  const said = error instanceof Error && !(error instanceof BusbarError) ? error.cause : error;
  if (!(said instanceof BusbarError)) return undefined;
  if (said.code !== "SECRET_UNAVAILABLE" && said.code !== "COPY_UNAVAILABLE") return undefined;
  return `${said.message}, whatever a task does, so none is blamed. ${said.help} Mend that and go on, or cancel the run`;
}
