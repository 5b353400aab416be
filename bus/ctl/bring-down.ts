// Ending what works on a repository: bus, scheduler, and (unless they are to be left) agents with their shims.
//
// 1. The bus answers: it is asked to end. It cancels what runs, waits for scheduler and shims, then ends itself.
// 2. The bus is dead, but agents or checks live: only a bus can cancel them and keep the books, so it is started
//    once more for that. With `leave`, or when no agent lives, the scheduler alone is told to end (TERM).
// 3. Then all that was found is looked at until it is gone, by pid, start time and boot. A scheduler that lost its
//    bus hears nothing of the end: it is told (TERM).

import { isCode } from "../../schemas/errors.ts";
import type { Task } from "../../schemas/task.ts";
import { findBus } from "../client/find.ts";
import { isSameProcess, isStopped, type ProcessIdentity } from "../client/identity.ts";
import { runningScheduler, runningShims } from "../client/running.ts";
import { busPaths } from "../paths.ts";
import { openBus } from "./connect.ts";
import { ensureUp, pause, signalTo } from "./daemons.ts";
import { thisHost } from "./launch.ts";

/** Cancelled agents get their grace and are then killed; that is waited for. */
const DOWN_TIMEOUT_MS = 90_000;
/** After the end of the bus a scheduler that knows of it needs a moment only. */
const BEREAVED_MS = 2_000;
const LOOK_AGAIN_MS = 50;

export interface Survivor {
  name: "bus" | "scheduler" | "agent";
  pid: number;
}

export interface Down {
  /** The bus was found dead while others lived. */
  bus_was_dead: boolean;
  ended: Survivor["name"][];
  /** Attempts whose agents or checks were ended, `run/task#attempt`. */
  cancelled: string[];
  /** Tasks that have passed and wait for their landing, or are in it: no work is lost, the next start goes on with it. */
  landing: string[];
  /** Attempts whose agents go on, because that was wanted. */
  left_running: string[];
  /** What still lives although it was to end. */
  survivors: Survivor[];
}

interface Watched extends ProcessIdentity {
  name: Survivor["name"];
  of?: string;
}

/** Bus and scheduler were dead before. */
export const NOTHING: Down = {
  bus_was_dead: true,
  ended: [],
  cancelled: [],
  landing: [],
  left_running: [],
  survivors: [],
};

function labelsOf(all: readonly { of?: string }[]): string[] {
  return [...new Set(all.flatMap(({ of }) => of ?? []))];
}

/** Undefined: nothing ran. Throws BUS_NOT_ANSWERING, and what starting the bus throws. */
export async function bringDown(commonDir: string, leave: boolean): Promise<Down | undefined> {
  let found = await findBus(commonDir);
  const { env, uid } = thisHost();
  const state = found.endpoint?.state_dir ?? busPaths(commonDir, env, uid).state;
  const scheduler = runningScheduler(state);
  const shims = runningShims(state);
  const dead = found.state === "dead";
  if (dead && !scheduler && shims.length === 0) return undefined;
  if (dead && !scheduler && leave) return { ...NOTHING, left_running: labelsOf(shims) };
  if (dead && !leave && shims.length > 0) {
    await ensureUp(commonDir);
    found = await findBus(commonDir);
  }
  const watched: Watched[] = [];
  if (found.state !== "dead" && found.endpoint) watched.push({ name: "bus", ...found.endpoint });
  const worker = runningScheduler(state) ?? scheduler;
  if (worker) watched.push({ name: "scheduler", ...worker });
  if (!leave) for (const shim of shims) watched.push({ name: "agent", ...shim });
  let landing: string[] = [];
  if (found.state === "dead" && worker) signalTo(worker, "SIGTERM");
  else if (found.state !== "dead") landing = await askForEnd(commonDir, leave);
  const survivors = await untilGone(watched, state, leave);
  const gone = watched.filter((one) => !survivors.includes(one));
  const left_running = leave ? labelsOf(runningShims(state)) : [];
  return {
    bus_was_dead: dead,
    ended: [...new Set(gone.map(({ name }) => name))].filter((name) => name !== "agent"),
    // The checks of a landing are ended like those of an attempt, and made again.
    cancelled: labelsOf(gone).filter((one) => !landing.includes(one)),
    landing: landing.filter((one) => !left_running.includes(one)),
    left_running,
    survivors: survivors.map(({ name, pid }) => ({ name, pid })),
  };
}

/** Which attempts are landing then: asked in the same breath, since no answer is promised after the end began. */
async function askForEnd(commonDir: string, leave: boolean): Promise<string[]> {
  const bus = await openBus(commonDir);
  try {
    const passed = bus.call("list_tasks", { states: ["passed"] }).catch(() => ({ tasks: [] }));
    await bus.call("shutdown", { leave_running: leave });
    return (await passed).tasks.flatMap(landingOf);
  } catch (error) {
    // The answer may be overtaken by the end itself.
    if (!isCode(error, "BUS_AWAY", "SHUTTING_DOWN")) throw error;
    return [];
  } finally {
    bus.close();
  }
}

function landingOf({ run, spec, state, attempts }: Task): string[] {
  const merged = state.name !== "passed" || state.merged !== null;
  return merged ? [] : [`${run}/${spec.id}#${attempts.at(-1)?.attempt ?? 0}`];
}

/** Those that still live at the end. Shims that were just being started are found on the way. */
async function untilGone(watched: Watched[], state: string, leave: boolean): Promise<Watched[]> {
  const limit = performance.now() + DOWN_TIMEOUT_MS;
  let busGone: number | undefined;
  let told = false;
  for (;;) {
    const left = watched.filter(isSameProcess);
    if (!left.some(({ name }) => name === "bus")) {
      busGone ??= performance.now();
      if (!leave) left.push(...late(watched, state));
    }
    if (left.length === 0 || performance.now() > limit) return left;
    const scheduler = left.find(({ name }) => name === "scheduler");
    if (scheduler && !told && busGone !== undefined && performance.now() - busGone > BEREAVED_MS) {
      told = true;
      signalTo(scheduler, "SIGTERM");
    }
    // A stopped process hears nothing until a person continues it.
    if (told && left.every(({ pid }) => isStopped(pid))) return left;
    await pause(LOOK_AGAIN_MS);
  }
}

function late(watched: Watched[], state: string): Watched[] {
  const fresh = runningShims(state)
    .filter(
      (shim) => !watched.some(({ pid, start_time }) => pid === shim.pid && start_time === shim.start_time),
    )
    .map((shim): Watched => ({ name: "agent", ...shim }));
  watched.push(...fresh);
  return fresh;
}
