// One piece of work at a time, and at most one more to come: whoever asks while it is under way is served by the one
// that begins after it, however many they are.

export class Coalesced {
  #running: Promise<void> | undefined;
  #next: (() => Promise<void>) | undefined;

  /** `work` begins after this call; it must not reject. */
  ask(work: () => Promise<void>): void {
    this.#next = work;
    this.#running ??= this.#serve();
  }

  /** Nothing is under way and nothing asked for. */
  async idle(): Promise<void> {
    while (this.#running) await this.#running;
  }

  async #serve(): Promise<void> {
    try {
      for (let work = this.#next; work; work = this.#next) {
        this.#next = undefined;
        await work();
      }
    } finally {
      this.#running = undefined;
    }
  }
}
