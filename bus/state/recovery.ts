// Start-up: checkpoint + replay.
// 1. The checkpoint gives the state at a place of the journal. Missing or unreadable: an empty state at the start (said).
// 2. The journal is read from that place; every event goes through the same reducer as when it happened, and must
//    come to the same state_version (JOURNAL_DAMAGED otherwise).
// 3. A run's document may be newer than the place (the bus died between two documents): its older records are skipped.
// 4. A journal that ends before the checkpoint has lost its tail: JOURNAL_DAMAGED, nothing is guessed.

import { join } from "node:path";
import { BusbarError, isCode } from "../../schemas/errors.ts";
import type { JournalRecord } from "../../schemas/events.ts";
import type { Clock, Log } from "../../schemas/ports.ts";
import { applyEvent } from "./apply.ts";
import { Base } from "./base.ts";
import { loadCheckpoint } from "./checkpoint.ts";
import type { Disk } from "./disk.ts";
import { FileJournal } from "./file-journal.ts";
import { loadKey } from "./key.ts";
import { listSegments } from "./segments.ts";

export interface Recovered {
  base: Base;
  journal: FileJournal;
  key: Buffer;
  /** Events since the checkpoint. */
  replayed: number;
  /** Runs that differ from their documents. */
  dirty: Set<string>;
}

export interface RecoveryPorts {
  disk: Disk;
  /** The bus's own directory. */
  dir: string;
  clock: Clock;
  log: Log;
  segmentBytes?: number;
}

export async function recover(ports: RecoveryPorts): Promise<Recovered> {
  const { disk, dir, clock, log } = ports;
  const began = clock.monotonic();
  await disk.mkdir(dir);
  const journalDir = join(dir, "journal");
  const key = await loadKey(disk, dir, (await listSegments(disk, journalDir)).length === 0);
  const { base, checkpoint } = await fromCheckpoint(ports);
  const dirty = new Set<string>();
  let replayed = 0;
  const onRecord = (record: JournalRecord) => {
    const { run, seq } = record;
    if (run !== undefined && seq <= (checkpoint?.seqOf.get(run) ?? 0)) return;
    if (record.kind === "event") replayed += 1;
    if (replay(base, record) && run !== undefined) dirty.add(run);
  };
  const segmentBytes = ports.segmentBytes !== undefined ? { segmentBytes: ports.segmentBytes } : {};
  const journal = await FileJournal.open(
    { disk, dir: journalDir, key, log, monotonic: () => clock.monotonic(), ...segmentBytes },
    checkpoint?.position,
    onRecord,
  );
  log.info("state loaded", {
    seq: journal.position.seq,
    checkpoint: checkpoint?.position.seq ?? null,
    replayed,
    tasks: base.taskTable.size,
    ms: Math.round(clock.monotonic() - began),
  });
  return { base, journal, key, replayed, dirty };
}

async function fromCheckpoint({ disk, dir, clock, log }: RecoveryPorts) {
  const base = new Base();
  try {
    const ports = { disk, dir: join(dir, "checkpoint"), monotonic: () => clock.monotonic() };
    return { base, checkpoint: await loadCheckpoint(ports, base) };
  } catch (error) {
    if (isCode(error, "STATE_TOO_NEW")) throw error;
    log.warn("the checkpoint cannot be read; the whole journal is replayed", { why: String(error) });
    return { base: new Base(), checkpoint: undefined };
  }
}

/** Puts one record into `base`; true when it changed something. */
export function replay(base: Base, record: JournalRecord): boolean {
  if (record.kind === "access") return base.noteRead(record);
  const { run, task, attempt, event, ts, seq } = record;
  if (!event) return false;
  let version: number | undefined;
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
