// Identity of things: the grammar of ids, and every name that is made from one (refs, labels).
// Imports nothing: the shim uses it. Parse here, never build a name by hand elsewhere.

import { MAX_ID_CHARS } from "./limits.ts";

export type RunId = string;
export type TaskId = string;

/** One try at a task; numbered from 1. */
export interface AttemptRef {
  run: RunId;
  task: TaskId;
  attempt: number;
}

/**
 * Letters, digits, `_`, `-`, `.`; begins with a letter or digit. So an id is safe as a path part, a ref part,
 * a file name, an option's value and a JavaScript key at once.
 */
const ID = /^[A-Za-z0-9][A-Za-z0-9_.-]*$/;

/** Words that mean something to git, Windows or a JavaScript object. */
const RESERVED = new Set(
  "head fetch_head orig_head con prn aux nul com1 com2 com3 com4 com5 com6 com7 com8 com9 lpt1 lpt2 lpt3 lpt4 lpt5 lpt6 lpt7 lpt8 lpt9 constructor tostring valueof hasownproperty prototype".split(
    " ",
  ),
);

/** Why `value` cannot be an id, or undefined when it can. One grammar for files, command line and RPC. */
export function idFault(value: unknown): string | undefined {
  if (typeof value !== "string") return "must be a string";
  if (value === "") return "is empty";
  if (value.length > MAX_ID_CHARS)
    return `has ${value.length} characters, at most ${MAX_ID_CHARS} are allowed`;
  if (!ID.test(value))
    return "may hold only letters, digits, '_', '-' and '.', and must begin with a letter or digit";
  if (value.includes("..")) return "must not hold '..'";
  if (value.endsWith(".")) return "must not end with '.'";
  if (/\.lock$/i.test(value)) return "must not end with '.lock' (git keeps that name for its locks)";
  if (RESERVED.has(value.toLowerCase())) return "is a reserved word";
  return undefined;
}

/** The id in a form that is safe to print: control and direction characters are escaped, long ones cut. */
export function showId(value: unknown): string {
  const text =
    JSON.stringify(typeof value === "string" ? value.slice(0, 80) : (value ?? null)) ?? String(value);
  return text.replace(/[^\x20-\x7e]/g, (c) => `\\u${c.charCodeAt(0).toString(16).padStart(4, "0")}`);
}

/** `run/task#attempt`: how an attempt is named in logs and messages. */
export function attemptLabel(a: AttemptRef): string {
  return `${a.run}/${a.task}#${a.attempt}`;
}

const ATTEMPT_NAME = /^\d{8}T\d{6}Z-(.+)-(\d{1,9})-[0-9a-f]+$/;
/** Whose directory has this name (scheduler/dirs.ts gives it); undefined for other names. */
export function readAttemptName(name: string): { task: TaskId; attempt: number } | undefined {
  const [, task, attempt] = ATTEMPT_NAME.exec(name) ?? [];
  return task === undefined ? undefined : { task, attempt: Number(attempt) };
}

/** Key of a task in maps: run and task ids hold no slash. */
export function taskKey(run: RunId, task: TaskId): string {
  return `${run}/${task}`;
}

/** The branch on which a run's proven work lands. */
export function integrationBranch(run: RunId): string {
  return `busbar/${run}`;
}
export function integrationRef(run: RunId): string {
  return `refs/heads/${integrationBranch(run)}`;
}
/** Keeps the base commit of a run alive. */
export function baseRef(run: RunId): string {
  return `refs/busbar/runs/${run}/base`;
}
/** Anchors of the journal's head (bus/git-anchor.ts); no run can have this name below refs/busbar/. */
export const ANCHOR_REF = "refs/busbar/anchor";
export const ATTEMPTS_PREFIX = "refs/busbar/attempts/";
/** All refs that keep a run's attempts alive stand below this. */
export function attemptRefPrefix(a: AttemptRef): string {
  return `refs/busbar/attempts/${a.run}/${a.task}/${a.attempt}`;
}
const ATTEMPT_REF = /^refs\/busbar\/attempts\/([^/]+)\/([^/]+)\/(\d{1,9})\//;
/** Whose ref this is (a snapshot or a commit of its agent); undefined for other refs. */
export function readAttemptRef(ref: string): AttemptRef | undefined {
  const [, run, task, attempt] = ATTEMPT_REF.exec(ref) ?? [];
  return run === undefined || task === undefined ? undefined : { run, task, attempt: Number(attempt) };
}
/** The captured result of an attempt, version by version. */
export function snapshotRef(a: AttemptRef, version: number): string {
  return `${attemptRefPrefix(a)}/v${version}`;
}
/** A commit that the agent made itself (any branch, detached, stash), kept so that nothing is lost. */
export function agentTipRef(a: AttemptRef, n: number): string {
  return `${attemptRefPrefix(a)}/agent/${n}`;
}
/** The candidate on its way to the integration branch. */
export function candidateRef(run: RunId): string {
  return `refs/busbar/runs/${run}/candidate`;
}

const OID = /^[0-9a-f]{40}(?:[0-9a-f]{24})?$/;
/** A full object id (SHA-1 or SHA-256), never a revision expression. */
export function isOid(value: unknown): value is string {
  return typeof value === "string" && OID.test(value);
}
