// Whether a try that ended by an innocent cause (infra, lost) is free, or counts as a failed try. Pure.
//
// An agent or a check can bring such an end about itself: it kills its own shim, and nobody saw it end. So an innocent
// end is free for one of these reasons only:
//   1. It is explained: the scheduler has established a fact of the machine (evidence.machine): the disk is full, the
//      machine was started anew, the scheduler ended before there was an agent.
//   2. It was widespread: of the other attempts at work at that moment at least half, and two at least, ended by an
//      innocent cause within WIDESPREAD_MS of it. Trouble of a machine hits whoever is there; a task that does it to
//      itself is hit alone, while its neighbours work on. But a program that all tasks share may do it to all of them:
//      of one task FREE_WAVES such ends are free, then trouble needs a fact of the machine like any other.
//   3. It is one of the first FREE_LOSSES of its task: single processes do get killed by chance.
// Each further one counts as a failed try, so that a task which always does it has no more than FREE_LOSSES and FREE_WAVES
// tries beyond those of any other. Innocent ends that stay free have their own bound (MAX_INNOCENT_RETRIES).

import { FREE_LOSSES, FREE_WAVES, WIDESPREAD_MS, WIDESPREAD_OTHERS } from "../../schemas/limits.ts";
import { type AttemptRecord, type Cause, INNOCENT_CAUSES, type Task } from "../../schemas/task.ts";

/** An innocent end that somebody may have brought about. */
export interface Loss {
  /** Milliseconds since 1970. */
  at: number;
  explained: boolean;
}

/** An attempt of another task. */
export interface Neighbour {
  started: number;
  /** Undefined: it is at work. */
  ended: number | undefined;
  innocent: boolean;
}

/** How many of the innocent ends of one task count as failed tries. */
export function countedLosses(losses: readonly Loss[], neighbours: () => Iterable<Neighbour>): number {
  const open = losses.filter((loss) => !loss.explained);
  if (open.length <= FREE_LOSSES) return 0;
  const others = [...neighbours()];
  const waves = open.filter((loss) => isWidespread(loss.at, others)).length;
  return Math.max(0, open.length - waves - FREE_LOSSES) + Math.max(0, waves - FREE_WAVES);
}

function isWidespread(at: number, others: readonly Neighbour[]): boolean {
  const there = others.filter(({ started, ended }) => started <= at && (ended ?? at) >= at - WIDESPREAD_MS);
  const hit = there.filter(({ ended, innocent }) => innocent && (ended ?? 0) <= at + WIDESPREAD_MS);
  return hit.length >= WIDESPREAD_OTHERS && hit.length * 2 >= there.length;
}

/** Causes that an agent can bring about; rate_limited is said by a service. */
const DOUBTED: ReadonlySet<string | undefined> = new Set<Cause>(["infra", "lost"]);

export function isDoubted(cause: Cause): boolean {
  return DOUBTED.has(cause);
}

/** The innocent ends of a task since a person last asked for a retry, which sets the counts to nothing. */
export function lossesOf(task: Pick<Task, "attempts" | "counts">): Loss[] {
  const count = (task.counts.infra ?? 0) + (task.counts.lost ?? 0);
  if (count === 0) return [];
  return task.attempts
    .filter(({ result }) => DOUBTED.has(result))
    .slice(-count)
    .map(({ ended, evidence }) => ({
      at: Date.parse(ended ?? ""),
      explained: evidence?.machine !== undefined,
    }));
}

/** The attempts of all tasks but one. */
export function* neighboursOf(tasks: Iterable<Task>, id: string): Iterable<Neighbour> {
  for (const { spec, attempts } of tasks) if (spec.id !== id) yield* attempts.map(neighbour);
}

function neighbour({ started, ended, result }: AttemptRecord): Neighbour {
  return {
    started: Date.parse(started),
    ended: ended === undefined ? undefined : Date.parse(ended),
    innocent: (INNOCENT_CAUSES as ReadonlySet<string | undefined>).has(result),
  };
}
