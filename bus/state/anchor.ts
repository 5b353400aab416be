// The anchor: the head of the journal, kept outside of it (bus/git-anchor.ts: a ref of the repository), so that a journal
// that was cut off at the end, or whose end was replaced, shows. A chain alone cannot show that.
//
// 1. Taken at every landing and at rest (with every checkpoint, at the end), in the background: whoever lands waits for
//    nothing. What comes while one is being written shares the next.
// 2. Only what is on the disk is anchored: a machine that dies must not look like a cut.
// 3. Each is sealed with the bus's key. What another bus wrote (the state was set up anew) is passed over, and said (former.ts).
// 4. The newest is noted beside the key (anchor-note.ts): that the ref was deleted, or an older one put back, shows.

import { createHmac, timingSafeEqual } from "node:crypto";
import type { Clock, Log } from "../../schemas/ports.ts";
import type { Damage, Journal } from "./journal.ts";

export interface AnchorPoint {
  seq: number;
  mac: string;
  /** ISO 8601, UTC. */
  at: string;
}

/** The newest one, as it is noted beside the key (anchor-note.ts). */
export interface AnchorNote extends AnchorPoint {
  /** The ref was not where the bus had left it: up to which record it had been anchored, and when that was found. */
  broken?: { seq: number; at: string };
}

/** Where anchors are kept: texts of one line, each after the one before. */
export interface AnchorPort {
  /** The newest first. */
  read(limit: number): Promise<string[]>;
  add(text: string): Promise<void>;
  /** Whether the newest `add` found another anchor there than the one that was left. */
  readonly moved?: boolean;
}

const FORM = /^busbar anchor 1 seq=(\d{1,15}) mac=([0-9a-f]{32}) at=([0-9T:.Z-]{20,30}) seal=([0-9a-f]{32})$/;

export function sealAnchor(key: Buffer, point: AnchorPoint): string {
  const text = `busbar anchor 1 seq=${point.seq} mac=${point.mac} at=${point.at}`;
  return `${text} seal=${sealOf(key, text)}`;
}

function sealOf(key: Buffer, text: string): string {
  return createHmac("sha256", key).update(text).digest("hex").slice(0, 32);
}

/** The anchor that a text says it is, whoever sealed it. */
export function claimedAnchor(text: string): AnchorPoint | undefined {
  const [, seq, mac, at] = FORM.exec(text) ?? [];
  return seq === undefined || mac === undefined || at === undefined
    ? undefined
    : { seq: Number(seq), mac, at };
}

/** The anchor that a text is; undefined when this key did not seal it. */
export function openAnchor(key: Buffer, text: string): AnchorPoint | undefined {
  const line = text.split("\n", 1)[0]!.trim();
  const [, seq, mac, at, seal] = FORM.exec(line) ?? [];
  if (seq === undefined || mac === undefined || at === undefined || seal === undefined) return undefined;
  const right = sealOf(key, line.slice(0, -" seal=".length - seal.length));
  return timingSafeEqual(Buffer.from(seal), Buffer.from(right)) ? { seq: Number(seq), mac, at } : undefined;
}

/** Those of this key, and the texts of others, the newest first; so many of these came after one of ours. */
export interface Anchors {
  points: AnchorPoint[];
  strangers: string[];
  between: number;
}

/** The newest anchors that are kept; several buses' may stand between. */
export async function readAnchors(key: Buffer, port: AnchorPort, limit: number): Promise<Anchors> {
  const [points, strangers]: [AnchorPoint[], string[]] = [[], []];
  let between = 0;
  for (const text of await port.read(limit)) {
    const point = openAnchor(key, text);
    if (!point) strangers.push(text);
    else {
      points.push(point);
      between = strangers.length;
    }
  }
  return { points, strangers, between };
}

/** Compares anchors with the journal while it is gone through. */
export class AnchorCheck {
  readonly #points = new Map<number, AnchorPoint[]>();
  readonly newest: AnchorPoint | undefined;
  #held = 0;
  #wrong: { point: AnchorPoint; mac: string } | undefined;

  constructor(points: readonly AnchorPoint[]) {
    for (const point of points) this.#points.set(point.seq, [...(this.#points.get(point.seq) ?? []), point]);
    this.newest = points.reduce<AnchorPoint | undefined>((a, b) => (a && a.seq >= b.seq ? a : b), undefined);
  }

  see(seq: number, mac: string): void {
    for (const point of this.#points.get(seq) ?? []) {
      if (point.mac === mac) this.#held += 1;
      else this.#wrong ??= { point, mac };
    }
  }

  /** Anchors that the journal holds. */
  get held(): number {
    return this.#held;
  }

  /** What is wrong, at the place of the journal's end. */
  fault(end: { file: string; line: number; seq: number }): Damage | undefined {
    if (this.#wrong) {
      const { point, mac } = this.#wrong;
      const why = `the anchor of ${point.at} saw record ${point.seq} with mac ${point.mac}, the journal has ${mac}: what was written from there on was replaced`;
      return { kind: "replaced", file: end.file, line: end.line, seq: point.seq, why };
    }
    const { newest } = this;
    if (!newest || newest.seq <= end.seq) return undefined;
    const why = `the anchor of ${newest.at} saw record ${newest.seq}, but the journal ends with record ${end.seq}: its tail is missing`;
    return { kind: "cut", file: end.file, line: end.line + 1, seq: end.seq + 1, why };
  }
}

export interface AnchorerPorts {
  port: AnchorPort;
  /** Keeps the newest one beside the key, too (anchor-note.ts). */
  note(note: AnchorNote): Promise<void>;
  /** As the start found it. */
  noted: AnchorNote | undefined;
  journal: Pick<Journal, "durable">;
  key: Buffer;
  clock: Clock;
  log: Log;
}

/** At most one in this time: each costs a process or two. */
export const ANCHOR_EVERY_MS = 500;

/** Writes anchors, one at a time. */
export class Anchorer {
  #running: Promise<void> | undefined;
  #wanted = false;
  #failed = false;
  #last = -1;
  #timer: NodeJS.Timeout | undefined;
  #ready = Number.NEGATIVE_INFINITY;

  #noted: AnchorNote | undefined;

  constructor(private readonly ports: AnchorerPorts) {
    const { noted } = ports;
    this.#noted = noted;
    // What the start did not find in the repository is anchored anew, at the latest at the end.
    if (noted && noted.broken?.seq !== noted.seq) this.#last = noted.seq;
  }

  get noted(): AnchorNote | undefined {
    return this.#noted;
  }

  /** What is wanted now is written (or failed) when this is fulfilled. */
  async settled(): Promise<void> {
    await this.#running;
    if (!this.#wanted) return;
    clearTimeout(this.#timer);
    this.#timer = undefined;
    await this.#run();
  }

  /** Soon, and not waited for. */
  want(): void {
    this.#wanted = true;
    if (this.#running || this.#timer) return;
    const wait = Math.max(0, this.#ready - this.ports.clock.monotonic());
    this.#timer = setTimeout(() => {
      this.#timer = undefined;
      void this.#run();
    }, wait);
    this.#timer.unref();
  }

  /** What is wanted is written (or failed) now; nothing comes after it. */
  async finish(): Promise<void> {
    clearTimeout(this.#timer);
    this.#timer = undefined;
    await this.#running;
    this.#wanted = true;
    await this.#run();
    clearTimeout(this.#timer);
  }

  #run(): Promise<void> {
    this.#running ??= this.#write().finally(() => {
      this.#running = undefined;
      this.#ready = this.ports.clock.monotonic() + ANCHOR_EVERY_MS;
      if (this.#wanted) this.want();
    });
    return this.#running;
  }

  async #write(): Promise<void> {
    const { port, journal, key, clock, log } = this.ports;
    this.#wanted = false;
    try {
      const { seq, mac } = await journal.durable();
      if (seq === this.#last || seq === 0) return;
      const at = new Date(clock.now()).toISOString();
      await port.add(sealAnchor(key, { seq, mac, at }));
      this.#last = seq;
      await this.#keep({ seq, mac, at });
      if (this.#failed) log.info("the head of the journal is anchored again", { seq });
      this.#failed = false;
    } catch (error) {
      if (!this.#failed)
        log.warn(
          "the head of the journal could not be anchored in the repository; the journal itself goes on",
          {
            why: error instanceof Error ? error.message : String(error),
          },
        );
      this.#failed = true;
    }
  }

  /** Notes it, with what another hand did to those before. */
  async #keep(point: AnchorPoint): Promise<void> {
    const { port, log, note } = this.ports;
    const before = this.#noted;
    const broken = port.moved && before ? { seq: before.seq, at: point.at } : before?.broken;
    if (port.moved)
      log.warn(
        "the anchor in the repository was removed or moved by another hand; anchors go on from what is there",
        {
          anchored: before?.seq ?? null,
        },
      );
    this.#noted = { ...point, ...(broken && { broken }) };
    await note(this.#noted).catch((error: unknown) =>
      log.warn("the newest anchor could not be noted beside the key; that it is deleted may not show", {
        why: String(error),
      }),
    );
  }
}
