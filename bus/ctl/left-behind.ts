// What can be said of a bus that does not run, from what lies on the disk: whether it was ended or died or could not start,
// when it wrote for the last time, what was open then, and which agents go on meanwhile. Reads only; what cannot be read is
// not said.
//
// An ended bus takes its endpoint away; one that died leaves it. One that could not start left its reason as the last thing
// in its log; a journal written since (a repair, a later bus) makes that old. The checkpoint may be older than the last word
// of the journal: what it says is said as of then.

import { readdirSync, readFileSync, statSync } from "node:fs";
import { join } from "node:path";
import { BusbarError } from "../../schemas/errors.ts";
import type { Task } from "../../schemas/task.ts";
import { readStartFailure } from "../client/last-words.ts";
import { runningShims } from "../client/running.ts";
import { busPaths, endpointOf } from "../paths.ts";
import { type Host, thisHost } from "./launch.ts";
import { clockTime, duration, plural } from "./render/time.ts";

export interface LeftBehind {
  /** False: it was ended in order, or never ran. */
  died: boolean;
  /** Milliseconds since 1970. */
  lastWrote: number | undefined;
  /** Tasks that were neither merged nor cancelled at the last checkpoint, and when that was. */
  open: { tasks: number; at: number } | undefined;
  /** Agents and checks that go on under their shims. */
  running: number;
  /** Why the last start failed, where nothing has been written since. */
  noStart: { why: BusbarError; at: number; log: string } | undefined;
}

export function leftBehind(commonDir: string, { env, uid }: Host): LeftBehind {
  const endpoint = endpointOf(commonDir);
  const state = endpoint?.state_dir ?? busPaths(commonDir, env, uid).state;
  const lastWrote = newest(join(state, "bus", "journal"));
  return {
    died: endpoint !== null,
    lastWrote,
    noStart: failedStart(join(state, "logs", "busd.log"), lastWrote ?? 0),
    open: openAt(join(state, "bus", "checkpoint")),
    running: runningShims(state).length,
  };
}

/** BUS_AWAY with all of it in words. */
export function notRunning(commonDir: string, now: number, host: Host = thisHost()): BusbarError {
  let left: LeftBehind | undefined;
  try {
    left = leftBehind(commonDir, host);
  } catch (error) {
    if (!(error instanceof BusbarError)) throw error; // no place for a state: nothing was left there
  }
  const data = {
    repo: commonDir,
    ...(left ? { help: helpOf(left) } : {}),
    ...(left?.noStart ? { log: left.noStart.log } : {}),
  };
  return new BusbarError(
    "BUS_AWAY",
    `not running: ${left ? howOf(left, commonDir, now) : noBus(commonDir)}`,
    data,
  );
}

const noBus = (commonDir: string) => `no bus works on ${commonDir}`;

function howOf({ died, lastWrote, noStart }: LeftBehind, commonDir: string, now: number): string {
  if (noStart) {
    const { why, at } = noStart;
    return `the bus of ${commonDir} does not start (tried at ${clockTime(at)}, ${duration(now - at)} ago): ${why.code}: ${why.message}`;
  }
  if (lastWrote === undefined) return noBus(commonDir);
  const when = `at ${clockTime(lastWrote)}, ${duration(now - lastWrote)} ago`;
  return died
    ? `the bus of ${commonDir} died (killed, or the machine went down); it last wrote ${when}`
    : `${noBus(commonDir)}; the last one was ended in order, and last wrote ${when}`;
}

function helpOf({ lastWrote, open, running, noStart }: LeftBehind): string {
  if (noStart) return String(noStart.why.data.help ?? noStart.why.help);
  if (lastWrote === undefined) return "Start it with `busctl up`.";
  const parts = ["`busctl up` goes on where it stopped"];
  if (open)
    parts.push(
      `${plural(open.tasks, "task was", "tasks were")} open at the checkpoint of ${clockTime(open.at)}`,
    );
  if (running > 0)
    parts.push(`${plural(running, "process goes", "processes go")} on under their shims meanwhile`);
  return `${parts.join("; ")}.`;
}

/** The end of the log that may hold the reason. */
const LAST_WORDS_BYTES = 64 * 1024;

/** The failure that the log ends with; undefined when the journal was written later. */
function failedStart(log: string, lastWrote: number): LeftBehind["noStart"] {
  const at = statSync(log, { throwIfNoEntry: false })?.mtimeMs;
  if (at === undefined || at < lastWrote) return undefined;
  try {
    const said = readFileSync(log).subarray(-LAST_WORDS_BYTES).toString("utf8");
    // Lines of a life (one JSON object each) below the failure: a later bus came up.
    const why = readStartFailure(said.slice(said.lastIndexOf("\n{") + 1));
    return why && { why, at, log };
  } catch {
    return undefined;
  }
}

/** When a file of the folder was written last. */
function newest(dir: string): number | undefined {
  const times = names(dir).flatMap(
    (name) => statSync(join(dir, name), { throwIfNoEntry: false })?.mtimeMs ?? [],
  );
  return times.length === 0 ? undefined : Math.max(...times);
}

function openAt(dir: string): LeftBehind["open"] {
  const files = names(dir).filter((name) => name.endsWith(".json") && !name.startsWith("_"));
  const at = newest(dir);
  if (files.length === 0 || at === undefined) return undefined;
  let tasks = 0;
  for (const name of files) tasks += tasksIn(join(dir, name)).filter(isOpen).length;
  return { tasks, at };
}

function isOpen({ state }: Pick<Task, "state">): boolean {
  return state.name !== "cancelled" && !(state.name === "passed" && state.merged !== null);
}

/** A document of the checkpoint; half a document says nothing. */
function tasksIn(file: string): Pick<Task, "state">[] {
  try {
    const { tasks } = JSON.parse(readFileSync(file, "utf8")) as { tasks?: unknown };
    return Object.values(tasks ?? {}).filter((task) => typeof task?.state?.name === "string") as Task[];
  } catch {
    return [];
  }
}

function names(dir: string): string[] {
  try {
    return readdirSync(dir);
  } catch {
    return [];
  }
}
