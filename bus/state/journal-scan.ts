// Reading the journal at start and for `verify`: chain, order, torn tail.
//
// A torn tail is what a crash in the middle of a write leaves: at the very end of the last segment, a piece without
// newline, a run of NULs, or a last line that is not a sealed record. It was never acknowledged. It is copied to
// torn/, cut off, and said in the log. The last record written twice counts once; records come behind it then, so that a
// record may stand there twice anywhere, byte for byte and at once.
// Anything else that does not follow is damage: JOURNAL_DAMAGED with file, line, sequence number and what a person can do.

import { join } from "node:path";
import { BusbarError } from "../../schemas/errors.ts";
import type { JournalRecord } from "../../schemas/events.ts";
import { faultPoint } from "../../schemas/fault-points.ts";
import { bodyOf, claimedMac, FIRST_MAC, follows } from "./chain.ts";
import { diagnose, records } from "./diagnose.ts";
import { type Disk, readAt, writeWhole } from "./disk.ts";
import { gapOf, type Missing } from "./gap.ts";
import type { Damage, Position } from "./journal.ts";
import { PackedFault } from "./packed.ts";
import { type Line, listSegments, readLines, type Segment, segmentPath, seqOf } from "./segments.ts";

export const START: Position = { seq: 0, mac: FIRST_MAC, segment: 0, offset: 0, lines: 0 };

export interface Scan {
  /** After the last good record. */
  end: Position;
  records: number;
  /** Bytes from here to the end of the last segment are torn. */
  torn?: { path: string; offset: number; bytes: number; why: string };
  damage?: Damage;
  /** Records that the journal itself says are missing. */
  gaps?: readonly Missing[];
  /** The newest good line, where the scan came past it. */
  newest?: Buffer;
}

export interface ScanPorts {
  disk: Disk;
  dir: string;
  key: Buffer;
}

interface Job extends ScanPorts {
  from: Position;
  /** Stop after this record. */
  until?: number;
  onLine(line: Buffer, mac: string): void;
}

/** Lines after which others get their turn: proving a megabyte of them takes some milliseconds. */
const LINES_AT_ONCE = 400;

/** Goes through the journal from a place on; `onLine` gets every good line, in order. Reads only. */
export async function scan(job: Job): Promise<Scan> {
  // Files before the beginning do not count any more, they may go at any moment.
  const fromStart = job.from.segment === 0;
  const segments = (await listSegments(job.disk, job.dir)).filter(
    ({ first }) => !fromStart || first > job.from.seq,
  );
  const at = await startSegment(job, segments);
  if ("why" in at) return { end: job.from, records: 0, damage: at };
  let state: Scan = { end: job.from, records: 0 };
  // What is known to have been written whole is not torn by a crash.
  const mayBeTorn = job.until === undefined;
  for (const [i, segment] of segments.entries()) {
    if (i < at.index) continue;
    const resumed = i === at.index && !fromStart;
    const offset = resumed ? job.from.offset : 0;
    const lines = resumed ? job.from.lines : 0;
    if (!resumed && segment.first !== state.end.seq + 1 && !(await beginsWithGap(job, segment, state.end))) {
      return { ...state, damage: await missingBefore(job, segments.slice(i), state.end) };
    }
    state = { ...state, end: { ...state.end, segment: segment.first, offset, lines } };
    const { bad, broken, ...after } = await scanSegment(
      job,
      segment,
      state,
      mayBeTorn && i === segments.length - 1,
    );
    state = after;
    if (bad) return { ...state, damage: await damageAt(job, segments.slice(i), bad, state.end) };
    if (broken !== undefined) return { ...state, damage: brokenAt(segment, state.end, broken) };
    if (state.torn || state.end.seq === job.until) return state;
  }
  return state;
}

function brokenAt({ path }: Segment, { seq, lines }: Position, why: string): Damage {
  return {
    kind: "changed",
    file: path,
    line: lines + 1,
    seq: seq + 1,
    why: `the packed file was changed: ${why}`,
  };
}

/** The first record after a gap may begin a file. */
async function beginsWithGap({ disk, key }: Job, segment: Segment, { seq, mac }: Position): Promise<boolean> {
  try {
    // What is not proven is not parsed either: a changed byte may have left no JSON.
    for await (const [line] of readLines(disk, segment))
      return (
        line !== undefined &&
        follows(key, mac, line.bytes) !== undefined &&
        gapOf(line.bytes, segment.first, seq) !== undefined
      );
  } catch (error) {
    if (!(error instanceof PackedFault)) throw error;
  }
  return false;
}

async function missingBefore(job: Job, segments: Segment[], end: Position): Promise<Damage> {
  const [{ first, path }] = segments as [Segment];
  const why = `${records(end.seq + 1, first - 1)} missing before this file`;
  for await (const _ of linesOnward(job.disk, segments, 0))
    return { kind: "removed", file: path, line: 1, seq: end.seq + 1, why };
  return { kind: "cut", file: path, line: 1, seq: end.seq + 1, why: `${why}, and nothing follows` };
}

async function damageAt(job: Job, segments: Segment[], bad: Line, end: Position): Promise<Damage> {
  const path = segments[0]!.path;
  if (!bad.ended && segments.length === 1)
    return { kind: "cut", file: path, line: bad.number, seq: end.seq + 1, why: whyTorn(bad) };
  const found = await diagnose(job.key, end, linesOnward(job.disk, segments, bad.offset));
  return { ...found, file: path, line: bad.number, seq: end.seq + 1 };
}

async function* linesOnward(disk: Disk, segments: Segment[], offset: number): AsyncGenerator<Line[]> {
  try {
    for (const [i, segment] of segments.entries()) yield* readLines(disk, segment, i === 0 ? offset : 0);
  } catch (error) {
    if (!(error instanceof PackedFault)) throw error; // what comes behind cannot be looked at
  }
}

/** Which segment to begin with; damage when the place is not in the journal (its tail is missing). */
async function startSegment(job: Job, segments: Segment[]): Promise<{ index: number } | Damage> {
  const { from, disk } = job;
  if (from.segment === 0) return { index: 0 };
  const path = segmentPath(job.dir, from.segment);
  const missing = (why: string): Damage => ({
    kind: "cut",
    file: path,
    line: from.lines,
    seq: from.seq,
    why,
  });
  const index = segments.findIndex((s) => s.first === from.segment);
  if (index < 0) return missing(`the checkpoint rests on record ${from.seq}, but this file is not there`);
  if (from.offset === 0) return { index }; // a file that was begun and not written to: its first record must follow
  if (!(await holdsMac(disk, segments[index] as Segment, from)))
    return missing(
      `the checkpoint rests on record ${from.seq}, but the journal does not hold it there: its tail is missing or was changed`,
    );
  return { index };
}

/** Whether the record before the place has its mac. */
async function holdsMac(disk: Disk, segment: Segment, { offset, mac }: Position): Promise<boolean> {
  const tail = `"mac":"${mac}"}\n`;
  if (!segment.packed) {
    const file = await disk.open(segment.path, "r");
    try {
      const found = await readAt(file, Math.max(0, offset - tail.length), tail.length);
      return found.toString("latin1") === tail;
    } finally {
      await file.close();
    }
  }
  for await (const lines of readLines(disk, segment))
    for (const line of lines) if (placeAfter(line).offset === offset) return claimedMac(line.bytes) === mac;
  return false;
}

/** Goes on from `before`; `bad` is a line that is damage, `broken` why no more lines come. */
async function scanSegment(
  job: Job,
  segment: Segment,
  before: Scan,
  last: boolean,
): Promise<Scan & { bad?: Line; broken?: string }> {
  const { end } = before;
  const pages = readLines(job.disk, segment, end.offset, Number.POSITIVE_INFINITY, end.lines + 1);
  const walk = new Walk(job, before);
  try {
    for await (const lines of pages)
      for (const line of lines) {
        if (walk.take(line) === "stop") return walk.found();
        if (walk.records % LINES_AT_ONCE === 0) await new Promise((resolve) => setImmediate(resolve));
      }
  } catch (error) {
    if (!(error instanceof PackedFault)) throw error;
    return { ...walk.found(), broken: error.message };
  }
  const { bad } = walk;
  if (!bad || !last || !isTorn(bad)) return walk.found();
  const { offset, ended } = bad;
  const bytes = bad.bytes.length + (ended ? 1 : 0);
  return {
    end: walk.end,
    records: walk.records,
    torn: { path: segment.path, offset, bytes, why: whyTorn(bad) },
  };
}

/** Line by line along the chain. */
class Walk {
  end: Position;
  records: number;
  bad: Line | undefined;
  /** Of the file before, too: what stands at the head of a file is compared with its last line. */
  #newest: Buffer | undefined;
  #gaps: readonly Missing[] | undefined;

  constructor(
    private readonly job: Job,
    before: Scan,
  ) {
    this.end = before.end;
    this.records = before.records;
    this.#gaps = before.gaps;
    this.#newest = before.newest;
  }

  take(line: Line): "go on" | "stop" {
    const { job, end } = this;
    if (this.bad) return "stop"; // something comes behind it
    const mac = line.ended ? follows(job.key, end.mac, line.bytes) : undefined;
    const seq = mac === undefined ? undefined : this.#next(line.bytes);
    if (mac !== undefined && seq !== undefined) {
      job.onLine(line.bytes, mac);
      this.records += 1;
      this.end = { ...end, ...placeAfter(line), seq, mac };
      this.#newest = line.bytes;
      return this.end.seq === job.until ? "stop" : "go on";
    }
    if (line.ended && isRepeat(line.bytes, this.#newest, end)) this.end = { ...end, ...placeAfter(line) };
    else this.bad = line;
    return "go on";
  }

  /** The number of a line that may come next. */
  #next(line: Buffer): number | undefined {
    const seq = seqOf(line);
    if (seq === undefined || seq === this.end.seq + 1) return seq;
    const gap = gapOf(line, seq, this.end.seq);
    if (!gap) return undefined;
    this.#gaps = [...(this.#gaps ?? []), gap];
    return seq;
  }

  found(): Scan & { bad?: Line } {
    const { end, records, bad } = this;
    const [gaps, newest] = [this.#gaps, this.#newest];
    return { end, records, ...(gaps && { gaps }), ...(newest && { newest }), ...(bad && { bad }) };
  }
}

function placeAfter(line: Line): { offset: number; lines: number } {
  return { offset: line.offset + line.bytes.length + 1, lines: line.number };
}

/** The newest good record once more (its line is not known where the scan began behind it). */
function isRepeat(line: Buffer, newest: Buffer | undefined, end: Position): boolean {
  if (newest) return newest.equals(line);
  return end.seq > 0 && claimedMac(line) === end.mac && seqOf(line) === end.seq;
}

/** A complete line that ends like a sealed record was written whole: that it does not follow is no accident of a crash. */
function isTorn(line: Line): boolean {
  return !line.ended || line.bytes.includes(0) || claimedMac(line.bytes) === undefined;
}

function whyTorn(line: Line): string {
  if (line.bytes.includes(0)) return "it holds NUL bytes";
  return line.ended ? "it is not a record" : "it is not complete";
}

/** The error for a start that must not go on, with the choice a person has. */
export function damaged(d: Damage): BusbarError {
  return new BusbarError(
    "JOURNAL_DAMAGED",
    `the journal is damaged: ${d.file} line ${d.line} (record ${d.seq}): ${d.kind}: ${d.why}. Restore the directory from a backup; or, ` +
      `to give up record ${d.seq} and what comes after it, \`busctl repair\`: it keeps a copy, says what would be lost, and asks.`,
    { ...d },
  );
}

/** The record of a line. Throws JOURNAL_DAMAGED: a question also meets lines that no start has proven. */
export function parseLine(line: Buffer): JournalRecord {
  try {
    return JSON.parse(bodyOf(line)) as JournalRecord;
  } catch (error) {
    const which = seqOf(line) === undefined ? "a record" : `record ${seqOf(line)}`;
    throw new BusbarError(
      "JOURNAL_DAMAGED",
      `reading the journal: ${which} was changed; \`busctl verify\` names the place`,
      {},
      { cause: error },
    );
  }
}

/** Keeps the torn bytes beside the journal, then cuts them off, durably. Returns where they are kept. */
export async function cutTorn(
  disk: Disk,
  dir: string,
  torn: NonNullable<Scan["torn"]>,
  seq: number,
): Promise<string> {
  const keep = join(dir, "..", "torn");
  faultPoint("bus.torn.before-make-directory");
  await disk.mkdir(keep);
  faultPoint("bus.torn.before-open-journal");
  const file = await disk.open(torn.path, "r+");
  const copy = join(keep, `after-${seq}-${torn.bytes}.bin`);
  try {
    faultPoint("bus.torn.before-copy");
    await writeWhole(disk, copy, await readAt(file, torn.offset, torn.bytes));
    faultPoint("bus.torn.before-cut");
    await file.truncate(torn.offset);
    faultPoint("bus.torn.before-sync-cut");
    await file.sync();
  } finally {
    await file.close();
  }
  return copy;
}
