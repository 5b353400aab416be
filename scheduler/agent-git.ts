// What an agent did with the git of its workspace, read as text from `work/.git`: git is never run with an
// agent's configuration, attributes, hooks or aliases (case 19). Reads are bounded; only plain files are
// opened, so that a pipe or a link laid there leads nowhere.

import { closeSync, constants, fstatSync, lstatSync, openSync, readdirSync, readSync } from "node:fs";
import { join } from "node:path";
import { isCode } from "../schemas/errors.ts";
import { type AttemptRef, isOid } from "../schemas/ids.ts";
import { type Control, controlGit } from "./control.ts";
import { alternatesFile, ownConfig } from "./own-repo.ts";
import { type Workspace, workspaceBranch } from "./workspace.ts";

const MAX_REF_BYTES = 1024;
const MAX_LOG_BYTES = 4 * 1024 * 1024;
/** Refs of an agent's repository looked at. */
const MAX_REFS = 2_000;
const MAX_DEPTH = 12;
/** A pipe laid in place of an object holds git until then; commits of an honest agent need far less. */
const AGENT_OBJECTS_TIMEOUT_MS = 30_000;

export interface AgentGit {
  state: "there" | "gone" | "replaced";
  head: { branch: string } | { oid: string } | null;
  /** Full ref name -> oid. */
  refs: Map<string, string>;
  /** Commits that only a log names: former heads, stashes. */
  logged: string[];
}

export function readAgentGit(work: string): AgentGit {
  const gitDir = join(work, ".git");
  const none = { head: null, refs: new Map<string, string>(), logged: [] };
  try {
    if (!lstatSync(gitDir).isDirectory()) return { state: "replaced", ...none };
  } catch {
    return { state: "gone", ...none };
  }
  const head = readPlain(join(gitDir, "HEAD"), MAX_REF_BYTES)?.trim();
  const refs = packedRefs(gitDir);
  for (const [name, oid] of looseRefs(gitDir)) refs.set(name, oid);
  const logged = ["logs/HEAD", "logs/refs/stash"].flatMap((log) => logOids(join(gitDir, log)));
  const orig = readPlain(join(gitDir, "ORIG_HEAD"), MAX_REF_BYTES)?.trim();
  if (isOid(orig)) logged.push(orig);
  return { state: head === undefined ? "replaced" : "there", head: parseHead(head), refs, logged };
}

function parseHead(head: string | undefined): AgentGit["head"] {
  if (head?.startsWith("ref: refs/heads/")) return { branch: head.slice("ref: refs/heads/".length) };
  return isOid(head) ? { oid: head } : null;
}

/** A plain file's text, at most `max` bytes of its end; undefined for anything else. */
function readPlain(path: string, max: number): string | undefined {
  let fd: number;
  try {
    fd = openSync(path, constants.O_RDONLY | constants.O_NOFOLLOW | constants.O_NONBLOCK);
  } catch {
    return undefined;
  }
  try {
    const stats = fstatSync(fd);
    if (!stats.isFile()) return undefined;
    const buffer = Buffer.alloc(Math.min(stats.size, max));
    const length = readSync(fd, buffer, 0, buffer.length, Math.max(0, stats.size - max));
    return buffer.toString("latin1", 0, length);
  } catch {
    return undefined;
  } finally {
    closeSync(fd);
  }
}

function packedRefs(gitDir: string): Map<string, string> {
  const refs = new Map<string, string>();
  for (const line of (readPlain(join(gitDir, "packed-refs"), MAX_LOG_BYTES) ?? "").split("\n")) {
    const [oid, name] = line.split(" ");
    if (isOid(oid) && name?.startsWith("refs/") && refs.size < MAX_REFS) refs.set(name, oid);
  }
  return refs;
}

function looseRefs(gitDir: string): Map<string, string> {
  const refs = new Map<string, string>();
  const visit = (name: string, depth: number) => {
    if (depth > MAX_DEPTH || refs.size >= MAX_REFS) return;
    for (const entry of entriesOf(join(gitDir, name))) {
      const below = `${name}/${entry.name}`;
      if (entry.isDirectory()) visit(below, depth + 1);
      const oid = entry.isFile() ? readPlain(join(gitDir, below), MAX_REF_BYTES)?.trim() : undefined;
      if (isOid(oid)) refs.set(below, oid);
    }
  };
  visit("refs", 0);
  return refs;
}

function entriesOf(dir: string) {
  try {
    // A link to a directory is not a directory here.
    return lstatSync(dir).isDirectory() ? readdirSync(dir, { withFileTypes: true }) : [];
  } catch {
    return [];
  }
}

/** New ids of a reflog, newest first. */
function logOids(path: string): string[] {
  const lines = (readPlain(path, MAX_LOG_BYTES) ?? "").split("\n");
  return lines
    .map((line) => line.split(" ", 2)[1] ?? "")
    .filter((oid) => isOid(oid) && !/^0+$/.test(oid))
    .reverse();
}

/** The commit of HEAD, when its ref names one. */
export function headOid(agent: AgentGit): string | undefined {
  if (agent.head === null) return undefined;
  return "oid" in agent.head ? agent.head.oid : agent.refs.get(`refs/heads/${agent.head.branch}`);
}

/** Sentences for the record: each names a fact. The content is captured all the same. */
export async function gitOddities(
  control: Control,
  workspace: Workspace,
  ref: AttemptRef,
  base: string,
): Promise<string[]> {
  const agent = readAgentGit(workspace.work);
  if (agent.state === "gone") return [".git of the workspace is gone"];
  if (agent.state === "replaced") return [".git of the workspace is no repository any more"];
  const found: string[] = [];
  const own = workspaceBranch(ref);
  if (agent.head === null) found.push("HEAD of the workspace names nothing");
  else if ("oid" in agent.head) found.push(`HEAD is detached at ${agent.head.oid.slice(0, 12)}`);
  else if (agent.head.branch !== own) found.push(`HEAD is on branch ${agent.head.branch}`);
  const made = [...agent.refs.keys()].filter((name) => name !== `refs/heads/${own}`);
  if (made.length > 0) found.push(`refs made by the agent: ${made.slice(0, 20).join(", ")}`);
  found.push(...fileOddities(control, workspace));
  const head = headOid(agent);
  if (head === undefined) found.push("HEAD of the workspace has no commit");
  else if (head !== base) {
    const answer = await descends(control, workspace.work, base, head);
    const [from, to] = [base.slice(0, 12), head.slice(0, 12)];
    if (answer === false) found.push(`base ${from} is not an ancestor of HEAD ${to}`);
    if (answer === undefined) found.push(`the history of HEAD ${to} cannot be read`);
  }
  return found;
}

function fileOddities(control: Control, workspace: Workspace): string[] {
  const gitDir = join(workspace.work, ".git");
  const found: string[] = [];
  const config = readPlain(join(gitDir, "config"), MAX_LOG_BYTES);
  if (config !== ownConfig({ objectFormat: control.objectFormat, sparse: workspace.sparse }))
    found.push("the configuration of the workspace's repository was changed");
  if (entriesOf(join(gitDir, "hooks")).length > 0)
    found.push("hooks were put into the workspace's repository");
  if (readPlain(join(gitDir, "info", "attributes"), 1) !== undefined)
    found.push("info/attributes was put into the workspace's repository");
  if (readPlain(join(gitDir, "index.lock"), 1) !== undefined) found.push("index.lock was left behind");
  return found;
}

/** Whether the workspace borrows objects only from where we said (or from nowhere): else they are not read. */
export function borrowsAsMade(control: Control, work: string): boolean {
  const list = join(work, ".git", "objects", "info", "alternates");
  const text = readPlain(list, MAX_LOG_BYTES);
  if (text === undefined) return entryAbsent(list);
  return text === Buffer.from(alternatesFile(control.repo)).toString("latin1");
}

function entryAbsent(path: string): boolean {
  try {
    lstatSync(path);
    return false;
  } catch {
    return true;
  }
}

/** Read access to the agent's own objects, and no use of an index that it may have forged. */
export function withAgentObjects(control: Control, work: string) {
  return {
    alternates: [join(work, ".git", "objects")],
    objectDir: control.objectDir,
    config: ["core.commitGraph=false", "core.multiPackIndex=false"],
    timeoutMs: AGENT_OBJECTS_TIMEOUT_MS,
  };
}

/** Undefined: the agent's objects cannot be read (damaged, or something that never answers). */
async function descends(
  control: Control,
  work: string,
  base: string,
  head: string,
): Promise<boolean | undefined> {
  try {
    const { exit } = await controlGit(control, ["merge-base", "--is-ancestor", base, head], {
      ...withAgentObjects(control, work),
      okExits: [0, 1],
    });
    return exit === 0;
  } catch (error) {
    if (isCode(error, "GIT_FAILED", "GIT_TIMEOUT")) return undefined;
    throw error;
  }
}
