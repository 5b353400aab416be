// What may be claimed now. Pure: the same view gives the same answer.
//
// 1. Only ready tasks of runs that are not paused.
// 2. In runs with `schedule: waves`, only tasks of the first wave that is not at its end. A task is at its end when it
//    is merged or waits for a person (blocked, cancelled).
// 3. Order: priority (smaller first), wave, time it became ready, place in the plan.
// 4. As many as there are free slots: on the host, and in the run (`workers` of the plan). An attempt that is held by a
//    paused run holds none (bases.ts); once its run goes on it gets one again, before anybody new.
// 5. Never two tasks at once that may touch the same file (lanes.ts). A task that has to wait for a lane does not
//    hold up those behind it.

import type { Task } from "../schemas/task.ts";
import { clash, type Lane } from "./lanes.ts";

/** A run as placement sees it. */
export interface RunView {
  run: string;
  paused: boolean;
  schedule: "eager" | "waves";
  workers: number;
  /** Tasks in state ready, without those that are being claimed. */
  ready: Iterable<Task>;
  /** Tasks in state running, those being claimed, and passed tasks that are not merged. */
  underway: Iterable<Task>;
  /** Of `underway`: held attempts whose run was let go on. They have their lane, and want a slot again. */
  returning: Iterable<Task>;
  /** Lowest wave with a task that is not at its end. */
  openWave: number;
  /** Place in the plan. */
  orderOf(task: string): number;
  laneOf(task: Task): Lane;
  /** Whether the task holds a slot now (running and not held, or being claimed). */
  holdsSlot(task: Task): boolean;
}

export interface Placed {
  run: string;
  task: Task;
  /** It is under way already: held, and goes on now. */
  goesOn?: true;
}

/** Tasks to claim, or to let go on, now, in order. `slots` is the number of attempts the host may have at once. */
export function place(runs: Iterable<RunView>, slots: number): Placed[] {
  const views = [...runs];
  const room = new Map<string, RunRoom>();
  let free = slots;
  for (const view of views) {
    const underway = [...view.underway];
    const busy = underway.filter((task) => view.holdsSlot(task)).length;
    free -= busy;
    room.set(view.run, { view, free: view.workers - busy, held: underway.map((task) => view.laneOf(task)) });
  }
  if (free <= 0) return [];
  const placed: Placed[] = [];
  for (const candidate of inOrder(views)) {
    if (placed.length >= free) break;
    const at = room.get(candidate.run);
    if (!at || at.free <= 0) continue;
    const lane = at.view.laneOf(candidate.task);
    if (!candidate.goesOn && at.held.some((held) => clash(held, lane) !== undefined)) continue;
    at.held.push(lane);
    at.free -= 1;
    placed.push(candidate);
  }
  return placed;
}

interface RunRoom {
  view: RunView;
  free: number;
  held: Lane[];
}

function inOrder(views: readonly RunView[]): Placed[] {
  const all: (Placed & { order: number; since: string })[] = [];
  for (const view of views) {
    if (view.paused) continue;
    const place = (task: Task, since: string) => {
      return { run: view.run, task, order: view.orderOf(task.spec.id), since };
    };
    for (const task of view.returning)
      if (task.state.name === "running") all.push({ ...place(task, task.state.since), goesOn: true });
    for (const task of view.ready) {
      if (task.state.name !== "ready") continue;
      if (view.schedule === "waves" && task.wave > view.openWave) continue;
      all.push(place(task, task.state.since));
    }
  }
  return all.sort(
    (a, b) =>
      Number(b.goesOn ?? false) - Number(a.goesOn ?? false) ||
      a.task.spec.priority - b.task.spec.priority ||
      a.task.wave - b.task.wave ||
      (a.since < b.since ? -1 : a.since > b.since ? 1 : 0) ||
      a.order - b.order,
  );
}

/** Attempts at once on this host: what the configuration says, else by cores; fewer while memory is short. */
export function slotsOfHost(facts: {
  configured: number | undefined;
  cores: number;
  perCore: number;
  max: number;
  /** Bytes that could be given out now; undefined while not measured. */
  freeMemory: number | undefined;
  /** Mean resident bytes of a running attempt; undefined while none was measured. */
  meanAttempt: number | undefined;
  running: number;
}): number {
  const wished = Math.min(facts.configured ?? facts.cores * facts.perCore, facts.max);
  if (facts.freeMemory === undefined || facts.meanAttempt === undefined) return wished;
  const more = Math.floor(facts.freeMemory / Math.max(facts.meanAttempt, 1));
  return Math.max(1, Math.min(wished, facts.running + more));
}
