// The result of an attempt is the content of its working tree against the base, whatever the agent did with
// git (design section 3.3; cases 15, 23, 24, 25, 30). In order:
//   1. Scan with an index that can be believed (capture-index.ts), in a directory that the attempt is not told of;
//      GIT_DIR is the control repository, never the agent's.
//   2. Sort each touched path (capture-sort.ts): refused, outside the scope, or in scope. What is in scope and holds a
//      secret (secret-scan.ts) is refused, once git has made blobs of it beside the repository's own.
//   3. Blobs and tree of what is in scope; what is outside stays in the workspace on the disk and is listed. The
//      tree must differ from the base in just that.
//   4. One commit whose only parent is the base, kept alive by the snapshot's ref in the user's repository.

import { lstatSync, mkdirSync, mkdtempSync, renameSync, rmSync } from "node:fs";
import { join } from "node:path";
import { withScratch } from "../bus/git/scratch.ts";
import { pathText, showName } from "../bus/git/tree.ts";
import { BusbarError } from "../schemas/errors.ts";
import { faultPoint } from "../schemas/fault-points.ts";
import { type AttemptRef, snapshotRef } from "../schemas/ids.ts";
import { gitOddities } from "./agent-git.ts";
import { trustedIndex, unaccounted } from "./capture-index.ts";
import { scan, type Touched } from "./capture-scan.ts";
import { type Refused, type SortRules, sort, unchangedLarge } from "./capture-sort.ts";
import { hashAll, type IndexChange, isBlobMode, type WritePlace, writeTree } from "./capture-write.ts";
import { caseTwins } from "./case-twins.ts";
import { treeOf, writeCommit } from "./commit.ts";
import { type Control, controlGit } from "./control.ts";
import { type NewObjects, withNewObjects } from "./new-objects.ts";
import { modeOf, type OnDisk } from "./on-disk.ts";
import type { Identity } from "./own-repo.ts";
import { createRef, readRef } from "./refs.ts";
import { leaksIn, type ScanRules, withoutValues } from "./secret-scan.ts";
import { type Snare, snaresAside } from "./snares.ts";
import { submoduleChanges } from "./submodules.ts";
import type { Workspace } from "./workspace.ts";

export interface CaptureOrder extends SortRules {
  control: Control;
  workspace: Workspace;
  ref: AttemptRef;
  base: string;
  /** 1, 2 ...; 0 is the base. Where other work has it already, the next free one is taken. */
  version: number;
  message: string;
  identity: Identity;
  when?: number;
  /** What no file in scope may hold. Default: nothing is looked for. */
  scan?: ScanRules;
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

export function capture(order: CaptureOrder): Promise<Captured> {
  return withScratch(order.control.gitDir, (dir) =>
    withNewObjects(order.control, (made) => captureBy(order, join(dir, "index"), made)),
  );
}

async function captureBy(order: CaptureOrder, scratch: string, made: NewObjects): Promise<Captured> {
  const { control, workspace, base } = order;
  const replaced = ensureWork(workspace);
  const [baseTree, submodules, anomalies, index] = await Promise.all([
    treeOf(control, base),
    submoduleChanges(control, workspace.work, workspace.submodules),
    gitOddities(control, workspace, order.ref, base),
    trustedIndex(control, workspace, base, scratch),
  ]);
  if (index === "fresh") replaced.push("our index is not as we left it; every file was read again");
  const { changed, tree, foreign, notes, ...rest } = await contentBy(
    { ...order, control: made.control },
    scratch,
    baseTree,
  );
  const added = changed.filter((change) => change.kind === "added").map((change) => change.path);
  const told = new Set(rest.refused.map(({ path }) => path));
  const [kept, twins] = await Promise.all([keep(order, tree, made), caseTwins(made.control, tree, added)]);
  const refused = [
    ...rest.refused,
    ...foreign.map(unaccountedFor),
    ...(await snaresAside(workspace.work)).map(special).filter(({ path }) => !told.has(path)),
  ];
  const clean = (text: string) => (order.scan ? withoutValues(text, order.scan) : text);
  return {
    ...rest,
    ...kept,
    tree,
    changed,
    outside: rest.outside.map(({ path, kind }) => ({ path: clean(path), kind })),
    refused: refused.map(({ path, rule, why }) => ({ path: clean(path), rule, why: clean(why) })),
    ignored: rest.ignored.map(clean),
    twins,
    anomalies: [...replaced, ...notes, ...anomalies].map(clean),
    submodules: submodules.map(clean),
  };
}

interface Content extends Pick<Captured, "tree" | "changed" | "outside" | "refused" | "ignored"> {
  /** Paths in which the tree differs from the base without being in `changed`. */
  foreign: string[];
  notes: string[];
}

/** Scan and tree by the index at `scratch`, which is changed. */
async function contentBy(order: CaptureOrder, scratch: string, baseTree: string): Promise<Content> {
  const { control, workspace } = order;
  const place: WritePlace = { control, work: workspace.work, scratch };
  const found = await scan({ control, work: workspace.work, scratch, sparse: workspace.sparse });
  // Not deleted by the agent: moved by us.
  const aside = new Set((await snaresAside(workspace.work)).map(({ name }) => name));
  found.touched = found.touched.filter(({ name }) => !aside.has(name));
  const sorted = sort(order, found, await unchangedLarge(place, found.touched));
  const [inside, outside] = await Promise.all([
    hashAll(place, sorted.inside, true),
    hashAll(place, sorted.outside, false),
  ]);
  const all = changesOf(sorted.inside, inside.oids);
  const leaks = order.scan ? await leaksIn(control, all, order.scan) : [];
  const leaking = new Set(leaks.map(({ path }) => path));
  const changed = all.filter(({ path }) => !leaking.has(path));
  const tree = await writeTree(place, changed.map(indexChange));
  const foreign =
    tree === baseTree && changed.length === 0
      ? []
      : await unaccounted(control, { base: baseTree, tree }, changed);
  const raw = inside.raw.map(showName);
  return {
    // No change is the base itself, also where git would write its tree in another way.
    tree: changed.length === 0 && foreign.length === 0 ? baseTree : tree,
    changed,
    outside: changesOf(sorted.outside, outside.oids).map(({ path, kind }) => ({ path, kind })),
    refused: [...sorted.refused, ...leaks.map((leak) => ({ ...leak, rule: "secret" as const }))],
    ignored: found.ignored.map(showName),
    foreign,
    notes:
      raw.length === 0
        ? []
        : [`taken byte for byte, against their attributes: ${raw.slice(0, 20).join(", ")}`],
  };
}

function special({ name, what }: Snare): Refused {
  return { path: showName(name), rule: "special", why: `is ${what}` };
}

function unaccountedFor(path: string): Refused {
  return { path, rule: "unaccounted", why: "the captured tree differs here from what was found on the disk" };
}

/** A working tree that is gone is an empty one; what was put in its place is moved aside, never followed. */
function ensureWork({ dir, work }: Workspace): string[] {
  if (!lstatSync(dir, { throwIfNoEntry: false })?.isDirectory()) {
    // A link or file there is not ours; what it names is not touched.
    faultPoint("scheduler.capture.before-clear-directory");
    rmSync(dir, { force: true });
    faultPoint("scheduler.capture.before-make-directory");
    mkdirSync(dir, { recursive: true, mode: 0o700 });
  }
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
async function keep(
  order: CaptureOrder,
  tree: string,
  made: NewObjects,
): Promise<{ commit: string; version: number }> {
  const { control, base, message, identity } = order;
  const commit = await writeCommit(made.control, {
    tree,
    parents: [base],
    message,
    identity,
    ...(order.when === undefined ? {} : { when: order.when }),
  });
  await made.store(commit, [base]);
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
