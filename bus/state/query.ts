// Questions to the audit log, answered from the journal with bounded memory.

import type { Removed } from "../../schemas/answers.ts";
import type { JournalRecord } from "../../schemas/events.ts";
import type { Parsed } from "../../schemas/methods.ts";
import type { Journal, ReadHint } from "./journal.ts";
import { term } from "./segment-index.ts";

export type AuditFilter = Partial<Parsed<"query_audit">>;

export interface AuditPage {
  records: JournalRecord[];
  /** There may be more: ask again with `after_seq` set to this. With `newest` it means: older than this. */
  next?: number;
  removed?: Removed;
}

/** What a subscriber wants. */
export interface StreamFilter {
  run?: string;
  /** Reads too, not only events. */
  accesses?: boolean;
}

const DEFAULT_LIMIT = 1_000;

export async function queryAudit(journal: Journal, filter: AuditFilter): Promise<AuditPage> {
  const limit = filter.limit ?? DEFAULT_LIMIT;
  const hint = hintOf(filter);
  const pages = filter.newest
    ? journal.readBack(filter.after_seq ?? Number.POSITIVE_INFINITY, hint)
    : journal.readFrom(filter.after_seq ?? 0, hint);
  const { removed } = journal;
  const records: JournalRecord[] = [];
  for await (const page of pages) {
    for (const record of page) {
      if (!matches(record, filter)) continue;
      if (records.length === limit) return { records, next: records.at(-1)!.seq };
      records.push(record);
    }
  }
  return { records, ...(removed && { removed }) };
}

/** Rarest first: the first needle decides how much is looked at. */
function hintOf({ request_id, task, actor, run, method, kind, since, until }: AuditFilter): ReadHint {
  const needles = Object.entries({ request_id, task, actor, run, method, kind })
    .filter(([, value]) => value !== undefined)
    .map(([name, value]) => term(name, value as string));
  const [from, to] = [moment(since), moment(until)];
  return { needles, ...(from !== undefined && { since: from }), ...(to !== undefined && { until: to }) };
}

/** As records have it; undefined for what is no time: then nothing is left out beforehand. */
function moment(text: string | undefined): string | undefined {
  const ms = text === undefined ? Number.NaN : Date.parse(text);
  return Number.isNaN(ms) ? undefined : new Date(ms).toISOString();
}

function matches(record: JournalRecord, f: AuditFilter): boolean {
  const ts = Date.parse(record.ts);
  return (
    (f.run === undefined || record.run === f.run) &&
    (f.task === undefined || record.task === f.task) &&
    (f.method === undefined || record.method === f.method) &&
    (f.actor === undefined || record.actor === f.actor) &&
    (f.request_id === undefined || record.request_id === f.request_id) &&
    (f.kind === undefined || record.kind === f.kind) &&
    (f.since === undefined || ts >= Date.parse(f.since)) &&
    (f.until === undefined || ts <= Date.parse(f.until))
  );
}

export function wanted(record: JournalRecord, filter: StreamFilter): boolean {
  if (record.kind === "access" && !filter.accesses) return false;
  return filter.run === undefined || record.run === filter.run || record.run === undefined;
}

export async function* recordsAfter(
  journal: Journal,
  seq: number,
  filter: StreamFilter,
): AsyncGenerator<JournalRecord> {
  for await (const page of journal.readFrom(seq)) {
    for (const record of page) if (wanted(record, filter)) yield record;
  }
}
