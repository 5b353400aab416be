// One look at the repository a command was run in.
//   1. Found by the directory, with the user's own configuration (it alone knows safe.directory); a GIT_DIR
//      leaked into the environment does not count (case 18).
//   2. From then on every call names the common directory explicitly.

import { realpathSync, statSync } from "node:fs";
import { join, resolve } from "node:path";
import { BusbarError, isCode } from "../../schemas/errors.ts";
import { isOid } from "../../schemas/ids.ts";
import type { HeadFacts, RepoFacts } from "./facts.ts";
import { type GitOptions, git, gitLine } from "./run.ts";

export type { RepoFacts } from "./facts.ts";
export { preflight } from "./preflight.ts";

/** Long enough for a cold disk; a probe must not keep a person waiting. */
const PROBE_TIMEOUT_MS = 15_000;
const OLDEST_GIT = [2, 38] as const;

/** Errors: NOT_A_REPOSITORY, NOT_TRUSTED, GIT_TOO_OLD, SPAWN_FAILED. */
export async function probeRepository(cwd: string): Promise<RepoFacts> {
  const gitVersion = await version();
  const place = await locate(cwd);
  const repo: GitOptions = { gitDir: place.commonDir, timeoutMs: PROBE_TIMEOUT_MS };
  const [head, config, topLevel] = await Promise.all([
    readHead(repo),
    readConfig(repo),
    place.topLevel ?? mainCheckout(repo),
  ]);
  return {
    commonDir: place.commonDir,
    topLevel,
    bare: topLevel === null,
    head,
    objectFormat: place.objectFormat,
    partial: promisor(config),
    shallow: place.shallow,
    sparse: await isSparse(place.commonDir, config),
    gitVersion,
  };
}

async function version(): Promise<string> {
  let line: string;
  try {
    line = await gitLine(["version"], { timeoutMs: PROBE_TIMEOUT_MS });
  } catch (cause) {
    if (isCode(cause, "GIT_TIMEOUT")) throw cause;
    throw new BusbarError("SPAWN_FAILED", "git could not be started", { program: "git" }, { cause });
  }
  const [, major = "0", minor = "0"] = /(\d+)\.(\d+)/.exec(line) ?? [];
  const old =
    Number(major) < OLDEST_GIT[0] || (Number(major) === OLDEST_GIT[0] && Number(minor) < OLDEST_GIT[1]);
  if (old)
    throw new BusbarError("GIT_TOO_OLD", `this is ${line}, 2.38 or newer is needed`, { version: line });
  return line.replace(/^git version /, "");
}

interface Place {
  commonDir: string;
  /** Set when the command ran in the main checkout. */
  topLevel: string | null;
  objectFormat: "sha1" | "sha256";
  shallow: boolean;
}

const LOCATE = [
  "rev-parse",
  "--path-format=absolute",
  "--git-common-dir",
  "--absolute-git-dir",
  "--show-object-format",
  "--is-shallow-repository",
];

async function locate(cwd: string): Promise<Place> {
  const dir = realpathOf(cwd);
  const options: GitOptions = { cwd: dir, userConfig: true, timeoutMs: PROBE_TIMEOUT_MS };
  const lines = await git(LOCATE, options).catch((cause) => refuse(dir, cause));
  const [common = "", gitDir = "", format = "sha1", shallow] = lines.stdout.trimEnd().split("\n");
  const top =
    common === gitDir ? await git(["rev-parse", "--show-toplevel"], { ...options, okExits: [0, 128] }) : null;
  return {
    commonDir: realpathSync(common),
    topLevel: top?.exit === 0 ? realpathSync(top.stdout.replace(/\n$/, "")) : null,
    objectFormat: format === "sha256" ? "sha256" : "sha1",
    shallow: shallow === "true",
  };
}

function realpathOf(cwd: string): string {
  try {
    return realpathSync(cwd);
  } catch (cause) {
    throw new BusbarError("NOT_A_REPOSITORY", `${cwd} is not there`, { path: cwd }, { cause });
  }
}

/**
 * Why git said no is not read from its words: if it says yes once everything is trusted (for this one call,
 * by environment; nothing is written), the owner was the reason (case 09).
 */
async function refuse(dir: string, cause: unknown): Promise<never> {
  if (!isCode(cause, "GIT_FAILED")) throw cause;
  const again = await git(LOCATE, {
    cwd: dir,
    userConfig: true,
    trust: ["*"],
    timeoutMs: PROBE_TIMEOUT_MS,
    okExits: [0, 128],
  });
  if (again.exit !== 0) {
    throw new BusbarError("NOT_A_REPOSITORY", `${dir} is not in a git repository that git can use`, {
      path: dir,
      git: cause.message,
    });
  }
  const common = again.stdout.split("\n")[0] ?? dir;
  const path = common.replace(/\/\.git$/, "");
  const owner = statSync(path).uid;
  const message = `git does not trust ${path}: it belongs to user ${owner}, you are user ${process.getuid?.()}; if you do, run: git config --global --add safe.directory ${path}`;
  throw new BusbarError("NOT_TRUSTED", message, { path, owner });
}

async function readHead(repo: GitOptions): Promise<HeadFacts> {
  const [symbolic, commit] = await Promise.all([
    git(["symbolic-ref", "-q", "HEAD"], { ...repo, okExits: [0, 1] }),
    git(["rev-parse", "-q", "--verify", "HEAD^{commit}"], { ...repo, okExits: [0, 1] }),
  ]);
  const oid = commit.stdout.trim();
  const name = symbolic.stdout.trim().replace(/^refs\/heads\//, "");
  if (symbolic.exit !== 0 && oid !== "") return { kind: "detached", commit: oid };
  return oid === "" ? { kind: "unborn", name } : { kind: "branch", name, commit: oid };
}

/** The repository's own configuration as key -> values (keys in lower case but for their middle part). */
async function readConfig(repo: GitOptions): Promise<Map<string, string>> {
  const listed = await git(["config", "--list", "-z"], { ...repo, okExits: [0, 1] });
  const found = new Map<string, string>();
  for (const item of listed.stdout.split("\0")) {
    const cut = item.indexOf("\n");
    // A key without a value means true.
    if (item !== "") found.set(cut < 0 ? item : item.slice(0, cut), cut < 0 ? "true" : item.slice(cut + 1));
  }
  return found;
}

function promisor(config: Map<string, string>): string | null {
  const extension = config.get("extensions.partialclone");
  if (extension) return extension;
  for (const [key, value] of config) {
    const [, remote] = /^remote\.(.+)\.promisor$/.exec(key) ?? [];
    if (remote && /^(true|yes|on|1)$/i.test(value)) return remote;
  }
  return null;
}

async function isSparse(commonDir: string, config: Map<string, string>): Promise<boolean> {
  // The setting may be the main checkout's own (config.worktree).
  const own = await git(
    ["config", "--file", join(commonDir, "config.worktree"), "--type=bool", "core.sparseCheckout"],
    {
      okExits: [0, 1, 128],
      timeoutMs: PROBE_TIMEOUT_MS,
    },
  );
  return (own.exit === 0 ? own.stdout.trim() : config.get("core.sparsecheckout")) === "true";
}

/** The main checkout as `git worktree list` knows it: its first entry; null when that is bare. */
async function mainCheckout(repo: GitOptions): Promise<string | null> {
  const { stdout } = await git(["worktree", "list", "--porcelain", "-z"], repo);
  const [first = ""] = stdout.split("\0\0");
  const fields = first.split("\0");
  if (fields.includes("bare")) return null;
  return fields[0]?.startsWith("worktree ") ? resolve(fields[0].slice("worktree ".length)) : null;
}

/**
 * The commit that a run starts from. Named: a branch first, then a tag, then any other name or id. Not named:
 * the branch checked out in the main checkout, wherever the command ran (case 04). Nothing is guessed.
 * Errors: NO_SUCH_COMMIT, DETACHED_HEAD, UNBORN_HEAD.
 */
export async function resolveBase(
  facts: RepoFacts,
  name?: string,
): Promise<{ commit: string; name: string }> {
  if (name !== undefined) return { commit: await resolveName(facts, name), name };
  const { head } = facts;
  switch (head.kind) {
    case "branch":
      return { commit: head.commit, name: head.name };
    case "detached":
      throw new BusbarError(
        "DETACHED_HEAD",
        `the main checkout of ${facts.commonDir} is on no branch (HEAD is detached at ${head.commit.slice(0, 12)})`,
        { commit: head.commit },
      );
    case "unborn":
      throw new BusbarError(
        "UNBORN_HEAD",
        `the repository has no commits on '${head.name}'; make a first commit`,
        {
          branch: head.name,
        },
      );
  }
}

async function resolveName(facts: RepoFacts, name: string): Promise<string> {
  const fail = () =>
    new BusbarError("NO_SUCH_COMMIT", `no commit is named ${JSON.stringify(name)} in ${facts.commonDir}`, {
      name,
    });
  // biome-ignore lint/suspicious/noControlCharactersInRegex: they are what is refused
  if (name === "" || name.startsWith("-") || name.startsWith(":") || /[\x00-\x20\x7f]/.test(name))
    throw fail();
  const candidates = isOid(name) ? [name] : [`refs/heads/${name}`, `refs/tags/${name}`, name];
  for (const candidate of candidates) {
    const found = await git(["rev-parse", "-q", "--verify", "--end-of-options", `${candidate}^{commit}`], {
      gitDir: facts.commonDir,
      timeoutMs: PROBE_TIMEOUT_MS,
      okExits: [0, 1, 128],
    });
    const oid = found.stdout.trim();
    if (found.exit === 0 && isOid(oid)) return oid;
  }
  if (facts.head.kind === "unborn") {
    throw new BusbarError(
      "UNBORN_HEAD",
      `the repository has no commits on '${facts.head.name}'; make a first commit`,
      {
        branch: facts.head.name,
      },
    );
  }
  throw fail();
}
