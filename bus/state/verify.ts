// `verify`: the journal is proven record by record; on the way its macs are compared with the anchors, and its events are
// put through the reducer again: they must lead to the state that the bus answers from.

import { isDeepStrictEqual } from "node:util";
import type { Gap, Removed, VerifyAnswer } from "../../schemas/answers.ts";
import type { JournalRecord } from "../../schemas/events.ts";
import { AnchorCheck, type AnchorPort, readAnchors } from "./anchor.ts";
import { Base } from "./base.ts";
import type { Beginning, Journal } from "./journal.ts";
import { replay } from "./replay.ts";

/** Newest anchors that are compared. */
const ANCHORS = 10_000;
/** Tasks compared before others get their turn. */
const TASKS_AT_ONCE = 100;

export interface VerifyParts {
  journal: Journal;
  base: Base;
  key: Buffer;
  anchor?: AnchorPort;
}

export async function verifyJournal({ journal, base, key, anchor }: VerifyParts): Promise<VerifyAnswer> {
  const anchors = anchor && (await anchorsOf(key, anchor));
  // The state at this moment, which is that of the journal's end: immutable values, so that references are enough.
  const live = new Base();
  live.absorb(base);
  const again = new Replayed();
  const gaps: Gap[] = [];
  let removed: Removed | undefined;
  const onRecord = (record: JournalRecord, mac: string) => {
    anchors?.see(record.seq, mac);
    if (record.event?.type === "journal.gap") {
      const { from, to, why } = record.event;
      gaps.push({ from, to, at: record.ts, why });
    }
    again.take(record);
  };
  const { records, end, damage } = await journal.verify(onRecord, (beginning) => {
    removed = beginning.removed;
    again.beginWith(beginning);
    gaps.push(...again.gaps);
    anchors?.see(beginning.place.seq, beginning.place.mac);
  });
  const bad = damage ?? anchors?.fault(end);
  const newest = anchors?.newest;
  const differs = damage ? undefined : await again.differs(live);
  return {
    ok: bad === undefined && differs === undefined && gaps.length === 0,
    records,
    ...(gaps.length > 0 && { gaps }),
    ...(removed && { removed }),
    ...(bad && { first_bad: bad }),
    ...(anchors && {
      anchors: { held: anchors.held, ...(newest && { newest: { seq: newest.seq, at: newest.at } }) },
    }),
    ...(damage ? {} : { replay: differs === undefined ? { same: true } : { same: false, differs } }),
  };
}

/** Undefined when they cannot be read: that says nothing about the journal. */
async function anchorsOf(key: Buffer, port: AnchorPort): Promise<AnchorCheck | undefined> {
  try {
    return new AnchorCheck(await readAnchors(key, port, ANCHORS));
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
