// Starts the programs of a world again whenever one is missing: straight, by `busctl up`, or by two starters at once.

import { spawn } from "node:child_process";
import { closeSync, openSync } from "node:fs";
import { join } from "node:path";
import { setTimeout as delay } from "node:timers/promises";
import { fileURLToPath } from "node:url";
import { BUSCTL, type World } from "../../test/helpers/world.ts";
import type { Dice } from "./dice.ts";
import { livingIn } from "./living.ts";

const DIST = fileURLToPath(new URL("../../dist", import.meta.url));
/** How an absent program is started; as often as the weights say. */
const WAYS = { straight: 6, busctl: 2, "two at once": 2 } as const;
const LOOK_EVERY_MS = 40;
/** A person or a supervisor is not always at once there. */
const MAX_PAUSE_MS = 400;
/** Starting is given up by busctl itself long before. */
const STARTER_LIMIT_MS = 60_000;

export class Programs {
  readonly #world: World;
  readonly #dice: Dice;
  readonly #env: Record<string, string>;
  #stopped = false;
  starts = 0;

  constructor(world: World, dice: Dice, env: Record<string, string>) {
    this.#world = world;
    this.#dice = dice;
    this.#env = { ...world.env, ...env };
  }

  /** Until `stop`. */
  async keep(): Promise<void> {
    while (!this.#stopped) {
      const missing = this.#missing();
      if (missing.length === 0) {
        await delay(LOOK_EVERY_MS);
        continue;
      }
      await delay(this.#dice.chance(0.5) ? 0 : this.#dice.between(0, MAX_PAUSE_MS));
      if (!this.#stopped) await this.#start(missing);
    }
  }

  stop(): void {
    this.#stopped = true;
  }

  #missing(): ("bus" | "scheduler")[] {
    const kinds = new Set(livingIn(this.#world.W).map(({ kind }) => kind));
    return (["bus", "scheduler"] as const).filter((kind) => !kinds.has(kind));
  }

  async #start(missing: readonly ("bus" | "scheduler")[]): Promise<void> {
    this.starts += 1;
    const way = this.#dice.weighted(WAYS);
    if (way === "straight") {
      for (const program of missing) this.#program(program);
      await delay(LOOK_EVERY_MS);
      return;
    }
    const starters = way === "busctl" ? 1 : 2;
    await Promise.all(Array.from({ length: starters }, () => this.#busctlUp()));
  }

  #program(name: "bus" | "scheduler"): void {
    const file = name === "bus" ? "bus/busd.js" : "scheduler/main.js";
    this.#spawn([join(DIST, file), "--repo", join(this.#world.repo, ".git")]).unref();
  }

  /** Whether it came up is seen by the next look; one whose programs are killed meanwhile says so and is right. */
  async #busctlUp(): Promise<void> {
    const child = this.#spawn([BUSCTL, "up"]);
    const ended = new Promise<void>((resolve) => child.once("close", () => resolve()));
    const limit = setTimeout(() => child.kill("SIGKILL"), STARTER_LIMIT_MS);
    await ended.finally(() => clearTimeout(limit));
  }

  #spawn(args: string[]) {
    const log = openSync(join(this.#world.W, "programs.log"), "a");
    try {
      return spawn(process.execPath, args, {
        cwd: this.#world.repo,
        env: this.#env,
        detached: true,
        stdio: ["ignore", log, log],
      });
    } finally {
      closeSync(log);
    }
  }
}
