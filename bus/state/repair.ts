// `busctl repair`: takes damaged records, and all that come after them, out of a journal that no start accepts. Offline: the
// caller holds the lock. Everything that is changed is copied first and stays beside it.
//
// 1. Copies, durable. 2. A note for the next start (gap.ts): which numbers were used. 3. The file with the damage is cut
// before it, later files go. After a crash between any two steps the start refuses as before or goes on from the note.
// Where the checkpoint does not belong to the journal, it is the checkpoint that is put aside.
//
// Where nothing is damaged, but the repository was run before with a state that is not there any more (former.ts), it gives
// that state up: a note for the next start, which records the gap. Nothing else is changed.

import { basename, join } from "node:path";
import type { Former } from "../../schemas/answers.ts";
import { faultPoint } from "../../schemas/fault-points.ts";
import { type AnchorPort, readAnchors } from "./anchor.ts";
import { Base } from "./base.ts";
import { readBeginning } from "./beginning.ts";
import { loadCheckpoint } from "./checkpoint.ts";
import { type Disk, readAt, removeFile, writeAll } from "./disk.ts";
import { findFormer, type Repository } from "./former.ts";
import { type RepairNote, readRepairNote, repairNotePath } from "./gap.ts";
import type { Damage, Position } from "./journal.ts";
import { damaged, parseLine, type Scan } from "./journal-scan.ts";
import { loadKey, orWrongKey } from "./key.ts";
import { proveStart } from "./opening.ts";
import { PackedFault } from "./packed.ts";
import { replay } from "./replay.ts";
import { indexPath, listSegments, readLines, type Segment, segmentPath, seqOf } from "./segments.ts";

export interface RepairPorts {
  disk: Disk;
  /** The bus's own directory. */
  dir: string;
  monotonic(): number;
}

/** What is wrong, and what taking it out would cost. */
export interface Finding {
  damage: Damage;
  /** Place after the last record that stays. */
  end: Position;
  /** The highest number found behind it. */
  to: number;
  /** Whole lines that would go. */
  lines: number;
  /** The state after it: the checkpoint's, or what the records that stay lead to. */
  state: "checkpoint" | "replay";
}

const COPY_BYTES = 1024 * 1024;
/** Newest anchors looked at for those of another state. */
const ANCHORS = 10_000;
/** A larger number in an anchor that cannot be proven is not gone on from. */
const MOST_CLAIMED = 1_000_000_000;

/** Undefined where a start finds nothing to refuse. Changes nothing. Throws KEY_UNUSABLE: it is not the journal that is wrong. */
export async function lookAtDamage({ disk, dir, monotonic }: RepairPorts): Promise<Finding | undefined> {
  const { state, key, found, rests } = (await readState({ disk, dir, monotonic })) ?? {};
  if (!found?.damage || !state || !key) return undefined;
  const journal = join(dir, "journal");
  const { damage, end } = found;
  const told = damaged(damage);
  const cause = await orWrongKey(disk, dir, key, told);
  if (cause !== told) throw cause;
  if (damage.kind === "replaced") return { damage, end, to: end.seq, lines: 0, state: "replay" };
  const behind = await countBehind(disk, journal, end);
  const newer = rests !== undefined && rests.seq > end.seq;
  return { damage, end, ...behind, state: newer ? "checkpoint" : "replay" };
}

interface ReadState {
  key: Buffer;
  found: Scan;
  /** Where the checkpoint rests, when it counts. */
  rests: Position | undefined;
  /** As far as it can be proven. */
  state: Base;
}

/** What a start would go on from; undefined where nothing was sealed yet. Changes nothing. */
async function readState({ disk, dir, monotonic }: RepairPorts): Promise<ReadState | undefined> {
  const journal = join(dir, "journal");
  const names = [...(await disk.list(journal)), ...(await disk.list(join(dir, "checkpoint")))];
  if (names.length === 0) return undefined;
  const key = await loadKey(disk, dir, false);
  let state = new Base();
  const checkpoint = await loadCheckpoint(
    { disk, dir: join(dir, "checkpoint"), key, monotonic },
    state,
  ).catch(
    () => undefined, // the start passes over it, too
  );
  const beginning = await readBeginning({ disk, dir: journal, key, monotonic }).catch(() => undefined);
  const from = beginning?.place;
  const rests = checkpoint && checkpoint.position.seq >= (from?.seq ?? 0) ? checkpoint.position : undefined;
  if (!rests) {
    state = new Base();
    beginning?.fill(state);
  }
  const docs = rests ? checkpoint?.seqOf : undefined;
  let follows = true;
  const onLine = (line: Buffer) => {
    try {
      const record = follows ? parseLine(line) : undefined;
      const upTo = record?.run === undefined ? 0 : (docs?.get(record.run) ?? 0);
      if (record && record.seq > Math.max(upTo, rests?.seq ?? 0)) replay(state, record);
    } catch {
      follows = false; // a start refuses that; what it knows of runs is enough here
    }
  };
  return { key, state, rests, found: await proveStart({ disk, dir: journal, key }, rests, onLine, from) };
}

/** The state that ran this repository before, where it is not given up yet; and the first number that may follow. */
export async function lookAtFormer(
  ports: RepairPorts,
  anchor: AnchorPort,
  repository: Repository,
): Promise<{ former: Former; to: number } | undefined> {
  const { key, found, state } = (await readState(ports)) ?? {};
  const strangers = key
    ? await readAnchors(key, anchor, ANCHORS)
    : { strangers: await anchor.read(ANCHORS), between: 0 };
  const former = findFormer(state ?? new Base(), strangers, await repository.refs(), repository.placed());
  if (!former) return undefined;
  const end = found?.end.seq ?? 0;
  // Only a claim: nobody can prove it without the key of that state.
  const claimed = former.seq !== undefined && former.seq < MOST_CLAIMED ? former.seq : 0;
  return { former, to: Math.max(claimed, end + 1) };
}

/** Gives it up: the next start records that records up to `to` are not there, and goes on behind them. */
export async function giveUp({ disk, dir }: RepairPorts, former: Former, to: number): Promise<void> {
  const { why, anchor, runs } = former;
  await makeDir(disk, dir);
  await leaveNote(disk, dir, { to, why, former: { runs, ...(anchor !== undefined && { anchor }) } });
}

async function countBehind(
  disk: Disk,
  journal: string,
  end: Position,
): Promise<{ to: number; lines: number }> {
  let to = end.seq;
  let lines = 0;
  for (const segment of await listSegments(disk, journal)) {
    if (segment.first < end.segment) continue;
    to = Math.max(to, segment.first === end.segment ? to : segment.first);
    try {
      for await (const page of readLines(disk, segment, segment.first === end.segment ? end.offset : 0)) {
        lines += page.length;
        for (const line of page) to = Math.max(to, seqOf(line.bytes) ?? 0);
      }
    } catch (error) {
      if (!(error instanceof PackedFault)) throw error; // what cannot be read cannot be counted
    }
  }
  return { to, lines };
}

/** Does what `lookAtDamage` told; answers where the copies lie. `stamp` makes their directory's name. */
export async function takeOut(ports: RepairPorts, finding: Finding, stamp: string): Promise<string> {
  const { disk, dir } = ports;
  const copies = join(dir, `before-repair-${stamp}`);
  await makeDir(disk, copies);
  if (finding.damage.kind === "replaced") {
    faultPoint("bus.repair.before-put-checkpoint-aside");
    await disk.rename(join(dir, "checkpoint"), join(copies, "checkpoint"));
    return copies;
  }
  const journal = join(dir, "journal");
  const { end, damage } = finding;
  // One that was killed has left its note, and may have removed the files that held the highest numbers.
  const to = Math.max(finding.to, (await readRepairNote(disk, dir))?.to ?? 0);
  const changed = (await listSegments(disk, journal)).filter(({ first }) => first >= end.segment);
  await makeDir(disk, join(copies, "journal"));
  for (const { path } of changed) await copy(disk, path, join(copies, "journal", basename(path)));
  await syncDir(disk, join(copies, "journal"));
  const why = `record ${damage.seq} was found ${damage.kind} and taken out with all after it; kept in ${copies}`;
  await leaveNote(disk, dir, { to, why });
  for (const segment of changed.reverse()) await cut(disk, journal, segment, end);
  await syncDir(disk, journal);
  return copies;
}

async function makeDir(disk: Disk, dir: string): Promise<void> {
  faultPoint("bus.repair.before-make-directory");
  await disk.mkdir(dir);
}

async function syncDir(disk: Disk, dir: string): Promise<void> {
  faultPoint("bus.repair.before-sync-directory");
  await disk.syncDir(dir);
}

async function copy(disk: Disk, from: string, to: string): Promise<void> {
  const source = await disk.open(from, "r");
  try {
    faultPoint("bus.repair.before-open-copy");
    const target = await disk.open(to, "wx", 0o600);
    try {
      const { size } = await source.stat();
      for (let at = 0; at < size; at += COPY_BYTES) {
        const bytes = await readAt(source, at, Math.min(COPY_BYTES, size - at));
        faultPoint("bus.repair.before-copy");
        await writeAll(target, bytes, at);
      }
      faultPoint("bus.repair.before-sync-copy");
      await target.sync();
    } finally {
      await target.close();
    }
  } finally {
    await source.close();
  }
}

async function leaveNote(disk: Disk, dir: string, note: RepairNote): Promise<void> {
  const path = repairNotePath(dir);
  const temporary = `${path}.tmp`;
  await removeFile(disk, temporary);
  faultPoint("bus.repair.before-open-note");
  const file = await disk.open(temporary, "wx", 0o600);
  try {
    faultPoint("bus.repair.before-write-note");
    await writeAll(file, Buffer.from(`${JSON.stringify(note)}\n`), 0);
    faultPoint("bus.repair.before-sync-note");
    await file.sync();
  } finally {
    await file.close();
  }
  faultPoint("bus.repair.before-rename-note");
  await disk.rename(temporary, path);
  await syncDir(disk, dir);
}

/** A later file goes; that of the last good record keeps what lies before the damage. */
async function cut(disk: Disk, journal: string, segment: Segment, end: Position): Promise<void> {
  if (segment.first === end.segment && end.offset > 0) {
    if (segment.packed) await unpackUpTo(disk, journal, segment, end);
    else return truncate(disk, segment.path, end.offset);
  }
  await removeFile(disk, indexPath(journal, segment.first));
  await removeFile(disk, `${segmentPath(journal, segment.first)}.gz`);
  if (segment.packed) return;
  await removeFile(disk, segment.path);
}

async function truncate(disk: Disk, path: string, length: number): Promise<void> {
  faultPoint("bus.repair.before-open-to-cut");
  const file = await disk.open(path, "r+");
  try {
    faultPoint("bus.repair.before-cut");
    await file.truncate(length);
    faultPoint("bus.repair.before-sync-cut");
    await file.sync();
  } finally {
    await file.close();
  }
}

/** The good lines of a packed file, plain again: where both are there, the plain one counts. */
async function unpackUpTo(disk: Disk, journal: string, segment: Segment, end: Position): Promise<void> {
  const plain = segmentPath(journal, segment.first);
  const temporary = `${plain}.tmp`;
  faultPoint("bus.repair.before-open-plain");
  const file = await disk.open(temporary, "w", 0o600);
  try {
    writing: for await (const page of readLines(disk, segment))
      for (const { bytes, offset } of page) {
        if (offset >= end.offset) break writing;
        faultPoint("bus.repair.before-write-plain");
        await writeAll(file, Buffer.concat([bytes, Buffer.from("\n")]), offset);
        // The block behind it is the damaged one: it is not even read.
        if (offset + bytes.length + 1 >= end.offset) break writing;
      }
    faultPoint("bus.repair.before-sync-plain");
    await file.sync();
  } finally {
    await file.close();
  }
  faultPoint("bus.repair.before-rename-plain");
  await disk.rename(temporary, plain);
  await syncDir(disk, journal);
}
