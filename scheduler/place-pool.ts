// Clean places are used again: a new checkout of a large tree and its removal cost far more than the step from one
// tree to the next. A place that was used is trusted in nothing:
//
// 1. Given back: it is moved away from where its check ran, and everything that is not of its tree is removed (sweep.ts),
//    as are files of the checkout's own second that were touched (young-files.ts). No process may have been left in it
//    (holders.ts). Nobody waits for this.
// 2. Taken: our index is the one that we wrote (hash and time, kept in memory), the top is the directory that we made.
// 3. `read-tree --reset -u` goes to the new tree and writes again each file whose stat data differ from what we put
//    there: an edit with its old time set back shows in the ctime.
// 4. A second sweep finds nothing foreign and nothing missing. `.git` is written anew.
// 5. Anything odd on the way: the place is thrown away and a new one made. Trees with submodules always get a new one.
//
// Idle places are bounded, and gone when nothing was taken for a while; removal is a background matter (remover.ts).

import { createHash } from "node:crypto";
import { lstatSync, mkdirSync, readFileSync, renameSync, rmdirSync } from "node:fs";
import { rename } from "node:fs/promises";
import { join } from "node:path";
import { faultPoint } from "../schemas/fault-points.ts";
import { MAX_WORKERS, WORKERS_PER_CORE } from "../schemas/limits.ts";
import type { Log } from "../schemas/ports.ts";
import { type Beside, clearBeside, lookBeside } from "./beside.ts";
import { checkoutFull, giveIndex } from "./checkout.ts";
import { type CleanPlace, type CleanPlaceOrder, makeCleanPlace, protectedTree } from "./clean-place.ts";
import { type Control, controlGit, userExcludes } from "./control.ts";
import { holdersOf, processList } from "./holders.ts";
import { nameIn } from "./on-disk.ts";
import { removeAll } from "./open-tree.ts";
import { writeOwnRepo } from "./own-repo.ts";
import { placeOptions } from "./place-git.ts";
import { Remover } from "./remover.ts";
import { listIndex, sweep } from "./sweep.ts";
import { Turns } from "./turns.ts";
import { verifyPlace } from "./workspace.ts";
import { touchedSince, type YoungFile, youngFiles } from "./young-files.ts";

export interface PoolOptions {
  control: Control;
  /** Idle places go here, as `pool-<n>`. */
  top: string;
  /** Idle places at most. */
  limit: number;
  log: Pick<Log, "info" | "warn">;
  /** So many new checkouts at once. Default: 2. */
  cores?: number;
  /** Idle places are removed when none was asked for so long. */
  idleMs?: number;
}

/** The pool of a scheduler: as many idle places as may be in use at once. */
export function placePool(control: Control, stateDir: string, cores: number, log: Log): PlacePool {
  const limit = Math.min(Math.max(cores * WORKERS_PER_CORE, LEAST_LIMIT), MAX_WORKERS);
  return new PlacePool({ control, top: join(stateDir, "gate"), limit, cores, log });
}

/** How we left a place: what must still be so when it is taken again. */
interface Seal {
  /** Of the top directory. */
  ino: number;
  indexHash: string;
  indexTime: number;
  /** Files that git could not see every change of. */
  young: YoungFile[];
  /** Processes that were there before any check was in it. */
  before: Set<number>;
}

interface Idle {
  dir: string;
  seal: Seal;
}

const IDLE_MS = 10_000;
/** A plan may ask for more workers than there are by default. */
const LEAST_LIMIT = 20;
const CLOCK_TICK_MS = 20;

export class PlacePool {
  readonly #options: PoolOptions;
  readonly #idle: Idle[] = [];
  readonly #seals = new Map<string, Seal>();
  readonly #settling = new Set<Promise<void>>();
  readonly #remover: Remover;
  readonly #turns: Turns;
  #timer: NodeJS.Timeout | undefined;
  #count = 0;
  #closed = false;

  constructor(options: PoolOptions) {
    this.#options = options;
    this.#remover = new Remover(options.log);
    this.#turns = new Turns(options.cores ?? 2);
  }

  /** A clean place in `order.dir`, which is there or is made; errors as of makeCleanPlace. */
  async take(order: CleanPlaceOrder): Promise<CleanPlace> {
    this.#startTimer();
    const place = (await this.#reuse(order)) ?? (await makeCleanPlace(order));
    if (place.submodules.length === 0) this.#seals.set(order.dir, this.#sealOf(order.dir));
    return place;
  }

  /** For work that fills a core and the disk: the making of workspaces has its turns, too. */
  inTurn<T>(deed: () => Promise<T>): Promise<T> {
    return this.#turns.run(deed);
  }

  /** What lies beside the tree before the first check: what set-up and `copy` put there. `renew` leaves it. */
  async beside(place: Pick<CleanPlace, "dir" | "work">, protect: readonly string[]): Promise<Beside> {
    const { control } = this.#options;
    const at = { dir: place.dir, work: place.work, index: join(place.dir, "index") };
    return await lookBeside(control, at, await listIndex(control, at.work, at.index), protect);
  }

  /**
   * Between two checks: every file of the tree stands again as it was checked out, whatever the check before did to
   * it (a candidate's code must not rewrite the test that comes next), and of what was laid beside them only what is
   * ignored stays (beside.ts). Without `before`, between two steps of a set-up, all of that stays. Throws when the
   * place is not to be trusted any more.
   */
  async renew(place: Pick<CleanPlace, "dir" | "work" | "tree">, before?: Beside): Promise<void> {
    const { control } = this.#options;
    const { dir, work, tree } = place;
    const index = join(dir, "index");
    const seal = this.#seals.get(dir);
    if (seal) {
      checkSeal(dir, seal);
      for (const name of await touchedSince(work, seal.young)) await removeAll(nameIn(work, name));
    } else {
      // Places with submodules have no seal: by an index without stat data git writes every file anew.
      await removeAll(index);
      faultPoint("scheduler.pool.before-index-anew");
      await controlGit(control, ["read-tree", tree], placeOptions({ work, index }));
    }
    // Before git writes: a link in place of a directory would lead it astray.
    if (before)
      await clearBeside(control, { dir, work, index }, await listIndex(control, work, index), before);
    await checkoutFull(control, { work, index, tree });
    if (seal) this.#seals.set(dir, { ...this.#sealOf(dir), before: seal.before });
  }

  /** After the last check in it. `keep`: false when not all of its processes are known to have ended. */
  give(place: Pick<CleanPlace, "dir">, keep: boolean): void {
    const seal = this.#seals.get(place.dir);
    this.#seals.delete(place.dir);
    const room = this.#idle.length + this.#settling.size < this.#options.limit;
    if (!keep || !seal || !room || this.#closed) {
      this.#remover.remove(place.dir);
      return;
    }
    const settled = this.#settle(place.dir, seal)
      .catch((error) => this.#options.log.info("a clean place is not used again", { why: String(error) }))
      .finally(() => {
        this.#settling.delete(settled);
        this.#startTimer();
        this.#remover.remove(place.dir);
      });
    this.#settling.add(settled);
  }

  /** Removes what is idle; fulfilled when nothing is left of what was given back. */
  async close(): Promise<void> {
    this.#closed = true;
    clearTimeout(this.#timer);
    await Promise.allSettled([...this.#settling]);
    this.#dropIdle();
    await this.#remover.done();
  }

  async #settle(from: string, seal: Seal): Promise<void> {
    this.#count += 1;
    const dir = join(this.#options.top, `pool-${process.pid}-${this.#count}`);
    faultPoint("scheduler.pool.before-make");
    mkdirSync(dir, { mode: 0o700 });
    try {
      for (const part of ["work", "index"]) {
        faultPoint("scheduler.pool.before-settle");
        await rename(join(from, part), join(dir, part));
      }
      const work = join(dir, "work");
      checkSeal(dir, seal);
      const holders = holdersOf(work, from, seal.before);
      if (holders.length > 0) throw new Error(`processes are in it: ${holders.join(", ")}`);
      seal.before.clear();
      await sweep(work, await listIndex(this.#options.control, work, join(dir, "index")), true);
      // git makes them anew.
      for (const name of await touchedSince(work, seal.young)) await removeAll(nameIn(work, name));
      seal.young = [];
    } catch (error) {
      this.#remover.remove(dir);
      throw error;
    }
    if (this.#closed) this.#remover.remove(dir);
    else this.#idle.push({ dir, seal });
  }

  /** Undefined: there is none, or none that is as it should be. */
  async #reuse(order: CleanPlaceOrder): Promise<CleanPlace | undefined> {
    const idle = this.#idle.pop();
    if (!idle) return undefined;
    try {
      return await this.#toTree(idle, order);
    } catch (error) {
      this.#options.log.info("a clean place is not used again", { dir: idle.dir, why: String(error) });
      this.#remover.remove(idle.dir);
      // What has been moved to its new place already must not be in the way of a new one.
      const odd = `${idle.dir}-odd`;
      faultPoint("scheduler.pool.before-set-aside");
      mkdirSync(odd, { mode: 0o700 });
      for (const part of ["work", "index"]) moveAway(join(order.dir, part), join(odd, part));
      this.#remover.remove(odd);
      return undefined;
    }
  }

  async #toTree({ dir: from, seal }: Idle, order: CleanPlaceOrder): Promise<CleanPlace> {
    const { control, dir, commit } = order;
    const [work, index] = [join(dir, "work"), join(dir, "index")];
    checkSeal(from, seal);
    faultPoint("scheduler.pool.before-make-place");
    mkdirSync(dir, { recursive: true, mode: 0o700 });
    faultPoint("scheduler.pool.before-move-work");
    renameSync(join(from, "work"), work);
    faultPoint("scheduler.pool.before-move-index");
    renameSync(join(from, "index"), index);
    faultPoint("scheduler.pool.before-remove-empty");
    rmdirSync(from);
    await removeAll(join(work, ".git"));
    const { tree, restored } = await protectedTree(order, join(dir, "index.protect"), work);
    await checkoutFull(control, { work, index, tree });
    const listed = await listIndex(control, work, index);
    if (listed.submodules.size > 0) throw new Error("the tree has submodules");
    const odd = await sweep(work, listed, false);
    if (odd !== undefined) throw new Error(odd);
    const gitDir = join(work, ".git");
    const { objectFormat, repo } = control;
    writeOwnRepo({ gitDir, objectFormat, from: repo, commit, excludes: userExcludes(repo) });
    await giveIndex(index, gitDir);
    await verifyPlace(control, work, commit);
    return { dir, work, tree, restored, submodules: [], remove: () => removeAll(dir) };
  }

  #sealOf(dir: string): Seal {
    const oidBytes = this.#options.control.objectFormat === "sha256" ? 32 : 20;
    const index = readFileSync(join(dir, "index"));
    // The file system's clock may be one tick behind.
    const second = Math.floor((Date.now() - CLOCK_TICK_MS) / 1000);
    return { ...stateOf(dir, index), young: youngFiles(index, second, oidBytes), before: processList() };
  }

  #startTimer(): void {
    clearTimeout(this.#timer);
    if (this.#closed) return;
    this.#timer = setTimeout(() => this.#dropIdle(), this.#options.idleMs ?? IDLE_MS).unref();
  }

  #dropIdle(): void {
    for (const { dir } of this.#idle.splice(0)) this.#remover.remove(dir);
  }
}

function stateOf(dir: string, index: Buffer): Omit<Seal, "young" | "before"> {
  return {
    ino: lstatSync(join(dir, "work")).ino,
    indexHash: createHash("sha256").update(index).digest("hex"),
    indexTime: lstatSync(join(dir, "index")).mtimeMs,
  };
}

function checkSeal(dir: string, seal: Seal): void {
  if (!lstatSync(join(dir, "work")).isDirectory()) throw new Error("its top is no directory any more");
  if (!lstatSync(join(dir, "index")).isFile()) throw new Error("its index is no file any more");
  const now = stateOf(dir, readFileSync(join(dir, "index")));
  if (now.ino !== seal.ino) throw new Error("its top is another directory");
  if (now.indexHash !== seal.indexHash || now.indexTime !== seal.indexTime)
    throw new Error("its index was changed");
}

function moveAway(from: string, to: string): void {
  try {
    faultPoint("scheduler.pool.before-move-away");
    renameSync(from, to);
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== "ENOENT") throw error;
  }
}
