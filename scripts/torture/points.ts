// Arms fault points in a world: puts a file where the programs look for it, and sees which were taken.

import { existsSync, mkdirSync, readdirSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { FAULT_POINTS, type FaultPoint } from "../../schemas/fault-points.ts";
import type { Dice } from "./dice.ts";

/** A point that nobody passes for this long gives its place to another. */
const PATIENCE_MS = 10_000;
/** Armed at the same time; of one program only few, or it would not come as far as the others. */
const AT_ONCE = 7;
const PER_PROGRAM = 3;
/** The first, second ... pass: who dies at the same step is another one each time. */
const MAX_PASS = 3;

/** How often each point killed, over all worlds; and which were ever passed. */
export class PointTally {
  readonly kills = new Map<FaultPoint, number>();
  readonly passed = new Set<string>();

  count(name: FaultPoint): void {
    this.kills.set(name, (this.kills.get(name) ?? 0) + 1);
  }

  /** Those with the fewest kills come first. */
  order(dice: Dice, only: string | undefined): FaultPoint[] {
    const all = only === undefined ? FAULT_POINTS : FAULT_POINTS.filter((name) => name.startsWith(only));
    return dice.shuffled(all).sort((a, b) => (this.kills.get(a) ?? 0) - (this.kills.get(b) ?? 0));
  }
}

export class Points {
  readonly dir: string;
  readonly #dice: Dice;
  readonly #tally: PointTally;
  readonly #armed = new Map<FaultPoint, number>();
  readonly #only: string | undefined;
  #queue: FaultPoint[] = [];

  constructor(W: string, dice: Dice, tally: PointTally, only?: string) {
    this.dir = join(W, "fault");
    mkdirSync(join(this.dir, "passed"), { recursive: true });
    this.#dice = dice;
    this.#tally = tally;
    this.#only = only;
  }

  /** Fills the free places; gives the points at which somebody has died since the last look. */
  look(): FaultPoint[] {
    const fired = this.#fired();
    for (const [name, since] of this.#armed) if (performance.now() - since > PATIENCE_MS) this.#disarm(name);
    if (this.#queue.length === 0) this.#queue = this.#tally.order(this.#dice, this.#only);
    for (const name of [...this.#queue]) {
      if (this.#armed.size >= AT_ONCE) break;
      if (this.#armedOf(programOf(name)) >= PER_PROGRAM) continue;
      this.#queue.splice(this.#queue.indexOf(name), 1);
      if (!this.#armed.has(name)) this.#arm(name, Math.floor(this.#dice.between(1, MAX_PASS + 1)));
    }
    return fired;
  }

  #armedOf(program: string): number {
    return [...this.#armed.keys()].filter((name) => programOf(name) === program).length;
  }

  #arm(name: FaultPoint, pass: number): void {
    writeFileSync(join(this.dir, name), String(pass));
    this.#armed.set(name, performance.now());
  }

  /** Nobody dies any more. Gives those that fired before. */
  disarmAll(): FaultPoint[] {
    const fired = this.#fired();
    for (const name of this.#armed.keys()) this.#disarm(name);
    for (const name of readdirSync(join(this.dir, "passed"))) this.#tally.passed.add(name);
    return fired;
  }

  #fired(): FaultPoint[] {
    const fired = [...this.#armed.keys()].filter((name) => !existsSync(join(this.dir, name)));
    for (const name of fired) {
      this.#armed.delete(name);
      this.#tally.count(name);
    }
    return fired;
  }

  #disarm(name: FaultPoint): void {
    rmSync(join(this.dir, name), { force: true });
    this.#armed.delete(name);
  }
}

function programOf(name: string): string {
  return name.split(".")[0] ?? "";
}
