// Eyes on a running process: its deadline, its use of the machine, and the heartbeat. The deadline is insured
// twice, by a timer of its own and by every sample, both on the clock that never jumps (S5). No kernel ends a tree for its
// CPU time in all: every sample looks at it.

import type { Limits } from "../schemas/limit-spec.ts";
import { limitWords } from "../schemas/limit-words.ts";
import type { Clock } from "../schemas/ports.ts";
import type { DiskQuota } from "./disk.ts";
import type { Measured } from "./outcome.ts";
import { readProc } from "./proc.ts";
import type { Tree, Usage } from "./tree.ts";

/** The first look: short processes end before the first regular sample. */
const FIRST_SAMPLE_MS = 50;
/** Between two slices of a look at the disk. */
const DISK_AGAIN_MS = 50;

export interface WatchOptions {
  timeoutMs: number;
  sampleMs: number;
  heartbeatMs: number;
  limits: Pick<Limits, "cpu_total_s">;
  onTimeout(): void;
  /** Where what it writes is limited. */
  disk?: DiskQuota | undefined;
  onLimit(reason: "cpu" | "disk", detail: string): void;
  onHeartbeat(usage: Usage): void;
}

export class Watch {
  readonly #tree: Tree;
  readonly #clock: Clock;
  readonly #o: WatchOptions;
  readonly #started: { at: number; monotonic: number };
  readonly #timers: NodeJS.Timeout[];
  #ended: { at: number; monotonic: number } | undefined;
  #latest: Usage = { rss: 0, cpu_ms: 0, processes: 0 };
  #peakRss = 0;
  #cpuMs = 0;
  #largest: Measured["largest"];
  #diskTimer: NodeJS.Timeout | undefined;
  #stopped = false;

  constructor(tree: Tree, clock: Clock, options: WatchOptions) {
    this.#tree = tree;
    this.#clock = clock;
    this.#o = options;
    this.#started = this.#now();
    this.#timers = [
      setTimeout(() => options.onTimeout(), options.timeoutMs),
      setTimeout(() => this.#sample(), FIRST_SAMPLE_MS),
      setInterval(() => this.#sample(), options.sampleMs),
      setInterval(() => options.onHeartbeat(this.#latest), options.heartbeatMs),
    ];
  }

  /** The process itself has ended; its descendants may not have. */
  processEnded(): void {
    this.#ended ??= this.#now();
  }

  stop(): void {
    this.#stopped = true;
    clearTimeout(this.#diskTimer);
    for (const timer of this.#timers) clearTimeout(timer);
    this.processEnded();
    // What the children of the shim, and theirs that they waited for, have used in all.
    this.#cpuMs = Math.max(this.#cpuMs, readProc(process.pid)?.childCpuMs ?? 0, this.#tree.groupCpuMs() ?? 0);
  }

  measured(): Omit<Measured, "limits_missing" | "group" | "killed" | "disk"> {
    const ended = this.#ended ?? this.#now();
    return {
      started: new Date(this.#started.at).toISOString(),
      ended: new Date(ended.at).toISOString(),
      duration_ms: ended.monotonic - this.#started.monotonic,
      peak_rss: this.#peakRss,
      cpu_ms: this.#cpuMs,
      largest: this.#largest,
    };
  }

  #sample(): void {
    this.#latest = this.#tree.sample();
    if (this.#latest.rss > this.#peakRss) this.#largest = this.#tree.largest();
    this.#peakRss = Math.max(this.#peakRss, this.#latest.rss);
    this.#cpuMs = Math.max(this.#cpuMs, this.#latest.cpu_ms);
    this.#lookAtCpu();
    this.#lookAtDisk();
    if (this.#clock.monotonic() - this.#started.monotonic >= this.#o.timeoutMs) this.#o.onTimeout();
  }

  #lookAtCpu(): void {
    const { cpu_total_s: limit } = this.#o.limits;
    if (limit === undefined) return;
    this.#cpuMs = Math.max(this.#cpuMs, this.#tree.groupCpuMs() ?? 0);
    if (this.#cpuMs < limit * 1000) return;
    this.#o.onLimit("cpu", `${limitWords("cpu_total_s", limit)}: its processes used ${seconds(this.#cpuMs)}`);
  }

  #lookAtDisk(): void {
    clearTimeout(this.#diskTimer);
    const found = this.#stopped ? undefined : this.#o.disk?.step(() => this.#tree.known());
    if (found === "more") this.#diskTimer = setTimeout(() => this.#lookAtDisk(), DISK_AGAIN_MS);
    else if (found !== undefined) this.#o.onLimit("disk", found);
  }

  #now(): { at: number; monotonic: number } {
    return { at: this.#clock.now(), monotonic: this.#clock.monotonic() };
  }
}

function seconds(ms: number): string {
  return `${(ms / 1000).toFixed(1)} s`;
}
