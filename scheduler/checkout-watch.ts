// Sees whether the user's own checkout changed while a run was at work (case 27 writes-outside-worktree). It only
// looks and reports: nothing there is ever reset, stashed or cleaned. One look at the first attempt of a run, one more
// when an attempt ends in a way that such a stray would explain.

import { lstatSync } from "node:fs";
import { join } from "node:path";
import { type Control, plainGit } from "./control.ts";

type Look = ReadonlyMap<string, string>;

const STATUS_TIMEOUT_MS = 20_000;
const MAX_REPORTED = 20;

export class CheckoutWatch {
  readonly #first = new Map<string, Promise<Look | undefined>>();

  constructor(readonly control: Control) {}

  /** Remembers how the checkout looks now, once per run. */
  begin(run: string): void {
    if (!this.#first.has(run)) this.#first.set(run, this.#look());
  }

  forget(run: string): void {
    this.#first.delete(run);
  }

  /** Paths in the user's checkout that changed since `begin`; by whom nobody can know. */
  async changedSince(run: string): Promise<string[]> {
    const before = await this.#first.get(run);
    if (!before) return [];
    const now = await this.#look();
    if (!now) return [];
    const changed = [...now].filter(([path, stamp]) => before.get(path) !== stamp).map(([path]) => path);
    return changed.slice(0, MAX_REPORTED);
  }

  /** Undefined when there is no checkout, or git cannot say. */
  async #look(): Promise<Look | undefined> {
    const top = this.control.topLevel;
    if (top === null) return undefined;
    try {
      const { stdout } = await plainGit(
        this.control,
        ["status", "--porcelain", "-z", "--no-renames", "--untracked-files=all"],
        {
          cwd: top,
          userConfig: true,
          timeoutMs: STATUS_TIMEOUT_MS,
        },
      );
      const lines = stdout.split("\0").filter((line) => line.length > 3);
      return new Map(
        lines.map((line) => [line.slice(3), `${line.slice(0, 2)} ${stampOf(join(top, line.slice(3)))}`]),
      );
    } catch {
      return undefined;
    }
  }
}

function stampOf(path: string): string {
  try {
    const { size, mtimeMs } = lstatSync(path);
    return `${size} ${mtimeMs}`;
  } catch {
    return "absent";
  }
}
