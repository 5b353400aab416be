// The scheduler's own side of git. `control.git` in the state directory holds our configuration and nothing
// else: no refs, no hooks, no filters, no remotes. Objects go into the user's object store
// (GIT_OBJECT_DIRECTORY, new-objects.ts), refs are moved in the user's repository. So no setting of the user's repository,
// and none of an agent's, is in force where we read trees and write commits (cases 17 to 20).

import {
  copyFileSync,
  existsSync,
  mkdirSync,
  readFileSync,
  renameSync,
  rmSync,
  writeFileSync,
} from "node:fs";
import { join } from "node:path";
import type { RepoFacts } from "../bus/git/facts.ts";
import { clearKeeps } from "../bus/git/kept-pack.ts";
import { type GitOptions, type GitResult, git } from "../bus/git/run.ts";
import { clearScratch } from "../bus/git/scratch.ts";
import { ioError } from "../schemas/errors.ts";
import { faultPoint } from "../schemas/fault-points.ts";

export interface Control {
  /** Our bare repository. */
  gitDir: string;
  /** The user's common git directory. */
  repo: string;
  /** The user's main checkout; null for a bare repository. Read for submodules only. */
  topLevel: string | null;
  /** <repo>/objects */
  objectDir: string;
  objectFormat: "sha1" | "sha256";
  /** Further stores to read from (new-objects.ts). */
  alternates?: string[];
  /** Settings of every call, `name=value`. */
  config?: string[];
  /** Ends every git call that is made with this control. */
  signal?: AbortSignal;
  /** The calls under way, for whoever ends them and waits for it. */
  calls?: Set<Promise<unknown>>;
}

/** The same, whose git calls end with `signal`, too. */
export function endingWith(control: Control, signal: AbortSignal): Control {
  return { ...control, signal: control.signal ? AbortSignal.any([control.signal, signal]) : signal };
}

/** Commits, blobs and refs are on the disk before anybody is told of them. */
const CONFIG = (format: string) => `[core]
	repositoryformatversion = ${format === "sha256" ? 1 : 0}
	bare = true
	fsync = loose-object,pack,pack-metadata,reference
	fsyncMethod = batch
	preloadIndex = true
	looseCompression = 1
[index]
	threads = true
${format === "sha256" ? "[extensions]\n\tobjectFormat = sha256\n" : ""}`;

/** Makes control.git where it is not yet, and brings it up to date with the user's repository. */
export function openControl(stateDir: string, facts: RepoFacts): Control {
  const gitDir = join(stateDir, "control.git");
  try {
    writeControl(gitDir, facts);
  } catch (error) {
    throw ioError("making the control repository", gitDir, error);
  }
  return {
    gitDir,
    repo: facts.commonDir,
    topLevel: facts.topLevel,
    objectDir: join(facts.commonDir, "objects"),
    objectFormat: facts.objectFormat,
  };
}

function writeControl(gitDir: string, facts: RepoFacts): void {
  for (const dir of ["objects", "refs/heads", "info"]) {
    faultPoint("scheduler.control.before-make-directory");
    mkdirSync(join(gitDir, dir), { recursive: true, mode: 0o700 });
  }
  replace(join(gitDir, "HEAD"), "ref: refs/heads/none\n");
  replace(join(gitDir, "config"), CONFIG(facts.objectFormat));
  replace(join(gitDir, "info", "exclude"), userExcludes(facts.commonDir));
  copyShallow(facts.commonDir, gitDir);
  clearScratch(gitDir);
  clearKeeps(join(facts.commonDir, "objects"));
}

function replace(path: string, text: string): void {
  const fresh = `${path}.new`;
  try {
    faultPoint("scheduler.control.before-write");
    writeFileSync(fresh, text, { mode: 0o600 });
    faultPoint("scheduler.control.before-rename");
    renameSync(fresh, path);
  } catch (error) {
    faultPoint("scheduler.control.before-clean-up");
    rmSync(fresh, { force: true });
    throw error;
  }
}

/** What the user leaves out of this repository by info/exclude. */
export function userExcludes(commonDir: string): string {
  const path = join(commonDir, "info", "exclude");
  return existsSync(path) ? readFileSync(path, "utf8") : "";
}

/** Where history ends in a shallow clone; without it git would look for parents that are not there. */
export function copyShallow(from: string, to: string): void {
  const path = join(from, "shallow");
  if (existsSync(path)) {
    faultPoint("scheduler.control.before-copy-shallow");
    copyFileSync(path, join(to, "shallow"));
  } else {
    faultPoint("scheduler.control.before-remove-shallow");
    rmSync(join(to, "shallow"), { force: true });
  }
}

/** git with our configuration on the user's objects. */
export function controlGit(control: Control, args: string[], options: GitOptions = {}): Promise<GitResult> {
  const { gitDir, objectDir, alternates = [], config = [] } = control;
  return plainGit(control, args, { gitDir, objectDir, alternates, config, ...options });
}

/** git on the user's repository itself: for its refs only. */
export function repoGit(control: Control, args: string[], options: GitOptions = {}): Promise<GitResult> {
  const env = { GIT_COMMITTER_NAME: "busbar", GIT_COMMITTER_EMAIL: "busbar@localhost", ...options.env };
  return plainGit(control, args, { gitDir: control.repo, ...options, env });
}

/** git wherever the options say; it ends with the control's signal like all others. */
export async function plainGit(
  { signal, calls }: Control,
  args: string[],
  options: GitOptions,
): Promise<GitResult> {
  const call = git(args, { ...(signal ? { signal } : {}), ...options });
  calls?.add(call);
  try {
    return await call;
  } finally {
    calls?.delete(call);
  }
}
