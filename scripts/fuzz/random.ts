// The dice of the fuzzer.

import { Dice } from "../torture/dice.ts";

export class Random extends Dice {
  /** A whole number in [0, n). */
  below(n: number): number {
    return Math.floor(this.next() * n);
  }

  /** One of a list that is never empty. */
  override pick<T>(list: readonly T[]): T {
    return super.pick(list) as T;
  }

  /** Another one that goes on by itself: what one consumer draws does not move the others. */
  fork(): Random {
    return new Random(Math.floor(this.next() * 2 ** 32));
  }
}
