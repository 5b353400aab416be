// `verify`: the journal is proven record by record; on the way its macs are compared with the anchors, and its events are
// put through the reducer again: they must lead to the state that the bus answers from.

import { isDeepStrictEqual } from "node:util";
import type { BranchFault, Former, Gap, Removed, VerifyAnswer } from "../../schemas/answers.ts";
import type { JournalRecord } from "../../schemas/events.ts";
import { ANCHOR_REF } from "../../schemas/ids.ts";
import type { AnchorNote, AnchorPort } from "./anchor.ts";
import { type AnchorFault, anchorFault } from "./anchor-note.ts";
import { Base } from "./base.ts";
import { compareBranches } from "./branches.ts";
import type { DocumentPorts } from "./durable-document.ts";
import { findFormer, type Repository, type Strangers } from "./former.ts";
import type { Beginning, Journal } from "./journal.ts";
import { replay } from "./replay.ts";
import { readWitnesses, type Witnesses } from "./witnesses.ts";

/** Newest anchors that are compared. */
const ANCHORS = 10_000;
/** Tasks compared before others get their turn. */
const TASKS_AT_ONCE = 100;

export interface VerifyParts {
  journal: Journal;
  base: Base;
  /** Where the note of the newest anchor lies. */
  documents: DocumentPorts;
  /** The same note, as the bus has it in mind. */
  noted?: AnchorNote | undefined;
  anchor?: AnchorPort;
  repository?: Repository;
}

export async function verifyJournal(parts: VerifyParts): Promise<VerifyAnswer> {
  const { journal, base } = parts;
  const witnesses = await readWitnesses(parts.documents, parts.anchor, ANCHORS);
  const anchors = witnesses.check;
  const before = await branchesOf(parts);
  // The state at this moment, which is that of the journal's end: immutable values, so that references are enough.
  const live = new Base();
  live.absorb(base);
  const again = new Replayed();
  const gaps: Gap[] = [];
  let removed: Removed | undefined;
  const onRecord = (record: JournalRecord, mac: string) => {
    anchors.see(record.seq, mac);
    if (record.event?.type === "journal.gap") {
      const { from, to, why, former } = record.event;
      gaps.push({ from, to, at: record.ts, why, ...(former && { former }) });
    }
    again.take(record);
  };
  const { records, end, damage } = await journal.verify(onRecord, (beginning) => {
    removed = beginning.removed;
    again.beginWith(beginning);
    gaps.push(...again.gaps);
    anchors.see(beginning.place.seq, beginning.place.mac);
  });
  const bad = damage ?? anchors.fault(end);
  const differs = damage ? undefined : await again.differs(live);
  const outside = await lookOutside(parts, witnesses, before);
  const { anchor_fault, former, branches = [] } = outside;
  const doubts = anchor_fault ?? former ?? branches.find(({ kind }) => kind !== "unknown");
  return {
    ok: bad === undefined && differs === undefined && gaps.length === 0 && doubts === undefined,
    records,
    ...(gaps.length > 0 && { gaps }),
    ...(removed && { removed }),
    ...(bad && { first_bad: bad }),
    ...outside,
    ...(damage ? {} : { replay: differs === undefined ? { same: true } : { same: false, differs } }),
  };
}

type Outside = Pick<VerifyAnswer, "anchors" | "anchor_fault" | "former" | "branches">;

/** What the repository says about this state. */
async function lookOutside(
  parts: VerifyParts,
  witnesses: Witnesses,
  before: BranchFault[],
): Promise<Outside> {
  const { base, anchor, noted } = parts;
  const { check, points, unread } = witnesses;
  const newest = points.reduce<(typeof points)[number] | undefined>(
    (a, b) => (a && a.seq >= b.seq ? a : b),
    undefined,
  );
  const fault = anchor && faultOf(witnesses, base);
  // A landing or a way back of this moment moves branch and journal one after the other: what is wrong stays wrong.
  const after = before.length > 0 ? new Set((await branchesOf(parts)).map(({ why }) => why)) : new Set();
  const branches = before.filter(({ why }) => after.has(why));
  const former = await formerOf(parts, witnesses);
  return {
    ...(anchor &&
      unread === undefined && {
        anchors: {
          held: check.held,
          ...(newest && { newest: { seq: newest.seq, at: newest.at } }),
          ...(noted?.broken && { broken: noted.broken }),
        },
      }),
    ...(fault && { anchor_fault: fault }),
    ...(former && { former }),
    ...(branches.length > 0 && { branches }),
  };
}

function faultOf({ points, strangers, note, unread }: Witnesses, base: Base): AnchorFault | undefined {
  if (unread !== undefined) return { kind: "unread", why: unread };
  let landings = 0;
  for (const { landed } of base.runTable.values()) landings += landed.length;
  return anchorFault(points, strangers.length, note, landings, ANCHOR_REF);
}

/** None where git does not answer: what it says of the anchors tells that. */
async function branchesOf({ base, repository }: VerifyParts): Promise<BranchFault[]> {
  if (!repository) return [];
  return repository.refs().then(
    (refs) => compareBranches(base, refs, repository),
    () => [],
  );
}

async function formerOf(
  { base, repository }: VerifyParts,
  strangers: Strangers,
): Promise<Former | undefined> {
  try {
    return repository && findFormer(base, strangers, await repository.refs(), repository.placed());
  } catch {
    return undefined;
  }
}

/** The state that the records lead to. */
class Replayed {
  readonly #base = new Base();
  #fault: string | undefined;

  get gaps(): readonly Gap[] {
    return this.#base.gaps;
  }

  beginWith(beginning: Beginning): void {
    beginning.fill(this.#base);
  }

  take(record: JournalRecord): void {
    if (this.#fault !== undefined || record.kind !== "event") return;
    try {
      replay(this.#base, record);
    } catch (error) {
      this.#fault = (error as Error).message;
    }
  }

  /** The first run or task that is not as in `live`. */
  async differs(live: Base): Promise<string | undefined> {
    if (this.#fault !== undefined) return this.#fault;
    for (const [name, mine, theirs] of [
      ["run", this.#base.runTable, live.runTable],
      ["task", this.#base.taskTable, live.taskTable],
    ] as const) {
      const keys = new Set([...mine.keys(), ...theirs.keys()]);
      let count = 0;
      for (const key of keys) {
        if (!isSame(mine.get(key), theirs.get(key))) return `${name} ${key}`;
        if (++count % TASKS_AT_ONCE === 0) await new Promise((resolve) => setImmediate(resolve));
      }
    }
    return undefined;
  }
}

/** As they are written into a checkpoint: the order of members says nothing. */
function isSame(a: unknown, b: unknown): boolean {
  const [left, right] = [JSON.stringify(a), JSON.stringify(b)];
  return (
    left === right ||
    (left !== undefined && right !== undefined && isDeepStrictEqual(JSON.parse(left), JSON.parse(right)))
  );
}
