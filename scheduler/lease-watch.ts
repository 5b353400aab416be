// When the written lease of an attempt is to be renewed: half of it has gone by, by the clock that never jumps or by the
// wall clock that the written time is of; or more than a whole one is left: the wall clock was set back.

import type { Clock } from "../schemas/ports.ts";

interface Seen {
  until: string;
  /** When it was first seen, by the clock that never jumps. */
  at: number;
}

export class LeaseWatch {
  readonly #seen = new WeakMap<object, Seen>();

  constructor(private readonly clock: Clock) {}

  /** `whose` stands for the attempt; `until` is its lease as written. */
  isLow(whose: object, until: string, leaseMs: number): boolean {
    const [now, passed] = [this.clock.now(), this.clock.monotonic()];
    const known = this.#seen.get(whose);
    const seen = known?.until === until ? known : { until, at: passed };
    this.#seen.set(whose, seen);
    const left = Date.parse(until) - now;
    return left <= leaseMs / 2 || left > leaseMs || passed - seen.at >= leaseMs / 2;
  }
}
