// The time that ages are measured against when old records go. A clock that was set far ahead (2038 for a moment) must
// not throw away a log: the clock counts only as far as the log itself bears it out.
//
// 1. The newest records are looked at, back over a span. No step between two of them, nor from the newest to now, is larger
//    than a bound: the clock is believed.
// 2. There is such a step: what lies before it is believed, and the bound more. So after a long pause, or a wrong clock,
//    little goes until records with the new time have come for the whole span.
// 3. Records of a later time than what came after them are passed over: the clock was ahead, and was set right.
// 4. What was believed once holds for this life, as long as the clock goes as the one that never jumps does.

import type { JournalRecord } from "../../schemas/events.ts";
import type { Clock } from "../../schemas/ports.ts";

const HOUR_MS = 3_600_000;
/** A pause as long as this is an ordinary one: a week's holiday. */
export const STEP_MS = 8 * 24 * HOUR_MS;
/** For so long records must have come with the new time. A wrong clock is noticed in a day. */
export const SPAN_MS = 24 * HOUR_MS;

type Records = AsyncIterable<Pick<JournalRecord, "ts">[]>;

export class BorneOut {
  /** Wall clock less the one that never jumps. */
  #believed: number | undefined;

  constructor(private readonly clock: Clock) {}

  /** Not later than now; before all times where it is given up. `back`: the records, newest first. */
  async now(back: Records, isOver: () => boolean = () => false): Promise<number> {
    const now = this.clock.now();
    const ahead = now - this.clock.monotonic();
    if (this.#believed !== undefined && Math.abs(ahead - this.#believed) <= STEP_MS) return now;
    const time = await borneOut(now, back, isOver);
    if (time === now) this.#believed = ahead;
    return time;
  }
}

async function borneOut(now: number, back: Records, isOver: () => boolean): Promise<number> {
  let newest: number | undefined;
  let after = now;
  for await (const page of back) {
    if (isOver()) return Number.NEGATIVE_INFINITY;
    for (const { ts } of page) {
      const at = Date.parse(ts);
      if (at > after) continue;
      if (after - at > STEP_MS) return at + STEP_MS;
      newest ??= at;
      if (newest - at >= SPAN_MS) return now;
      after = at;
    }
  }
  return now; // the log is younger than the span
}
