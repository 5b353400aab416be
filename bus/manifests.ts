// Path -> {mode, object id} of any tree, in little memory. A git tree is a manifest, so:
//
// - one *root* list per repository state, read once by `git ls-tree` and shared by everybody;
// - another base close to a root is kept as the difference to it (`git diff-tree`): bases follow each other by
//   single landings, and 200 of them must not cost 200 lists;
// - a snapshot adds its changed paths on top (bus/snapshot.ts).
//
// Names that are not UTF-8 cannot stand in JSON: they are counted, and never answered under another name.

import { spawn } from "node:child_process";
import { BusbarError } from "../schemas/errors.ts";
import { isOid } from "../schemas/ids.ts";
import { gitEnvironment } from "./git/env.ts";
import { pathText } from "./git/tree.ts";

export interface Entry {
  mode: string;
  oid: string;
}

/** Changed paths against a root; null = not there. */
type Overlay = ReadonlyMap<string, Entry | null>;

/** A difference larger than this is not kept as one. */
const MAX_OVERLAY = 4_000;
/** Roots kept at once; 57,000 paths are some 12 MB. */
const MAX_ROOT_BYTES = 48 * 1024 * 1024;
/** Differences kept at once. */
const MAX_MANIFESTS = 512;
/** A Map entry, its key's header and its object id. */
const PATH_BYTES = 140;

/** The usual mode is not stored. */
const PLAIN = "100644";

class Root {
  readonly commit: string;
  readonly #oids = new Map<string, string>();
  readonly #modes = new Map<string, string>();
  #sorted: string[] | undefined;
  bytes = 0;
  /** Names that are not UTF-8. */
  unnameable = 0;

  constructor(commit: string) {
    this.commit = commit;
  }

  add(path: string, mode: string, oid: string): void {
    this.#oids.set(path, oid);
    if (mode !== PLAIN) this.#modes.set(path, mode);
    this.bytes += PATH_BYTES + path.length;
  }

  get(path: string): Entry | undefined {
    const oid = this.#oids.get(path);
    return oid === undefined ? undefined : { mode: this.#modes.get(path) ?? PLAIN, oid };
  }

  /** In the order of JavaScript strings; made when first asked for. */
  sorted(): readonly string[] {
    this.#sorted ??= [...this.#oids.keys()].sort();
    return this.#sorted;
  }
}

/** All paths of one tree. */
export class Manifest {
  readonly #root: Root;
  readonly #overlay: Overlay;
  #added: string[] | undefined;

  constructor(root: Root, overlay: Overlay) {
    this.#root = root;
    this.#overlay = overlay;
  }

  get(path: string): Entry | undefined {
    const changed = this.#overlay.get(path);
    return changed === undefined ? this.#root.get(path) : (changed ?? undefined);
  }

  get unnameable(): number {
    return this.#root.unnameable;
  }

  /** The same tree with further changes on top. */
  with(changes: Overlay): Manifest {
    if (changes.size === 0) return this;
    return new Manifest(
      this.#root,
      this.#overlay.size === 0 ? changes : new Map([...this.#overlay, ...changes]),
    );
  }

  /** Paths from `from` on, in order (JavaScript string order), as long as `take` says so. */
  *paths(from = ""): Generator<string> {
    const base = this.#root.sorted();
    const added = this.#newPaths();
    let i = lowerBound(base, from);
    let j = lowerBound(added, from);
    while (i < base.length || j < added.length) {
      const left = base[i];
      const right = added[j];
      if (right === undefined || (left !== undefined && left < right)) {
        i += 1;
        if (this.#overlay.get(left!) !== null) yield left!;
      } else {
        j += 1;
        yield right;
      }
    }
  }

  /** Whether something lies below `path`. */
  isDirectory(path: string): boolean {
    const first = this.paths(`${path}/`).next();
    return !first.done && first.value.startsWith(`${path}/`);
  }

  #newPaths(): string[] {
    this.#added ??= [...this.#overlay]
      .filter(([path, entry]) => entry !== null && this.#root.get(path) === undefined)
      .map(([path]) => path)
      .sort();
    return this.#added;
  }
}

function lowerBound(sorted: readonly string[], from: string): number {
  let low = 0;
  let high = sorted.length;
  while (low < high) {
    const middle = (low + high) >> 1;
    if (sorted[middle]! < from) low = middle + 1;
    else high = middle;
  }
  return low;
}

/** The manifests of a repository's commits. */
export class Manifests {
  readonly #gitDir: string;
  readonly #roots: Root[] = [];
  readonly #known = new Map<string, Manifest>();
  readonly #loading = new Map<string, Promise<Manifest>>();

  constructor(gitDir: string) {
    this.#gitDir = gitDir;
  }

  /** The manifest of a commit (or tree) if it is in memory. */
  cached(commit: string): Manifest | undefined {
    const manifest = this.#known.get(commit);
    if (!manifest) return undefined;
    this.#known.delete(commit);
    this.#known.set(commit, manifest);
    return manifest;
  }

  /** Throws OBJECT_MISSING when the commit cannot be read. */
  get(commit: string): Promise<Manifest> {
    const cached = this.cached(commit);
    if (cached) return Promise.resolve(cached);
    const known = this.#loading.get(commit);
    if (known) return known;
    if (!isOid(commit)) return Promise.reject(new BusbarError("NO_SUCH_COMMIT", "not a full object id"));
    const loading = this.#load(commit).finally(() => this.#loading.delete(commit));
    this.#loading.set(commit, loading);
    return loading;
  }

  async #load(commit: string): Promise<Manifest> {
    const near = this.#roots.at(-1);
    const overlay = near && (await this.#difference(near.commit, commit));
    const manifest = overlay
      ? new Manifest(near, overlay)
      : new Manifest(await this.#readRoot(commit), new Map());
    this.#known.set(commit, manifest);
    for (const oldest of this.#known.keys()) {
      if (this.#known.size <= MAX_MANIFESTS) break;
      this.#known.delete(oldest);
    }
    return manifest;
  }

  /** The changes from one commit to the other, or undefined when there are too many or it cannot be told. */
  async #difference(from: string, to: string): Promise<Overlay | undefined> {
    const overlay = new Map<string, Entry | null>();
    let meta: string[] | undefined;
    let clean = true;
    const args = ["diff-tree", "-r", "-z", "--raw", "--no-renames", "--no-abbrev", from, to];
    try {
      await this.#stream(args, (record) => {
        if (!meta) {
          meta = record.slice(1).split(" ");
          return overlay.size <= MAX_OVERLAY;
        }
        const [, mode = "", , oid = ""] = meta;
        meta = undefined;
        const path = pathText(record);
        if (path === undefined) clean = false;
        else overlay.set(path, /^0+$/.test(oid) ? null : { mode, oid });
        return true;
      });
    } catch {
      return undefined; // the root list then says what is wrong
    }
    return clean && overlay.size <= MAX_OVERLAY ? overlay : undefined;
  }

  async #readRoot(commit: string): Promise<Root> {
    const root = new Root(commit);
    await this.#stream(["ls-tree", "-r", "-z", "--full-tree", commit], (record) => {
      const tab = record.indexOf("\t");
      const [mode = "", , oid = ""] = record.slice(0, tab).split(" ");
      const path = pathText(record.slice(tab + 1));
      if (path === undefined) root.unnameable += 1;
      else root.add(path, mode, oid);
      return true;
    });
    this.#roots.push(root);
    this.#forget();
    return root;
  }

  /** Old roots go, with everything that stands on them, once they hold too much together. */
  #forget(): void {
    let bytes = this.#roots.reduce((sum, root) => sum + root.bytes, 0);
    while (bytes > MAX_ROOT_BYTES && this.#roots.length > 1) {
      bytes -= this.#roots.shift()!.bytes;
      this.#known.clear(); // cheap to make again, and nothing keeps the old root alive
    }
  }

  /** Runs git and gives its NUL-separated records (latin1) one by one; `take` returns false to stop. */
  #stream(args: string[], take: (record: string) => boolean): Promise<void> {
    return new Promise((resolve, reject) => {
      const env = { ...gitEnvironment(process.env), GIT_DIR: this.#gitDir, GIT_NO_LAZY_FETCH: "1" };
      const child = spawn("git", args, { env, cwd: this.#gitDir, stdio: ["ignore", "pipe", "pipe"] });
      let rest = "";
      let words = "";
      let stopped = false;
      child.stdout.on("data", (chunk: Buffer) => {
        const records = (rest + chunk.toString("latin1")).split("\0");
        rest = records.pop() ?? "";
        for (const record of records) {
          if (stopped) return;
          if (!take(record)) {
            stopped = true;
            child.kill("SIGKILL");
          }
        }
      });
      child.stderr.on("data", (chunk: Buffer) => {
        words = (words + chunk.toString("utf8")).slice(-400);
      });
      child.on("error", (error) => reject(new BusbarError("SPAWN_FAILED", `starting git: ${error.message}`)));
      child.on("close", (exit) => {
        if (exit === 0 || stopped) return resolve();
        const text = `git ${args[0]} ${args.at(-1)}: ${words.trim() || `exit ${exit}`}`;
        reject(new BusbarError("OBJECT_MISSING", text, { commit: args.at(-1), exit }));
      });
    });
  }
}
