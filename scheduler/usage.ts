// What the scheduler and its shims use. Two readers: run_metadata.json, and the log's warning that the scheduler grows:
// every spawn costs its memory in time (about 50 us per MB), so growth is a fault to be seen early.

import pidusage from "pidusage";
import type { Clock, Log } from "../schemas/ports.ts";

/** The scheduler should stay far below this; beyond it every spawn blocks its loop for more than 10 ms. */
const WARN_RSS_BYTES = 200 * 1024 * 1024;
/** One look at /proc per pid, so not more often than this. */
const SAMPLE_EVERY_MS = 30_000;

export interface UsageSample {
  at: string;
  scheduler: { rss: number; cpu_percent: number };
  shims: { count: number; rss: number };
}

export class Usage {
  newest: UsageSample | undefined;
  #next = 0;
  #warned = false;

  constructor(
    readonly clock: Clock,
    readonly log: Log,
    readonly self: number = process.pid,
  ) {}

  /** Samples when it is time; never throws: a pid that is gone is simply not counted. */
  async sample(shimPids: readonly number[]): Promise<void> {
    if (this.clock.monotonic() < this.#next) return;
    this.#next = this.clock.monotonic() + SAMPLE_EVERY_MS;
    try {
      const own = await pidusage(this.self);
      const shims = shimPids.length > 0 ? Object.values(await pidusage([...shimPids])) : [];
      const live = shims.filter((stat) => stat !== null && stat !== undefined);
      this.newest = {
        at: new Date(this.clock.now()).toISOString(),
        scheduler: { rss: own.memory, cpu_percent: own.cpu },
        shims: { count: live.length, rss: live.reduce((sum, stat) => sum + stat.memory, 0) },
      };
      this.#warn(own.memory);
    } catch (error) {
      this.log.warn("usage could not be sampled", { error: String(error) });
    }
  }

  #warn(rss: number): void {
    if (rss <= WARN_RSS_BYTES || this.#warned) return;
    this.#warned = true;
    this.log.warn("the scheduler has grown; every start of a process is slower for it", { rss_bytes: rss });
  }
}
