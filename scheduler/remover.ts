// Removes directories in the background, one after the other: a removal of thousands of files is never waited for by
// an attempt or a landing. `rm` does it outside our process; what it cannot remove (closed directories) we do.

import { spawn } from "node:child_process";
import { faultPoint } from "../schemas/fault-points.ts";
import type { Log } from "../schemas/ports.ts";
import { removeAll } from "./open-tree.ts";

export class Remover {
  readonly #log: Pick<Log, "warn">;
  readonly #queue = new Set<string>();
  #working: Promise<void> | undefined;

  constructor(log: Pick<Log, "warn">) {
    this.#log = log;
  }

  /** Absolute path of a directory of ours. It need not be there. */
  remove(dir: string): void {
    this.#queue.add(dir);
    this.#working ??= this.#work().finally(() => {
      this.#working = undefined;
    });
  }

  /** Fulfilled when nothing is left to remove. */
  async done(): Promise<void> {
    while (this.#working) await this.#working;
  }

  async #work(): Promise<void> {
    while (this.#queue.size > 0) {
      const dirs = [...this.#queue];
      this.#queue.clear();
      if (await rm(dirs)) continue;
      for (const dir of dirs)
        await removeAll(dir).catch((error) =>
          this.#log.warn("a directory could not be removed", { dir, error: String(error) }),
        );
    }
  }
}

/** False when something is left. */
function rm(dirs: readonly string[]): Promise<boolean> {
  return new Promise((resolve) => {
    faultPoint("scheduler.remover.before-start");
    const child = spawn("rm", ["-rf", "--", ...dirs], { stdio: "ignore" });
    child.once("error", () => resolve(false));
    child.once("close", (code) => resolve(code === 0));
  });
}
