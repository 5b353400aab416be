// Start-up: checkpoint + replay.
// 1. The checkpoint gives the state at a place of the journal. Missing or unreadable: an empty state at the start (said).
// 2. The journal is read from that place; every event goes through the same reducer as when it happened, and must
//    come to the same state_version (JOURNAL_DAMAGED otherwise).
// 3. A run's document may be newer than the place (the bus died between two documents): its older records are skipped.
// 4. A journal that ends before the checkpoint or the anchor has lost its tail: gap.ts says how it goes on. Any other
//    damage: JOURNAL_DAMAGED, nothing is guessed.

import { join } from "node:path";
import type { Former } from "../../schemas/answers.ts";
import { isCode } from "../../schemas/errors.ts";
import type { AnyEvent, GivenUp, JournalRecord } from "../../schemas/events.ts";
import { faultPoint } from "../../schemas/fault-points.ts";
import type { Clock, Log } from "../../schemas/ports.ts";
import type { AnchorNote, AnchorPoint, AnchorPort } from "./anchor.ts";
import { applyEvent } from "./apply.ts";
import { Base } from "./base.ts";
import { readBeginning } from "./beginning.ts";
import { loadCheckpoint, runDoc } from "./checkpoint.ts";
import { type Disk, removeFile } from "./disk.ts";
import { FileJournal } from "./file-journal.ts";
import { findFormer, type Repository, type Strangers } from "./former.ts";
import { type Missing, type RepairNote, readRepairNote, repairNotePath, usedAttempts } from "./gap.ts";
import type { Beginning, Position } from "./journal.ts";
import { loadKey, orWrongKey } from "./key.ts";
import { replay } from "./replay.ts";
import { segmentPath } from "./segments.ts";
import { readWitnesses, type Witnesses } from "./witnesses.ts";

export interface Recovered {
  base: Base;
  journal: FileJournal;
  key: Buffer;
  /** Events since the checkpoint. */
  replayed: number;
  /** Runs that differ from their documents. */
  dirty: Set<string>;
  /** Run -> up to which record its document is. */
  docs: Map<string, number>;
  /** Where the checkpoint rests. */
  checkpoint?: Position;
  /** The newest anchor, with what was found wrong with those in the repository. */
  noted?: AnchorNote | undefined;
  /** The repository was run before with another state. */
  former?: Former | undefined;
}

export interface RecoveryPorts {
  disk: Disk;
  /** The bus's own directory. */
  dir: string;
  clock: Clock;
  log: Log;
  segmentBytes?: number;
  anchor?: AnchorPort;
  /** Refs of the repository that keep the work of attempts. */
  attemptRefs?: () => Promise<string[]>;
  repository?: Repository;
}

/** Newest anchors looked at in a start: another bus of the same repository may have added some of its own. */
const ANCHORS_AT_START = 1_000;

export async function recover(ports: RecoveryPorts): Promise<Recovered> {
  const { disk, dir, clock, log } = ports;
  const began = clock.monotonic();
  faultPoint("bus.start.before-make-directory");
  await disk.mkdir(dir);
  await removeDrafts(ports);
  const journalDir = join(dir, "journal");
  const fresh =
    (await disk.list(journalDir)).length === 0 && (await disk.list(join(dir, "checkpoint"))).length === 0;
  const key = await loadKey(disk, dir, fresh);
  const beginning = await beginningOf(ports, journalDir, key);
  const { base, checkpoint } = await fromCheckpoint(ports, key, beginning);
  const witnesses = await witnessesOf(ports, key);
  const anchors = witnesses.check;
  if (checkpoint) anchors.see(checkpoint.position.seq, checkpoint.position.mac);
  const docs = checkpoint?.seqOf ?? new Map<string, number>();
  // What does not come from documents must become some.
  const dirty = new Set<string>(checkpoint ? [] : base.runTable.keys());
  let replayed = 0;
  const onRecord = (record: JournalRecord, mac: string) => {
    const { run, seq } = record;
    anchors.see(seq, mac);
    if (run !== undefined && seq <= (docs.get(run) ?? 0)) return;
    if (record.kind === "event") replayed += 1;
    if (replay(base, record) && run !== undefined) dirty.add(run);
  };
  const segmentBytes = ports.segmentBytes !== undefined ? { segmentBytes: ports.segmentBytes } : {};
  const repaired = await readRepairNote(disk, dir);
  const rests = Math.max(0, checkpoint?.position.seq ?? 0, ...docs.values());
  const journal = await FileJournal.open(
    { disk, dir: journalDir, key, log, monotonic: () => clock.monotonic(), ...segmentBytes },
    checkpoint?.position,
    onRecord,
    Math.max(rests, anchors.newest?.seq ?? 0, repaired?.to ?? 0),
    beginning,
  ).catch(async (error: unknown) => {
    throw await orWrongKey(disk, dir, key, error);
  });
  const told = (missing: Missing) => ({
    why: whyMissing(missing, rests, anchors.newest, repaired),
    ...(repaired?.former && { former: repaired.former }),
  });
  try {
    if (await recordLoss({ ...ports, base, journal }, rests, told)) {
      for (const run of base.runTable.keys()) dirty.add(run);
      replayed += 1;
    }
    if (repaired) {
      faultPoint("bus.gap.before-remove-note");
      await disk.unlink(repairNotePath(dir));
    }
  } catch (error) {
    await journal.close().catch(() => {}); // the first error says what is the matter
    throw error;
  }
  const { segment, lines, seq } = journal.position;
  const fault = anchors.fault({ file: segmentPath(journalDir, segment), line: lines, seq });
  if (fault) log.warn(`the journal is not what it was: ${fault.why}`, { ...fault });
  log.info("state loaded", {
    seq: journal.position.seq,
    checkpoint: checkpoint?.position.seq ?? null,
    replayed,
    tasks: base.taskTable.size,
    ms: Math.round(clock.monotonic() - began),
  });
  return {
    base,
    journal,
    key,
    replayed,
    dirty,
    docs,
    ...(checkpoint && { checkpoint: checkpoint.position }),
    noted: notedAtStart(ports, witnesses),
    former: await formerOf(ports, base, witnesses),
  };
}

/** Documents that a bus was writing beside its key when it died. */
async function removeDrafts({ disk, dir }: RecoveryPorts): Promise<void> {
  for (const name of await disk.list(dir))
    if (name.startsWith(".") && name.endsWith(".tmp")) await removeFile(disk, join(dir, name));
}

async function beginningOf(
  { disk, clock, log }: RecoveryPorts,
  dir: string,
  key: Buffer,
): Promise<Beginning | undefined> {
  const ports = { disk, dir, key, monotonic: () => clock.monotonic() };
  return readBeginning(ports).catch((error: unknown) => {
    if (isCode(error, "STATE_TOO_NEW")) throw error;
    log.warn("the beginning of the journal cannot be read; it explains no missing file", {
      why: String(error),
    });
    return undefined;
  });
}

/** That the ref is not where it was left stays noted, also once it is anchored anew. */
function notedAtStart(
  { clock, log }: RecoveryPorts,
  { note, points, unread }: Witnesses,
): AnchorNote | undefined {
  if (!note || unread !== undefined || points.some(({ seq }) => seq >= note.seq)) return note;
  log.warn("the newest anchor is not in the repository any more: it was deleted or replaced", { ...note });
  return { ...note, broken: { seq: note.seq, at: new Date(clock.now()).toISOString() } };
}

async function formerOf(
  { repository, log }: RecoveryPorts,
  base: Base,
  strangers: Strangers,
): Promise<Former | undefined> {
  if (!repository) return undefined;
  try {
    const former = findFormer(base, strangers, await repository.refs(), repository.placed());
    if (former) log.warn(former.why, { ...former });
    else repository.settle();
    return former;
  } catch (error) {
    log.warn("whether the repository was run before with another state was not looked at", {
      why: String(error),
    });
    return undefined;
  }
}

function whyMissing(
  { from, to }: Missing,
  docs: number,
  anchor: AnchorPoint | undefined,
  repaired: RepairNote | undefined,
): string {
  if (repaired) return repaired.why;
  const seen = [
    ...(docs >= from ? [`the checkpoint rests on record ${docs}`] : []),
    ...(anchor && anchor.seq >= from ? [`the anchor of ${anchor.at} saw record ${anchor.seq}`] : []),
  ];
  return `${seen.join(" and ")}, but the journal ended with record ${from - 1}; what is known of records up to ${to} is the checkpoint`;
}

interface Told {
  why: string;
  former?: GivenUp;
}

/** What is known to be lost becomes a record, where something is. `rests`: where the newest document does. */
async function recordLoss(
  ports: RecoveryPorts & { base: Base; journal: FileJournal },
  rests: number,
  told: (missing: Missing) => Told,
): Promise<boolean> {
  const { missing } = ports.journal;
  const used = await attemptsUsed(ports, ports.base);
  if (missing) await recordGap(ports, { ...missing, ...told(missing), used }, rests >= missing.from);
  else if (Object.keys(used).length === 0) return false;
  else {
    await append(ports, { type: "attempts.passed_over", used });
    ports.log.warn("attempts were begun of which the journal knows nothing: its end was lost", { used });
  }
  return true;
}

/** Writes the record of a gap, durable, before anything else is. */
async function recordGap(
  ports: RecoveryPorts & { base: Base; journal: FileJournal },
  { used, ...gap }: Missing & Told & { used: Record<string, number> },
  fromCheckpoint: boolean,
): Promise<void> {
  const { log, base } = ports;
  const docs = [...base.runTable.keys()].map((id) => runDoc(base, id, gap.to));
  const at = await append(ports, {
    type: "journal.gap",
    ...gap,
    used,
    ...(fromCheckpoint && { state: docs }),
  });
  base.noteGap(gap, at);
  log.warn(`records ${gap.from} to ${gap.to} of the journal are missing; it goes on behind them`, {
    ...gap,
    used,
  });
}

/** One event of the start itself, durable and applied; gives its time. */
async function append(
  { clock, base, journal }: RecoveryPorts & { base: Base; journal: FileJournal },
  event: AnyEvent,
): Promise<string> {
  const record = { ts: new Date(clock.now()).toISOString(), kind: "event", actor: "bus", event } as const;
  await new Promise<void>((resolve, failed) => {
    journal.append({ records: [record], durable: true, written: () => resolve(), failed });
  });
  applyEvent(base, { event }, record.ts);
  return record.ts;
}

/** Refs that cannot be read, said in the log, leave the directories. */
async function attemptsUsed({ disk, dir, log, attemptRefs }: RecoveryPorts, base: Base) {
  const refs = await (attemptRefs?.() ?? Promise.resolve([])).catch((error: unknown) => {
    log.warn("refs of attempts cannot be read; only their directories say which numbers were used", {
      why: String(error),
    });
    return [];
  });
  return await usedAttempts(disk, join(dir, "..", "runs"), base, refs);
}

async function witnessesOf(
  { anchor, disk, dir, clock, log }: RecoveryPorts,
  key: Buffer,
): Promise<Witnesses> {
  const ports = { disk, dir, key, monotonic: () => clock.monotonic() };
  const found = await readWitnesses(ports, anchor, ANCHORS_AT_START);
  if (found.unread !== undefined)
    log.warn("the anchor of the journal cannot be read; whether its end is missing was not checked", {
      why: found.unread,
    });
  return found;
}

/** Where there is none that is of use: the state that the journal begins with. */
async function fromCheckpoint(
  { disk, dir, clock, log }: RecoveryPorts,
  key: Buffer,
  beginning: Beginning | undefined,
) {
  const base = new Base();
  try {
    const ports = { disk, dir: join(dir, "checkpoint"), key, monotonic: () => clock.monotonic() };
    const checkpoint = await loadCheckpoint(ports, base);
    if (checkpoint && checkpoint.position.seq >= (beginning?.place.seq ?? 0)) return { base, checkpoint };
    if (checkpoint)
      log.warn("the checkpoint is older than the journal's beginning; the whole journal is replayed");
  } catch (error) {
    if (isCode(error, "STATE_TOO_NEW")) throw error;
    log.warn("the checkpoint cannot be read; the whole journal is replayed", { why: String(error) });
  }
  const empty = new Base();
  beginning?.fill(empty);
  return { base: empty, checkpoint: undefined };
}
