// Submodules of a commit, found offline: the objects are taken from where the user's own checkout has them,
// <git dir>/modules/<name> or the `.git` in the main checkout's directory. Nothing is fetched (case 01).

import { existsSync, readFileSync, realpathSync, statSync } from "node:fs";
import { isAbsolute, join, relative, resolve } from "node:path";
import { BusbarError } from "../../schemas/errors.ts";
import { type GitOptions, git } from "./run.ts";
import { GITLINK, parseTree, pathText, showName } from "./tree.ts";

export interface Submodule {
  /** From the top of the superproject. */
  path: string;
  /** The commit that the tree names. */
  oid: string;
  /** Git directory in the user's repository, real path. */
  gitDir: string;
}

/** Deeper nesting than this is a loop. */
const MAX_DEPTH = 8;

interface Level {
  gitDir: string;
  /** Where the level is checked out at the user's; null when it is nowhere. */
  checkout: string | null;
  prefix: string;
  depth: number;
}

/**
 * All submodules of `commit`, outer before inner. A gitlink that .gitmodules does not know, and one with
 * `update = none`, is left out where it is not populated. Error: SUBMODULE_MISSING naming the path.
 */
export function submodulesOf(
  repo: { commonDir: string; topLevel: string | null },
  commit: string,
): Promise<Submodule[]> {
  return collect({ gitDir: repo.commonDir, checkout: repo.topLevel, prefix: "", depth: 0 }, commit);
}

async function collect(level: Level, commit: string): Promise<Submodule[]> {
  if (level.depth > MAX_DEPTH) return [];
  const links = await gitlinks({ gitDir: level.gitDir }, commit);
  if (links.length === 0) return [];
  const known = await readModules({ gitDir: level.gitDir }, commit);
  const found: Submodule[] = [];
  for (const link of links) {
    const path = level.prefix + link.path;
    const spec = known.get(link.path);
    const checkout = level.checkout === null ? null : join(level.checkout, link.path);
    const gitDir = findGitDir(level.gitDir, spec?.name, checkout);
    if (gitDir === undefined) {
      if (spec === undefined || spec.update === "none") continue;
      throw missing(path, "it is not initialised here");
    }
    const there = await git(["cat-file", "-e", `${link.oid}^{commit}`], { gitDir, okExits: [0, 1, 128] });
    if (there.exit !== 0) throw missing(path, `commit ${link.oid.slice(0, 12)} is not here`);
    found.push({ path, oid: link.oid, gitDir });
    const inner = { gitDir, checkout, prefix: `${path}/`, depth: level.depth + 1 };
    found.push(...(await collect(inner, link.oid)));
  }
  return found;
}

function missing(path: string, why: string): BusbarError {
  return new BusbarError("SUBMODULE_MISSING", `submodule ${path}: ${why}`, { path });
}

/** The gitlinks of a commit's tree. */
export async function gitlinks(repo: GitOptions, commit: string): Promise<{ path: string; oid: string }[]> {
  // A tree without .gitmodules nearly always has none; the walk is paid for only where it may find something.
  const { stdoutBuffer } = await git(["ls-tree", "-r", "-z", "--full-tree", commit], {
    ...repo,
    encoding: "buffer",
  });
  if (!stdoutBuffer.includes("160000 commit ")) return [];
  return parseTree(stdoutBuffer)
    .filter((entry) => entry.mode === GITLINK)
    .map((entry) => ({ path: pathText(entry.name) ?? showName(entry.name), oid: entry.oid }));
}

/** path -> name and update of .gitmodules at a commit. */
async function readModules(
  repo: GitOptions,
  commit: string,
): Promise<Map<string, { name: string; update?: string }>> {
  const listed = await git(["config", "--blob", `${commit}:.gitmodules`, "--list", "-z"], {
    ...repo,
    okExits: [0, 1, 128],
  });
  const byName = new Map<string, { path?: string; update?: string }>();
  for (const item of listed.exit === 0 ? listed.stdout.split("\0") : []) {
    const [, name, key, value] = /^submodule\.(.*)\.(path|update)\n([\s\S]*)$/.exec(item) ?? [];
    if (name === undefined || key === undefined) continue;
    byName.set(name, { ...byName.get(name), [key]: value });
  }
  const byPath = new Map<string, { name: string; update?: string }>();
  for (const [name, { path, update }] of byName) {
    if (path !== undefined) byPath.set(path, update === undefined ? { name } : { name, update });
  }
  return byPath;
}

function findGitDir(parent: string, name: string | undefined, checkout: string | null): string | undefined {
  const modules = join(parent, "modules");
  const named = name === undefined ? undefined : resolve(modules, name);
  // A name like ../../x must not lead elsewhere.
  if (named !== undefined && inside(modules, named) && isGitDir(named)) return realpathSync(named);
  if (checkout === null) return undefined;
  const link = join(checkout, ".git");
  if (isGitDir(link)) return realpathSync(link);
  try {
    if (!statSync(link).isFile()) return undefined;
    const [, target] = /^gitdir: (.*?)\n?$/.exec(readFileSync(link, "utf8")) ?? [];
    const dir = target === undefined ? undefined : resolve(checkout, target);
    return dir !== undefined && isGitDir(dir) ? realpathSync(dir) : undefined;
  } catch {
    return undefined;
  }
}

function inside(parent: string, child: string): boolean {
  const path = relative(parent, child);
  return path !== "" && !path.startsWith("..") && !isAbsolute(path);
}

function isGitDir(dir: string): boolean {
  return existsSync(join(dir, "objects")) && existsSync(join(dir, "HEAD"));
}
