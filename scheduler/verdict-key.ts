// What decides a check, as one key: the same key, the same verdict (issue 5.5). Pure.
//
// 1. The files, as they stand for the check: those of `protect` as in the base. Of a check that declares its inputs:
//    these; what decides how any check runs (schemas/gate-files.ts: a test script, a lock file, a filter of git); and
//    the key files of the set-up. All files where nothing is declared, or a step of the set-up has no key.
// 2. The commands of check and set-up, and all that its job gives it: time, limits, sandbox and environment. What names
//    the place and the attempt (HOME, PORT, BUSBAR_*) is the same for all here, and does not count.
// 3. Versions of what runs here.
//
// No key: inputs that name no file; secrets, since who needs one asks the world outside; files that are in no commit.

import { createHash } from "node:crypto";
import { gateFileKind } from "../schemas/gate-files.ts";
import { compilePathSet } from "../schemas/globs.ts";
import { VERDICT_SAMPLE } from "../schemas/limits.ts";
import type { SetupStep } from "../schemas/task.ts";
import type { TreeFile } from "./setup-key.ts";

export interface VerdictInput {
  /** Patterns; undefined: not declared. */
  inputs: readonly string[] | undefined;
  setup: readonly SetupStep[];
  /** Name of the whole tree as it stands. */
  whole: string;
  /** Its files; asked for only where they are needed. */
  files: () => readonly TreeFile[];
  /** Of the job in a place without a name. */
  job: unknown;
  /** What is asked for, and what this host can do. */
  sandbox: unknown;
  machine: readonly string[];
}

/** Hex digits; undefined: its verdict stands for this run alone. */
export function verdictKey(input: VerdictInput): string | undefined {
  const { inputs, setup, job, sandbox, machine } = input;
  const tree = inputs === undefined ? input.whole : narrowed(inputs, input);
  if (tree === undefined) return undefined;
  const steps = setup.map(({ run, key }) => [run, key]);
  return hash(["verdict", 1, tree, steps, job, sandbox, machine]);
}

function narrowed(inputs: readonly string[], { setup, whole, files }: VerdictInput): unknown {
  const all = files();
  const among = (patterns: readonly string[]) => {
    const { matches } = compilePathSet(patterns);
    return all.filter(({ path }) => matches(path));
  };
  const own = among(inputs);
  if (own.length === 0) return undefined;
  const prepared = setup.map(({ key }) => (key.length === 0 ? [] : among(key)));
  // A step that says nothing about its input may read any file.
  if (prepared.some((found) => found.length === 0)) return whole;
  const always = all.filter(({ path }) => gateFileKind(path) !== undefined);
  const counted = new Set([...own, ...prepared.flat(), ...always]);
  return entries(all.filter((file) => counted.has(file)));
}

function entries(files: readonly TreeFile[]): string[][] {
  return files.map(({ path, mode, oid }) => [path, mode, oid]);
}

/** A name for a tree that git has no name for. */
export function treeName(files: readonly TreeFile[]): string {
  return hash(entries(files));
}

/** The files of a tree in which those of `protect` stand as in the base, in the order of git. */
export function standing(
  files: readonly TreeFile[],
  base: readonly TreeFile[],
  isProtected: (path: string) => boolean,
): TreeFile[] {
  const kept = files.filter(({ path }) => !isProtected(path));
  const restored = base.filter(({ path }) => isProtected(path));
  return [...kept, ...restored].sort((a, b) => (a.path < b.path ? -1 : a.path > b.path ? 1 : 0));
}

/** Whether this use of a verdict is a run of the check instead: known beforehand to nobody who does not know the key. */
export function isSample(key: string, uses: number): boolean {
  return Number.parseInt(hash([key, uses]).slice(0, 8), 16) % VERDICT_SAMPLE === 0;
}

/**
 * Which checks run, by what is known of each, in order. One that runs finds what those before it left, so they run too;
 * but for one that declared its inputs: it needs nothing else.
 */
export function toRun(checks: readonly { inputs: boolean; known: boolean }[]): boolean[] {
  const last = checks.findLastIndex(({ inputs, known }) => !known && !inputs);
  return checks.map(({ known }, i) => !known || i < last);
}

function hash(value: unknown): string {
  return createHash("sha256").update(JSON.stringify(value)).digest("hex");
}
