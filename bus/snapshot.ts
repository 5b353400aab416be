// The promise of a snapshot read (design section 3): which snapshot answers, and who may ask. Nothing is read
// from a disk here.
//
// 1. Who: a person or the scheduler any task; an agent its own, what that depends on (through others too), and
//    all of the run if the plan says `reads: run`. An attempt that is over reads nothing any more.
// 2. Which: `version` if named; else the one pinned for this attempt; else the newest published snapshot of
//    the task, which is then pinned for the rest of the attempt (`fresh` pins anew).
// 3. A task without a snapshot is at version 0: the base of its newest attempt, or of the run.

import { BusbarError } from "../schemas/errors.ts";
import type { ChangedPath, JournalRecord } from "../schemas/events.ts";
import { type AttemptRef, attemptLabel, taskKey } from "../schemas/ids.ts";
import type { Task } from "../schemas/task.ts";
import type { CallContext, Snapshot, StateView } from "./state/view.ts";

/** One immutable state of a workspace, as far as reads need it. */
export interface Source {
  run: string;
  task: string;
  attempt: number;
  version: number;
  commit: string;
  /** Absent for version 0, where only the commit is known. */
  tree?: string;
  base: string;
  changed: ReadonlyMap<string, ChangedPath>;
}

export interface Wanted {
  run?: string | undefined;
  task_id?: string | undefined;
  version?: number | undefined;
  fresh?: boolean | undefined;
}

/** What one attempt may read and has pinned. */
interface Reader {
  attempt: number;
  readable: ReadonlySet<string> | "run";
  pins: Map<string, Source>;
}

const UNCHANGED: ReadonlyMap<string, ChangedPath> = new Map();

export class Snapshots {
  readonly #view: () => StateView;
  /** By task: a newer attempt of the task takes the older one's place. */
  readonly #readers = new Map<string, Reader>();

  constructor(view: () => StateView) {
    this.#view = view;
  }

  /** Throws NO_SUCH_RUN, NO_SUCH_TASK, NO_SUCH_SNAPSHOT, NOT_READABLE, FENCED, INVALID_PARAMS. */
  resolve(call: Pick<CallContext, "role" | "attempt">, wanted: Wanted): Source {
    if (call.role === "agent" && call.attempt) return this.#forAgent(call.attempt, wanted);
    const { run, task_id } = wanted;
    if (run === undefined || task_id === undefined)
      throw new BusbarError("INVALID_PARAMS", "run and task_id are needed: this caller is not an attempt", {
        param: run === undefined ? "run" : "task_id",
      });
    return choose(this.#view(), run, task_id, wanted.version);
  }

  /** Throws NOT_READABLE and FENCED where `resolve` would; for answers about a task that read no file. */
  checkReadable(ref: AttemptRef, run: string, task: string): void {
    this.#checkRight(this.#reader(ref), ref, run, task);
  }

  /** An attempt has ended: its pins are of no use any more. */
  forget(run: string, task: string): void {
    this.#readers.delete(taskKey(run, task));
  }

  /** Set while pins are being restored: reads of agents wait for it. */
  restoring: Promise<void> | undefined;

  /**
   * After a restart: pins again what live attempts were shown, from their records in the audit log, which come newest
   * first: the first one about a task says what is pinned.
   */
  restore(record: JournalRecord): void {
    const { run, task, attempt, access } = record;
    if (record.method !== "get_file" && record.method !== "list_files") return;
    if (!record.actor.startsWith("agent:") || run === undefined || task === undefined) return;
    if (attempt === undefined || access?.version === undefined || access.error !== undefined) return;
    const params = (access.params ?? {}) as Wanted;
    if (params.version !== undefined) return; // named versions pin nothing
    try {
      const reader = this.#reader({ run, task, attempt });
      const of = params.task_id ?? task;
      if (reader.pins.has(of)) return;
      reader.pins.set(
        of,
        choose(this.#view(), run, of, access.version, ownAttempt(of, { run, task, attempt })),
      );
    } catch (error) {
      if (!(error instanceof BusbarError)) throw error; // the attempt is over, or the task is gone
    }
  }

  #forAgent(ref: AttemptRef, wanted: Wanted): Source {
    const reader = this.#reader(ref);
    const task = wanted.task_id ?? ref.task;
    this.#checkRight(reader, ref, wanted.run ?? ref.run, task);
    const own = ownAttempt(task, ref);
    if (wanted.version !== undefined) return choose(this.#view(), ref.run, task, wanted.version, own);
    const pinned = wanted.fresh ? undefined : reader.pins.get(task);
    if (pinned) return pinned;
    const source = choose(this.#view(), ref.run, task, undefined, own);
    reader.pins.set(task, source);
    return source;
  }

  #checkRight(reader: Reader, ref: AttemptRef, run: string, task: string): void {
    if (run === ref.run && (reader.readable === "run" || reader.readable.has(task))) return;
    throw new BusbarError("NOT_READABLE", `task ${ref.task} may not read ${run}/${task}`, { run, task });
  }

  #reader(ref: AttemptRef): Reader {
    const view = this.#view();
    const task = mustTask(view, ref.run, ref.task);
    if (task.state.name !== "running" || task.state.attempt !== ref.attempt)
      throw new BusbarError("FENCED", `attempt ${attemptLabel(ref)} is over`, { ...ref });
    const key = taskKey(ref.run, ref.task);
    const known = this.#readers.get(key);
    if (known?.attempt === ref.attempt) return known;
    const reader = { attempt: ref.attempt, readable: readableBy(view, task), pins: new Map() };
    this.#readers.set(key, reader);
    return reader;
  }
}

function ownAttempt(task: string, ref: AttemptRef): number | undefined {
  return task === ref.task ? ref.attempt : undefined;
}

function mustTask(view: StateView, run: string, task: string): Task {
  const found = view.task(run, task);
  if (found) return found;
  if (!view.run(run)) throw new BusbarError("NO_SUCH_RUN", `there is no run ${run}`, { run });
  throw new BusbarError("NO_SUCH_TASK", `run ${run} has no task ${task}`, { run, task });
}

/** The task itself and everything that it depends on, however far. */
function readableBy(view: StateView, task: Task): ReadonlySet<string> | "run" {
  if (view.run(task.run)?.spec.reads === "run") return "run";
  const seen = new Set([task.spec.id]);
  // A Set may grow while it is walked: each id is visited once.
  for (const id of seen) for (const next of view.task(task.run, id)?.spec.depends_on ?? []) seen.add(next);
  return seen;
}

function choose(view: StateView, run: string, id: string, version?: number, attempt?: number): Source {
  const task = mustTask(view, run, id);
  const shots = view.snapshots(run, id, attempt);
  const found = version === undefined ? shots.at(-1) : shots.find((shot) => shot.version === version);
  if (found) return ofSnapshot(run, id, found);
  if (version !== undefined && version > 0)
    throw new BusbarError("NO_SUCH_SNAPSHOT", `task ${id} has no version ${version}`, {
      newest: shots.at(-1)?.version ?? 0,
    });
  return atBase(view, task, shots[0], attempt);
}

function ofSnapshot(run: string, task: string, shot: Snapshot): Source {
  const { attempt, version, commit, tree, base, changed } = shot;
  return { run, task, attempt, version, commit, tree, base, changed };
}

function atBase(view: StateView, task: Task, shot: Snapshot | undefined, attempt?: number): Source {
  const wanted = attempt ?? shot?.attempt;
  const record =
    wanted === undefined ? task.attempts.at(-1) : task.attempts.find((each) => each.attempt === wanted);
  const base = shot?.base ?? record?.base ?? view.run(task.run)!.spec.base;
  const of = record?.attempt ?? 0;
  return {
    run: task.run,
    task: task.spec.id,
    attempt: of,
    version: 0,
    commit: base,
    base,
    changed: UNCHANGED,
  };
}
