// A set-up is done once per key (setup-key.ts), not once per attempt and clean place (W8): what it left in the tree is
// kept below the state directory, and copied into every later place, on write where the file system can.
//
// 1. It is kept only from a workspace before its agent: its tree has landed. What a candidate's set-up leaves is never
//    kept, since others would be proven with it.
// 2. Kept is what is not of the tree. It is not kept when a copy would not be the same elsewhere: tracked files were
//    changed, something lies in the homes, or a file holds the path of its workspace (Python environments do). Then
//    the set-up runs every time, and the log says why.
// 3. An entry gets its name last, when it is on the disk. `tmp-*` is left by who died meanwhile.
// 4. Whoever needs a key that is being made waits for it, and makes it itself when nothing came of that.
// 5. The entries used last stay, so many of them.

import {
  lstatSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  renameSync,
  statSync,
  utimesSync,
  writeFileSync,
} from "node:fs";
import { dirname, join } from "node:path";
import { execa } from "execa";
import { withScratch } from "../bus/git/scratch.ts";
import { splitNul } from "../bus/git/tree.ts";
import { faultPoint } from "../schemas/fault-points.ts";
import { MAX_KEPT_SETUPS } from "../schemas/limits.ts";
import type { Log } from "../schemas/ports.ts";
import type { EnvSpec, SetupStep } from "../schemas/task.ts";
import { trustedIndex } from "./capture-index.ts";
import { scan } from "./capture-scan.ts";
import { type Control, controlGit } from "./control.ts";
import { copyInto, syncFileSystem } from "./copy-program.ts";
import type { Homes, HostEnv } from "./environment.ts";
import { localFacts } from "./local-copies.ts";
import { removeAll } from "./open-tree.ts";
import { placeGit } from "./place-git.ts";
import { leftOutside, setupKey, treeFiles } from "./setup-key.ts";
import type { Workspace } from "./workspace.ts";

export interface SetupCacheOptions {
  control: Control;
  /** Directory of the entries; made when there is something to keep. */
  top: string;
  host: HostEnv;
  log: Pick<Log, "info" | "warn">;
}

export interface SetupPlace {
  workspace: Workspace;
  base: string;
  homes: Homes;
  /** Paths that lay there before it (local-copies.ts). */
  before: readonly string[];
}

interface Entry {
  v: 1;
  /** From the top of the tree; directories end with '/'. */
  paths: string[];
}

/** For looking through what a set-up left. */
const SEARCH_MS = 120_000;
const MACHINE = [process.version, process.arch, process.platform];

export class SetupCache {
  readonly #options: SetupCacheOptions;
  /** True when an entry came of it. */
  readonly #making = new Map<string, Promise<boolean>>();
  /** Keys of which nothing can be kept. */
  readonly #unfit = new Set<string>();

  constructor(options: SetupCacheOptions) {
    this.#options = options;
    clearLeft(options.top);
  }

  /**
   * `tree`: commit or tree that stands in the place; `copied`: files of the checkout that come along. Undefined: the set-up
   * has to run.
   */
  async keyOf(
    steps: readonly SetupStep[],
    tree: string,
    { specs, copied }: { specs: readonly EnvSpec[]; copied: readonly string[] },
  ): Promise<string | undefined> {
    if (steps.length === 0 || steps.some(({ key }) => key.length === 0)) return undefined;
    const { control, host } = this.#options;
    const { stdout } = await controlGit(control, ["ls-tree", "-r", "-z", "--full-tree", tree]);
    return setupKey({
      steps,
      files: treeFiles(stdout),
      specs,
      host,
      machine: [...MACHINE, ...localFacts(control.topLevel, copied)],
    });
  }

  /** Copies what is kept under the key into `work`. False: nothing is, or it did not fit; then nothing was left. */
  async place(key: string, work: string): Promise<boolean> {
    const dir = join(this.#options.top, key);
    const entry = readEntry(dir);
    if (!entry || entry.paths.some((path) => isThere(join(work, path)))) return false;
    try {
      await copyInto(`${join(dir, "files")}/.`, work);
      faultPoint("scheduler.setup.before-mark-used");
      utimesSync(join(dir, "entry.json"), new Date(), new Date());
      return true;
    } catch (error) {
      this.#options.log.warn("a kept set-up could not be copied", { key, error: String(error) });
      for (const path of entry.paths) await removeAll(join(work, path));
      return false;
    }
  }

  /** Set-up of a workspace: from what is kept, or by `make`, of which is kept what can be. Rejects as `make` does. */
  async once(key: string, at: SetupPlace, make: () => Promise<void>, signal: AbortSignal): Promise<void> {
    for (;;) {
      signal.throwIfAborted();
      if (await this.place(key, at.workspace.work)) return;
      const other = this.#making.get(key);
      if (!other || this.#unfit.has(key)) break;
      await Promise.race([other, aborted(signal)]);
    }
    if (this.#unfit.has(key)) return await make();
    const made = make().then(() => this.#keep(key, at));
    const came = made.catch(() => false).finally(() => this.#making.delete(key));
    this.#making.set(key, came);
    await made;
  }

  async #keep(key: string, at: SetupPlace): Promise<boolean> {
    const { log, top } = this.#options;
    const ids = { key, dir: at.workspace.dir };
    try {
      const paths = await this.#fit(at);
      await keepEntry(top, key, at.workspace.work, paths);
      log.info("a set-up is kept", { ...ids, paths: paths.slice(0, 20) });
      prune(top);
      return true;
    } catch (error) {
      this.#unfit.add(key);
      log.info("a set-up is not kept and runs every time", { ...ids, why: (error as Error).message });
      return false;
    }
  }

  /** What the set-up left in the tree; throws why it would not be the same elsewhere. */
  async #fit({ workspace, base, homes, before }: SetupPlace): Promise<string[]> {
    const { control } = this.#options;
    const outside = leftOutside(namesIn(homes));
    if (outside.length > 0) throw new Error(`it leaves ${outside.slice(0, 3).join(", ")} outside the tree`);
    const { work, sparse } = workspace;
    const paths = await withScratch(control.gitDir, async (dir) => {
      const scratch = join(dir, "index");
      await trustedIndex(control, workspace, base, scratch);
      const found = await scan({ control, work, scratch, sparse });
      const changed = found.touched.find(({ oldMode }) => oldMode !== "");
      if (changed) throw new Error("it changes files of the tree");
      const { stdoutBuffer } = await placeGit(
        control,
        ["ls-files", "-z", "-o", "--directory"],
        { work, index: scratch },
        { encoding: "buffer" },
      );
      return splitNul(stdoutBuffer);
    });
    // A directory that holds both cannot be told apart.
    const mixed = paths.find((path) =>
      before.some((own) => own !== path.replace(/\/$/, "") && own.startsWith(path)),
    );
    if (mixed !== undefined) throw new Error(`${mixed} holds files of your checkout, too`);
    const made = paths.filter((path) => !before.includes(path.replace(/\/$/, "")));
    if (made.length === 0) throw new Error("it leaves nothing in the tree");
    if (await holdsText(work, made, workspace.dir))
      throw new Error("what it leaves holds the path of its workspace");
    return made;
  }
}

function aborted(signal: AbortSignal): Promise<void> {
  return new Promise((resolve) => signal.addEventListener("abort", () => resolve(), { once: true }));
}

function readEntry(dir: string): Entry | undefined {
  try {
    const entry = JSON.parse(readFileSync(join(dir, "entry.json"), "utf8")) as Entry;
    return entry.v === 1 ? entry : undefined;
  } catch {
    return undefined;
  }
}

async function keepEntry(top: string, key: string, work: string, paths: string[]): Promise<void> {
  const fresh = join(top, `tmp-${process.pid}-${key}`);
  const files = join(fresh, "files");
  try {
    faultPoint("scheduler.setup.before-make-entry");
    mkdirSync(files, { recursive: true, mode: 0o700 });
    for (const path of paths) {
      const to = join(files, dirname(path));
      faultPoint("scheduler.setup.before-make-parent");
      mkdirSync(to, { recursive: true });
      await copyInto(join(work, path).replace(/\/$/, ""), to);
    }
    faultPoint("scheduler.setup.before-write-entry");
    writeFileSync(join(fresh, "entry.json"), JSON.stringify({ v: 1, paths } satisfies Entry), {
      mode: 0o600,
    });
    // A name must not be there before what it stands for, also when the power goes.
    await syncFileSystem(fresh);
    faultPoint("scheduler.setup.before-name-entry");
    renameSync(fresh, join(top, key));
  } catch (error) {
    await removeAll(fresh);
    throw error;
  }
}

/**
 * In a file or as the target of a link; links are not followed, and what is no file is not opened. What could not be read, or
 * not in time, might hold it.
 */
async function holdsText(work: string, paths: readonly string[], text: string): Promise<boolean> {
  const options = {
    cwd: work,
    reject: false,
    stdin: "ignore",
    stderr: "ignore",
    timeout: SEARCH_MS,
  } as const;
  const tops = paths.map((path) => `./${path.replace(/\/$/, "")}`);
  faultPoint("scheduler.setup.before-search-links");
  const links = await execa("find", ["-P", ...tops, "-lname", `*${text}*`, "-print", "-quit"], options);
  if (links.exitCode !== 0 || links.stdout !== "") return true;
  const plain = tops.filter((path) => !lstatSync(join(work, path)).isSymbolicLink());
  if (plain.length === 0) return false;
  const bound = String(SEARCH_MS / 1000);
  faultPoint("scheduler.setup.before-search");
  // `timeout`: it must end also when the scheduler is killed meanwhile.
  const files = await execa(
    "timeout",
    [bound, "grep", "-rqF", "--devices=skip", "--null-data", "-e", text, "--", ...plain],
    options,
  );
  return files.exitCode !== 1;
}

/** The entries used last stay. */
function prune(top: string): void {
  const used = readdirSync(top)
    .filter((name) => readEntry(join(top, name)))
    .map((name) => ({ name, at: statSync(join(top, name, "entry.json")).mtimeMs }))
    .sort((a, b) => b.at - a.at);
  for (const { name } of used.slice(MAX_KEPT_SETUPS)) {
    const going = join(top, `tmp-old-${name}`);
    faultPoint("scheduler.setup.before-retire");
    renameSync(join(top, name), going);
    void removeAll(going).catch(() => {});
  }
}

function clearLeft(top: string): void {
  for (const name of namesOf(top))
    if (name.startsWith("tmp-")) void removeAll(join(top, name)).catch(() => {});
}

/** But for `tmp`: nobody counts on what lies there. */
function namesIn({ home, cache, config, data, state }: Homes): Partial<Record<keyof Homes, string[]>> {
  return {
    home: namesOf(home),
    cache: namesOf(cache),
    config: namesOf(config),
    data: namesOf(data),
    state: namesOf(state),
  };
}

function namesOf(dir: string): string[] {
  try {
    return readdirSync(dir);
  } catch {
    return [];
  }
}

function isThere(path: string): boolean {
  return lstatSync(path.replace(/\/$/, ""), { throwIfNoEntry: false }) !== undefined;
}
