// The directory world of one attempt (design section 7): `work/` with a repository of its own.
//   1. Files are put on the disk through our private index `<dir>/index`.
//   2. The repository `work/.git` is written: borrowed objects, branch busbar/<task>/<attempt>, no remotes,
//      no hooks, nothing shared with the user's repository or with a sibling (cases 13, 19, 25).
//   3. Submodules are populated offline.
//   4. Verified: HEAD is the base, the top is `work`. How it was made is noted below our control repository, for
//      whoever takes the attempt over: the attempt is not told of that place.
// Any failure removes what was made: WORKSPACE_FAILED with git's words.

import { mkdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { basename, dirname, isAbsolute, join, normalize } from "node:path";
import { BusbarError } from "../schemas/errors.ts";
import { faultPoint } from "../schemas/fault-points.ts";
import { type AttemptRef, attemptLabel, isOid } from "../schemas/ids.ts";
import { checkoutFull, checkoutSparse, giveIndex } from "./checkout.ts";
import { type Control, plainGit, userExcludes } from "./control.ts";
import { type IndexSeal, sealIndex } from "./index-seal.ts";
import { removeAll } from "./open-tree.ts";
import { writeOwnRepo } from "./own-repo.ts";
import { type PlacedSubmodule, placeSubmodules, submoduleIndex } from "./submodules.ts";

export interface WorkspaceOrder {
  control: Control;
  /** The attempt's directory; made (0700) where it is not. */
  dir: string;
  ref: AttemptRef;
  base: string;
  checkout: "full" | "sparse";
  /** For sparse: the paths (not globs) that are put on the disk. */
  sparsePaths?: readonly string[];
}

export interface Workspace {
  dir: string;
  work: string;
  /** Our index, with the stat data of the checkout. Outside `work`: an agent's git never uses it. */
  index: string;
  /** How we left it; without, it is not believed (capture-index.ts). */
  seal?: IndexSeal;
  sparse: boolean;
  /** For a sparse one: the paths that were put on the disk. */
  paths: readonly string[];
  submodules: PlacedSubmodule[];
}

/** Where it is noted how a workspace was made. */
function factsFile(control: Control, dir: string): string {
  return join(control.gitDir, "places", `${basename(dir)}.json`);
}

export function workspaceBranch(ref: AttemptRef): string {
  return `busbar/${ref.task}/${ref.attempt}`;
}

export async function makeWorkspace(order: WorkspaceOrder): Promise<Workspace> {
  const { dir } = order;
  const work = join(dir, "work");
  const made = [work, join(dir, "index"), join(dir, "index.lock"), join(dir, "sub")];
  try {
    faultPoint("scheduler.workspace.before-make-attempt");
    mkdirSync(dir, { recursive: true, mode: 0o700 });
    // Fails where something is: a workspace is never made over another.
    faultPoint("scheduler.workspace.before-make-work");
    mkdirSync(work, { mode: 0o700 });
  } catch (cause) {
    throw workspaceFailed(order, cause);
  }
  try {
    return await fill(order, work);
  } catch (cause) {
    for (const path of made) {
      faultPoint("scheduler.workspace.before-clean-up");
      rmSync(path, { recursive: true, force: true, maxRetries: 3 });
    }
    throw workspaceFailed(order, cause);
  }
}

async function fill(order: WorkspaceOrder, work: string): Promise<Workspace> {
  const { control, dir, base } = order;
  const index = join(dir, "index");
  const gitDir = join(work, ".git");
  const sparse = order.checkout === "sparse";
  if (sparse) await checkoutSparse(control, { work, index, tree: base }, order.sparsePaths ?? []);
  else await checkoutFull(control, { work, index, tree: base });
  writeOwnRepo({
    gitDir,
    objectFormat: control.objectFormat,
    from: control.repo,
    commit: base,
    branch: workspaceBranch(order.ref),
    sparse,
    excludes: userExcludes(control.repo),
  });
  await giveIndex(index, gitDir);
  const submodules = await placeSubmodules(control, base, work, join(dir, "sub"));
  await verifyPlace(control, work, base);
  const paths = sparse ? (order.sparsePaths ?? []) : [];
  const seal = await sealIndex(index);
  const facts = factsFile(control, dir);
  faultPoint("scheduler.workspace.before-make-places");
  mkdirSync(dirname(facts), { recursive: true, mode: 0o700 });
  faultPoint("scheduler.workspace.before-write-facts");
  writeFileSync(facts, `${JSON.stringify({ v: 1, base, sparse, paths, seal, submodules })}\n`, {
    mode: 0o600,
  });
  return { dir, work, index, seal, sparse, paths, submodules };
}

/** Removes an attempt's directory, and what is noted about it. */
export async function removeWorkspace(control: Control, dir: string): Promise<void> {
  await removeAll(dir);
  faultPoint("scheduler.workspace.before-forget");
  rmSync(factsFile(control, dir), { force: true });
}

/**
 * What an attempt's directory was made as; for a scheduler that takes it over after a restart. An agent is the same
 * user and might find the file: paths of ours are made up again, and what `makeWorkspace` would not write is
 * WORKSPACE_FAILED.
 */
export function openWorkspace(control: Control, dir: string): Workspace {
  const path = factsFile(control, dir);
  const facts: unknown = JSON.parse(readFileSync(path, "utf8"));
  const bad = (what: string) => new BusbarError("WORKSPACE_FAILED", `${path}: ${what}`, { path });
  if (!isRecord(facts) || facts.v !== 1) throw bad("is not of version 1");
  if (typeof facts.sparse !== "boolean") throw bad("does not say whether the checkout is sparse");
  const { paths, seal } = facts;
  if (!Array.isArray(paths) || !paths.every((at) => typeof at === "string"))
    throw bad("does not say what was put on the disk");
  if (!isSeal(seal)) throw bad("does not say how the index was left");
  if (!Array.isArray(facts.submodules)) throw bad("has no list of submodules");
  const submodules = facts.submodules.map((entry: unknown, n): PlacedSubmodule => {
    if (!isRecord(entry)) throw bad(`submodule ${n} is no object`);
    const { path: at, oid, objectDir } = entry;
    if (typeof at !== "string" || !isPlainPath(at)) throw bad(`the path of submodule ${n} is none`);
    if (typeof oid !== "string" || !isOid(oid)) throw bad(`the commit of submodule ${n} is none`);
    if (typeof objectDir !== "string" || !isObjectDir(objectDir))
      throw bad(`the object store of submodule ${n} is none`);
    return { path: at, oid, index: submoduleIndex(join(dir, "sub"), n), objectDir };
  });
  const { sparse } = facts;
  return { dir, work: join(dir, "work"), index: join(dir, "index"), seal, sparse, paths, submodules };
}

function isSeal(value: unknown): value is IndexSeal {
  return (
    isRecord(value) &&
    typeof value.hash === "string" &&
    typeof value.size === "number" &&
    typeof value.mtimeMs === "number"
  );
}

function isRecord(value: unknown): value is Record<string, unknown> {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}

/** Relative, and down only. */
function isPlainPath(path: string): boolean {
  return path.split("/").every((part) => part !== "" && part !== "." && part !== "..");
}

function isObjectDir(path: string): boolean {
  return isAbsolute(path) && normalize(path) === path && basename(path) === "objects";
}

/** The place answers for itself: its own top, at the commit wanted (case 13). */
export async function verifyPlace(control: Control, work: string, commit: string): Promise<void> {
  const { stdout } = await plainGit(control, ["rev-parse", "--show-toplevel", "HEAD"], {
    cwd: work,
    trust: [work],
    env: { GIT_CEILING_DIRECTORIES: join(work, "..") },
  });
  if (stdout !== `${work}\n${commit}\n`) {
    throw new BusbarError("WORKSPACE_FAILED", `${work} answers as ${JSON.stringify(stdout)}`, { path: work });
  }
}

function workspaceFailed(order: WorkspaceOrder, cause: unknown): BusbarError {
  const why = cause instanceof Error ? cause.message : String(cause);
  return new BusbarError(
    "WORKSPACE_FAILED",
    `making the workspace of ${attemptLabel(order.ref)} in ${order.dir}: ${why}`,
    { path: order.dir, ...(cause instanceof BusbarError ? { cause: cause.code } : {}) },
    { cause },
  );
}
