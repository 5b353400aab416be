// Lets only so many do a thing at once; the others wait in order. For what fills the cores and the disk by itself: twenty
// checkouts at once end no sooner than two after two, but everything else (landings above all) would crawl meanwhile.

export class Turns {
  readonly #limit: number;
  readonly #waiting: (() => void)[] = [];
  #busy = 0;

  constructor(limit: number) {
    this.#limit = Math.max(1, limit);
  }

  async run<T>(deed: () => Promise<T>): Promise<T> {
    if (this.#busy < this.#limit) this.#busy += 1;
    else await new Promise<void>((resolve) => this.#waiting.push(resolve));
    try {
      return await deed();
    } finally {
      // The turn goes on to the next; only without one it is free.
      const next = this.#waiting.shift();
      if (next) next();
      else this.#busy -= 1;
    }
  }
}
