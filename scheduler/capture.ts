// The result of an attempt is the content of its working tree against the base, whatever the agent did with
// git (design section 3.3; cases 15, 23, 24, 25, 30). In order:
//   1. Scan with a copy of our own index; GIT_DIR is the control repository, never the agent's.
//   2. Sort each touched path: refused (no git object can or may hold it), outside the scope, or in scope.
//   3. Blobs and tree of what is in scope; what is outside stays in the workspace on the disk and is listed. The
//      tree must differ from the base in just that; if not, our index was tampered with and is made anew.
//   4. One commit whose only parent is the base, kept alive by the snapshot's ref in the user's repository.

import { lstatSync, mkdirSync, mkdtempSync, renameSync } from "node:fs";
import { rm } from "node:fs/promises";
import { join } from "node:path";
import { gitLikePart } from "../bus/git/names.ts";
import { pathText, showName } from "../bus/git/tree.ts";
import { BusbarError } from "../schemas/errors.ts";
import { faultPoint } from "../schemas/fault-points.ts";
import { type AttemptRef, snapshotRef } from "../schemas/ids.ts";
import { MAX_CAPTURED_FILE_BYTES } from "../schemas/limits.ts";
import { gitOddities } from "./agent-git.ts";
import { freshIndex, unaccounted } from "./capture-index.ts";
import { type Scan, scan, type Touched } from "./capture-scan.ts";
import { hashAll, type IndexChange, isBlobMode, type WritePlace, writeTree } from "./capture-write.ts";
import { caseTwins } from "./case-twins.ts";
import { treeOf, writeCommit } from "./commit.ts";
import { type Control, controlGit } from "./control.ts";
import { modeOf, type OnDisk } from "./on-disk.ts";
import type { Identity } from "./own-repo.ts";
import { createRef, readRef } from "./refs.ts";
import { submoduleChanges } from "./submodules.ts";
import type { Workspace } from "./workspace.ts";

export interface CaptureOrder {
  control: Control;
  workspace: Workspace;
  ref: AttemptRef;
  base: string;
  /** 1, 2 ...; 0 is the base. Where other work has it already, the next free one is taken. */
  version: number;
  message: string;
  identity: Identity;
  /** Only these get into the commit. Default: all. */
  inScope?: (path: string) => boolean;
  /** Files above MAX_CAPTURED_FILE_BYTES that the spec allows by name. */
  allowLarge?: (path: string) => boolean;
  /** Paths (and what is below) that we put there ourselves: never part of the change. */
  exclude?: readonly string[];
  when?: number;
}

export type ChangeKind = "added" | "modified" | "deleted" | "type";

export interface CapturedChange {
  path: string;
  oldMode: string | null;
  oldOid: string | null;
  mode: string | null;
  oid: string | null;
  size: number;
  kind: ChangeKind;
  /** For links: where they point. */
  target?: string;
}

export interface Refused {
  path: string;
  rule: "not-utf8" | "oversize" | "special" | "nested-repository" | "gitlink" | "git-name" | "unaccounted";
  why: string;
}

/** Versions in a row that may hold other work; more is a fault. */
const MAX_TAKEN_VERSIONS = 1_000;

export interface Captured {
  commit: string;
  /** Of the ref that keeps the commit. */
  version: number;
  tree: string;
  /** In scope, in order of path. */
  changed: CapturedChange[];
  /** Changed, but not in scope: in no object. */
  outside: { path: string; kind: ChangeKind }[];
  /** Cannot be part of any change, whatever the scope. */
  refused: Refused[];
  /** Added paths that differ from another only in case. */
  twins: { path: string; twin: string }[];
  /** Ignored files and directories present; bounded. */
  ignored: string[];
  /** What the agent did with git: for the record, no fault by itself. */
  anomalies: string[];
  /** Files inside submodules that differ; they are not captured. */
  submodules: string[];
}

export async function capture(order: CaptureOrder): Promise<Captured> {
  const { control, workspace, base } = order;
  const fresh = join(workspace.dir, `index.v${order.version}.fresh`);
  const replaced = ensureWork(workspace);
  const [baseTree, submodules, anomalies] = await Promise.all([
    treeOf(control, base),
    submoduleChanges(control, workspace.work, workspace.submodules),
    gitOddities(control, workspace, order.ref, base),
  ]);
  try {
    let content = await contentBy(order, workspace.index, baseTree).catch(() => undefined);
    if (!content || content.foreign.length > 0) {
      replaced.push("our index does not fit the base; every file was read again");
      await freshIndex(control, workspace, base, fresh);
      content = await contentBy(order, fresh, baseTree);
    }
    const { changed, tree, foreign, ...rest } = content;
    const added = changed.filter((change) => change.kind === "added").map((change) => change.path);
    const [kept, twins] = await Promise.all([keep(order, tree), caseTwins(control, tree, added)]);
    return {
      ...rest,
      ...kept,
      tree,
      changed,
      refused: [...rest.refused, ...foreign.map(unaccountedFor)],
      twins,
      anomalies: [...replaced, ...anomalies],
      submodules,
    };
  } finally {
    for (const file of [fresh, `${fresh}.lock`]) {
      faultPoint("scheduler.capture.before-remove-fresh-index");
      await rm(file, { force: true });
    }
  }
}

interface Content extends Pick<Captured, "tree" | "changed" | "outside" | "refused" | "ignored"> {
  /** Paths in which the tree differs from the base without being in `changed`. */
  foreign: string[];
}

/** Scan and tree as `index` has it. */
async function contentBy(order: CaptureOrder, index: string, baseTree: string): Promise<Content> {
  const { control, workspace } = order;
  const scratch = join(workspace.dir, `index.v${order.version}`);
  const place: WritePlace = { control, work: workspace.work, scratch };
  try {
    const found = await scan({ control, work: workspace.work, index, scratch, sparse: workspace.sparse });
    const sorted = sort(order, found);
    const [inside, outside] = await Promise.all([
      hashAll(place, sorted.inside, true),
      hashAll(place, sorted.outside, false),
    ]);
    const changed = changesOf(sorted.inside, inside);
    const tree = await writeTree(place, changed.map(indexChange));
    const foreign =
      tree === baseTree && changed.length === 0
        ? []
        : await unaccounted(control, { base: baseTree, tree }, changed);
    return {
      // No change is the base itself, also where git would write its tree in another way.
      tree: changed.length === 0 && foreign.length === 0 ? baseTree : tree,
      changed,
      outside: changesOf(sorted.outside, outside).map(({ path, kind }) => ({ path, kind })),
      refused: sorted.refused,
      ignored: found.ignored.map(showName),
      foreign,
    };
  } finally {
    for (const file of [scratch, `${scratch}.lock`]) {
      faultPoint("scheduler.capture.before-remove-index");
      await rm(file, { force: true });
    }
  }
}

function unaccountedFor(path: string): Refused {
  return { path, rule: "unaccounted", why: "the captured tree differs here from what was found on the disk" };
}

/** A working tree that is gone is an empty one; what was put in its place is moved aside, never followed. */
function ensureWork({ dir, work }: Workspace): string[] {
  const stats = lstatSync(work, { throwIfNoEntry: false });
  if (stats?.isDirectory()) return [];
  if (stats) {
    faultPoint("scheduler.capture.before-make-aside");
    const aside = mkdtempSync(join(dir, "replaced-"));
    faultPoint("scheduler.capture.before-move-aside");
    renameSync(work, join(aside, "work"));
  }
  faultPoint("scheduler.capture.before-make-work");
  mkdirSync(work, { mode: 0o700 });
  return [stats ? "the working tree was replaced by something else" : "the working tree is gone"];
}

interface Sorted {
  inside: Touched[];
  outside: Touched[];
  refused: Refused[];
}

function sort(order: CaptureOrder, found: Scan): Sorted {
  const sorted: Sorted = { inside: [], outside: [], refused: [] };
  const excluded = new Set(order.exclude ?? []);
  const ours = (path: string) => excluded.size > 0 && withParents(path).some((part) => excluded.has(part));
  for (const item of found.touched) {
    const path = pathText(item.name);
    if (path !== undefined && ours(path)) continue;
    const refused = refusal(order, item, path);
    if (refused) sorted.refused.push(refused);
    else if (path !== undefined && (order.inScope ?? (() => true))(path)) sorted.inside.push(item);
    else sorted.outside.push(item);
  }
  for (const name of found.nested) {
    if (ours(showName(name))) continue;
    sorted.refused.push({
      path: showName(name),
      rule: "nested-repository",
      why: "is a git repository of its own; its content cannot be part of the change",
    });
  }
  for (const name of found.gitlinks)
    sorted.refused.push({
      path: showName(name),
      rule: "gitlink",
      why: "the submodule's commit or directory changed",
    });
  return sorted;
}

/** A path and the directories that it is in. */
function withParents(path: string): string[] {
  const parts = path.split("/");
  return parts.map((_, n) => parts.slice(0, n + 1).join("/"));
}

function refusal(order: CaptureOrder, item: Touched, path: string | undefined): Refused | undefined {
  if (path === undefined)
    return { path: showName(item.name), rule: "not-utf8", why: "the path is not UTF-8" };
  const part = gitLikePart(path);
  if (part !== undefined)
    return { path, rule: "git-name", why: `${JSON.stringify(part)} means .git on some file systems` };
  if (item.disk.is === "special") return { path, rule: "special", why: `is ${item.disk.what}` };
  if (item.disk.is === "file" && item.disk.size > MAX_CAPTURED_FILE_BYTES && !order.allowLarge?.(path)) {
    const why = `has ${item.disk.size} bytes; more than ${MAX_CAPTURED_FILE_BYTES} need to be allowed by name`;
    return { path, rule: "oversize", why };
  }
  return undefined;
}

/** Touched files that truly differ. A file with new stat data and the old content is no change. */
function changesOf(items: readonly Touched[], oids: Map<string, string>): CapturedChange[] {
  const changes: CapturedChange[] = [];
  for (const item of items) {
    const oid = oids.get(item.name) ?? null;
    const mode = oid === null ? null : modeOf(item.disk);
    const oldMode = item.oldMode === "" ? null : item.oldMode;
    if (mode === oldMode && (oid === item.oldOid || mode === null)) continue;
    changes.push({
      path: pathText(item.name)!,
      oldMode,
      oldOid: oldMode === null ? null : item.oldOid,
      mode,
      oid,
      size: sizeOf(item.disk),
      kind: kindOf(oldMode, mode),
      ...(item.disk.is === "link" ? { target: item.disk.target.toString("utf8") } : {}),
    });
  }
  return changes.sort((a, b) => (a.path < b.path ? -1 : 1));
}

function sizeOf(disk: OnDisk): number {
  if (disk.is === "file") return disk.size;
  return disk.is === "link" ? disk.target.length : 0;
}

function kindOf(oldMode: string | null, mode: string | null): ChangeKind {
  if (mode === null) return "deleted";
  if (oldMode === null) return "added";
  // The first three digits are the type: 100 file, 120 link.
  return oldMode.slice(0, 3) === mode.slice(0, 3) && isBlobMode(mode) ? "modified" : "type";
}

function indexChange(change: CapturedChange): IndexChange {
  const name = Buffer.from(change.path, "utf8").toString("latin1");
  return change.mode === null || change.oid === null
    ? { name, entry: null }
    : { name, entry: { mode: change.mode, oid: change.oid } };
}

/**
 * The commit and its ref. The same content captured again (after a crash) is the same commit. A version that other
 * work holds (captured, but never told to the bus) is left alone, and the next free one is taken.
 */
async function keep(order: CaptureOrder, tree: string): Promise<{ commit: string; version: number }> {
  const { control, base, message, identity } = order;
  const commit = await writeCommit(control, {
    tree,
    parents: [base],
    message,
    identity,
    ...(order.when === undefined ? {} : { when: order.when }),
  });
  const last = order.version + MAX_TAKEN_VERSIONS;
  for (let version = order.version; version <= last; version++) {
    const name = snapshotRef(order.ref, version);
    if ((await createRef(control, name, commit)) === "moved") return { commit, version };
    const kept = await readRef(control, name);
    if (kept !== null && (await sameSnapshot(control, kept, commit))) return { commit: kept, version };
  }
  const name = snapshotRef(order.ref, order.version);
  throw new BusbarError("STALE", `${name} and the ${MAX_TAKEN_VERSIONS} after it hold other snapshots`, {
    ref: name,
  });
}

/** Same tree, same parents. */
async function sameSnapshot(control: Control, one: string, other: string): Promise<boolean> {
  const facts = (commit: string) =>
    controlGit(control, ["show", "-s", "--no-color", "--format=%T %P", "--end-of-options", commit]);
  return (await facts(one)).stdout === (await facts(other)).stdout;
}
