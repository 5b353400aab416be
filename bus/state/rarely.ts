// For what goes wrong again every second while its cause lasts: said at once, then at growing distances. Another cause is
// news at once.

const FIRST_PAUSE_MS = 60_000;
const LONGEST_PAUSE_MS = 3_600_000;

export class Rarely {
  #cause: string | undefined;
  #pause = 0;
  #next = Number.NEGATIVE_INFINITY;

  /** Whether it is to be said now. `now` never jumps. */
  isNews(cause: string, now: number): boolean {
    const isOther = cause !== this.#cause;
    if (!isOther && now < this.#next) return false;
    this.#pause = isOther ? FIRST_PAUSE_MS : Math.min(this.#pause * 2, LONGEST_PAUSE_MS);
    this.#cause = cause;
    this.#next = now + this.#pause;
    return true;
  }

  /** The next one is news whatever it is. */
  over(): void {
    this.#cause = undefined;
  }
}
