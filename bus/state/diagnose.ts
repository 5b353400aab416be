// What happened to a journal whose chain does not go on: which kind of damage, and to which record. Pure: it is given
// the lines from the first bad one on.
//
// `end` is the last good record, e = end.seq + 1 the one that belongs next. Two things tell the kinds apart:
// - home: a later line is record e and follows `end`. Then what stands before it does not belong there: it was put in,
//   or it belongs further behind and was moved to the front.
// - resumed: a line follows the mac that the line before it claims: from there on the chain is whole again. Is its
//   number what its place says, the lines before it were changed in place; is it higher, records are missing; is it
//   lower, there are lines too many.

import { claimedMac, follows } from "./chain.ts";
import type { Damage } from "./journal.ts";
import { type Line, seqOf } from "./segments.ts";

/** Lines looked at behind the damage; what was moved further than this is said to be missing. */
const MAX_LOOKED = 200_000;

interface Seen {
  /** How far the chain goes on from the last good record, and how many lines stand before the record where it does. */
  home?: { seq: number; mac: string; distance: number };
  /** Number of a line, and how many lines behind the first bad one it stands. */
  resumed?: { seq: number; distance: number };
  last?: { seq: number; distance: number };
}

export async function diagnose(
  key: Buffer,
  end: { seq: number; mac: string },
  lines: AsyncIterable<Line[]>,
): Promise<Pick<Damage, "kind" | "why">> {
  const walk = new Walk(key, end);
  walking: for await (const page of lines) for (const line of page) if (!walk.take(line.bytes)) break walking;
  return walk.verdict();
}

class Walk {
  #first: Buffer | undefined;
  #previous: string | undefined;
  #count = 0;
  readonly #seen: Seen = {};

  constructor(
    private readonly key: Buffer,
    private readonly end: { seq: number; mac: string },
  ) {}

  /** False when nothing more needs to be seen. */
  take(line: Buffer): boolean {
    const { key, end } = this;
    const seen = this.#seen;
    const distance = this.#count++;
    if (distance === 0) this.#first = line;
    const seq = seqOf(line);
    if (seen.home) {
      const mac = seq === seen.home.seq + 1 ? follows(key, seen.home.mac, line) : undefined;
      if (mac === undefined) return false;
      seen.home = { ...seen.home, seq: seq as number, mac };
      return seen.home.seq < (seqOf(this.#first as Buffer) ?? 0);
    }
    if (distance > 0 && seq === end.seq + 1) {
      const mac = follows(key, end.mac, line);
      if (mac !== undefined) seen.home = { seq, mac, distance };
    }
    if (seq !== undefined) {
      seen.last = { seq, distance };
      if (!seen.resumed && this.#previous !== undefined && follows(key, this.#previous, line))
        seen.resumed = seen.last;
    }
    this.#previous = claimedMac(line);
    return this.#count < MAX_LOOKED;
  }

  verdict(): Pick<Damage, "kind" | "why"> {
    const expected = this.end.seq + 1;
    const first = this.#first && seqOf(this.#first);
    const { home, resumed, last } = this.#seen;
    if (home) {
      if (first !== undefined && first > home.seq && !this.#isForged(home))
        return {
          kind: "reordered",
          why: `record ${first} stands where record ${expected} belongs, which comes later`,
        };
      const put = home.distance === 1 ? "this line was" : `${home.distance} lines were`;
      return { kind: "inserted", why: `${put} put in before record ${expected}` };
    }
    const known = resumed ?? last;
    const missing = known ? known.seq - known.distance - expected : 0;
    if (missing > 0) return { kind: "removed", why: `${records(expected, expected + missing - 1)} missing` };
    if (missing < 0) {
      const put = missing === -1 ? "a line was" : `${-missing} lines were`;
      return { kind: "inserted", why: `${put} put in here, where record ${expected} belongs` };
    }
    return {
      kind: "changed",
      why: `record ${expected} was changed: ${this.#fault()}`,
    };
  }

  /** Whether the first line is not the record that comes after `home`, where it says it is. */
  #isForged(home: { seq: number; mac: string }): boolean {
    const first = this.#first as Buffer;
    return seqOf(first) === home.seq + 1 && follows(this.key, home.mac, first) === undefined;
  }

  #fault(): string {
    const first = this.#first;
    if (!first || claimedMac(first) === undefined || seqOf(first) === undefined) return "it is not a record";
    return "its mac does not match";
  }
}

/** `record 7 is`, `records 7 to 9 are`. */
export function records(from: number, to: number): string {
  return from === to ? `record ${from} is` : `records ${from} to ${to} are`;
}
