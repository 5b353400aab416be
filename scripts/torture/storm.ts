// The kills: at random moments, of one program, of several, or of all that lives; now and then a workspace is removed
// by hand. Every kill is written down.

import { rmSync } from "node:fs";
import { join } from "node:path";
import type { Task } from "../../schemas/task.ts";
import type { World } from "../../test/helpers/world.ts";
import type { Dice } from "./dice.ts";
import { type Kind, kill, type Living, livingIn } from "./living.ts";

/** What is killed together, and how often. `machine` is all that lives, git included: as when the power fails. */
const TARGETS = {
  bus: 18,
  scheduler: 22,
  "agent-shim": 12,
  "check-shim": 8,
  agent: 8,
  check: 6,
  "bus and scheduler": 6,
  "bus and shims": 5,
  machine: 11,
  "workspace by hand": 3,
} as const;
export type Target = keyof typeof TARGETS;

const TOGETHER: Partial<Record<Target, readonly Kind[]>> = {
  "bus and scheduler": ["bus", "scheduler"],
  "bus and shims": ["bus", "agent-shim", "check-shim"],
  machine: ["bus", "scheduler", "agent-shim", "check-shim", "agent", "check", "helper"],
};

const MEETS_CHECKS: ReadonlySet<string> = new Set<Target>(["check-shim", "bus and shims", "machine"]);

export interface Kill {
  /** Milliseconds since the plan began. */
  at: number;
  target: string;
  pids: number[];
  task?: string;
}

export class Storm {
  readonly kills: Kill[] = [];
  /** Tasks whose agents or checks were killed directly, or whose workspace was removed: they may count it as bad work. */
  readonly hurt = new Set<string>();
  readonly #world: World;
  readonly #dice: Dice;
  readonly #began = performance.now();
  readonly #run: string;
  /** Tasks whose agents and checks may be killed directly. */
  readonly #hardy: ReadonlySet<string>;

  constructor(world: World, dice: Dice, run: string, hardy: ReadonlySet<string>) {
    this.#world = world;
    this.#dice = dice;
    this.#run = run;
    this.#hardy = hardy;
  }

  /** Kills that may have met a shim of a check. */
  get shimKills(): number {
    return this.kills.filter(({ target }) => MEETS_CHECKS.has(target) || target.startsWith("shim.")).length;
  }

  /** One kill, if there is a victim. */
  strike(tasks: readonly Task[]): boolean {
    const target = this.#dice.weighted(TARGETS);
    if (target === "workspace by hand") return this.#removeWorkspace(tasks);
    const living = livingIn(this.#world.W);
    const kinds = TOGETHER[target];
    const victims = kinds
      ? living.filter(({ kind }) => kinds.includes(kind))
      : this.#one(target as Kind, living);
    return this.#hit(target, victims);
  }

  /** Notes a death that a fault point brought about. */
  note(target: string): void {
    this.kills.push({ at: this.#now(), target, pids: [] });
  }

  #one(kind: Kind, living: readonly Living[]): Living[] {
    const may = (one: Living) =>
      (kind !== "agent" && kind !== "check") || (one.run === this.#run && this.#hardy.has(one.task ?? ""));
    const victim = this.#dice.pick(living.filter((one) => one.kind === kind && may(one)));
    if (!victim) return [];
    // The other processes of the same agent live on: the shim has to find them.
    if ((kind === "agent" || kind === "check") && victim.task !== undefined) this.hurt.add(victim.task);
    return [victim];
  }

  #hit(target: string, victims: readonly Living[]): boolean {
    const dead = victims.filter(({ pid }) => kill(pid));
    if (dead.length === 0) return false;
    const task = victims.length === 1 ? victims[0]?.task : undefined;
    const pids = dead.map(({ pid }) => pid);
    this.kills.push({ at: this.#now(), target, pids, ...(task === undefined ? {} : { task }) });
    return true;
  }

  /** Of a running attempt, with the scheduler killed at the same time. */
  #removeWorkspace(tasks: readonly Task[]): boolean {
    const running = tasks.filter(({ spec, state }) => state.name === "running" && this.#hardy.has(spec.id));
    const task = this.#dice.pick(running);
    if (task?.state.name !== "running") return false;
    const scheduler = livingIn(this.#world.W).filter(({ kind }) => kind === "scheduler");
    this.hurt.add(task.spec.id);
    this.#hit("workspace by hand", scheduler);
    const dir = task.state.workspace;
    const removed = this.#dice.chance(0.5) ? dir : join(dir, "work");
    try {
      rmSync(removed, { recursive: true, force: true, maxRetries: 10 });
    } catch {
      // An agent writes into it meanwhile: half removed is as good.
    }
    return true;
  }

  #now(): number {
    return Math.round(performance.now() - this.#began);
  }
}
