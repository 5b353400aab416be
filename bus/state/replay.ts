// One record of the journal put into a state, as it was when it happened. Used by a start, by `verify`, and where the
// beginning of the journal is removed.

import { BusbarError } from "../../schemas/errors.ts";
import type { JournalRecord } from "../../schemas/events.ts";
import { applyEvent } from "./apply.ts";
import type { Base } from "./base.ts";
import { fill, type RunDoc } from "./checkpoint.ts";

/** Puts one record into `base`; true when it changed something. */
export function replay(base: Base, record: JournalRecord): boolean {
  if (record.kind === "access") return base.noteRead(record);
  const { run, task, attempt, event, ts, seq } = record;
  if (!event) return false;
  let version: number | undefined;
  if (event.type === "journal.gap") {
    for (const doc of event.state ?? []) fill(base, doc as RunDoc);
    base.noteGap(event, ts);
  }
  try {
    const target = { ...(run !== undefined && { run }), ...(task !== undefined && { task }) };
    version = applyEvent(base, { ...target, ...(attempt !== undefined && { attempt }), event }, ts);
  } catch (error) {
    throw notFollowing(record, String(error));
  }
  if (version !== record.state_version) {
    throw notFollowing(record, `it leads to state_version ${version}, not ${record.state_version}`);
  }
  if (run !== undefined && task !== undefined) {
    const after = base.task(run, task);
    if (after) base.trimReads(after);
  }
  return seq > 0;
}

function notFollowing(record: JournalRecord, why: string): BusbarError {
  return new BusbarError(
    "JOURNAL_DAMAGED",
    `record ${record.seq} (${record.event?.type} of ${record.run}/${record.task}) does not follow from those before it: ${why}`,
    { seq: record.seq, why },
  );
}
