// Tables of state, one upon another. The lowest is what is committed; a layer above it holds only what differs.
// All values are immutable, so a layer is dropped (nothing happened) or merged down (it happened) by moving references.

import { taskKey } from "../../schemas/ids.ts";
import type { Run, Task } from "../../schemas/task.ts";
import type { Snapshot, StateView } from "./view.ts";

/** What follows from the specs of a run alone; made anew only when tasks are added. */
export interface RunIndex {
  /** Task -> tasks that name it in depends_on. */
  dependents: ReadonlyMap<string, readonly string[]>;
  /** Wave -> its tasks, in the order of the plan. */
  waves: ReadonlyMap<number, readonly string[]>;
}

/** The view with the indexes that decisions need. */
export interface IndexedView extends StateView {
  dependents(run: string, task: string): readonly string[];
  waveTasks(run: string, wave: number): readonly string[];
  /** Numbers of the waves of a run, ascending. */
  waves(run: string): number[];
}

/** Snapshots of a task by attempt. */
type Shots = ReadonlyMap<number, readonly Snapshot[]>;
const NO_SHOTS: Shots = new Map();
const NO_READS: ReadonlyMap<string, string> = new Map();

export class Layer implements IndexedView {
  readonly runTable = new Map<string, Run>();
  readonly taskTable = new Map<string, Task>();
  readonly shotTable = new Map<string, Shots>();
  readonly indexTable = new Map<string, RunIndex>();

  constructor(protected readonly below?: Layer) {}

  run(run: string): Run | undefined {
    return this.runTable.get(run) ?? this.below?.run(run);
  }

  *runs(): Iterable<Run> {
    if (!this.below) {
      yield* this.runTable.values();
      return;
    }
    for (const run of this.below.runs()) yield this.runTable.get(run.run) ?? run;
    for (const run of this.runTable.values()) if (!this.below.run(run.run)) yield run;
  }

  task(run: string, task: string): Task | undefined {
    return this.taskByKey(taskKey(run, task));
  }

  private taskByKey(key: string): Task | undefined {
    return this.taskTable.get(key) ?? this.below?.taskByKey(key);
  }

  *tasks(run: string): Iterable<Task> {
    for (const id of this.run(run)?.order ?? []) {
      const task = this.task(run, id);
      if (task) yield task;
    }
  }

  snapshots(run: string, task: string, attempt?: number): readonly Snapshot[] {
    const shots = this.shots(run, task);
    return shots.get(attempt ?? Math.max(0, ...shots.keys())) ?? [];
  }

  shots(run: string, task: string): Shots {
    return this.shotTable.get(taskKey(run, task)) ?? this.below?.shots(run, task) ?? NO_SHOTS;
  }

  readSet(run: string, task: string, attempt: number): ReadonlyMap<string, string> {
    return this.below?.readSet(run, task, attempt) ?? NO_READS;
  }

  index(run: string): RunIndex | undefined {
    return this.indexTable.get(run) ?? this.below?.index(run);
  }

  dependents(run: string, task: string): readonly string[] {
    return this.index(run)?.dependents.get(task) ?? [];
  }

  waveTasks(run: string, wave: number): readonly string[] {
    return this.index(run)?.waves.get(wave) ?? [];
  }

  waves(run: string): number[] {
    return [...(this.index(run)?.waves.keys() ?? [])].sort((a, b) => a - b);
  }

  putRun(run: Run): void {
    this.runTable.set(run.run, run);
  }

  putTask(task: Task): void {
    this.taskTable.set(taskKey(task.run, task.spec.id), task);
  }

  putShots(run: string, task: string, shots: Shots): void {
    this.shotTable.set(taskKey(run, task), shots);
  }

  putIndex(run: string, index: RunIndex): void {
    this.indexTable.set(run, index);
  }

  /** Takes over all that `upper` holds. */
  absorb(upper: Layer): void {
    for (const [from, to] of tablePairs(upper, this)) for (const [key, value] of from) to.set(key, value);
  }

  /** Forgets what `upper` holds, where nothing newer has taken its place. */
  release(upper: Layer): void {
    for (const [from, to] of tablePairs(upper, this)) {
      for (const [key, value] of from) if (to.get(key) === value) to.delete(key);
    }
  }

  clear(): void {
    for (const [table] of tablePairs(this, this)) table.clear();
  }
}

type Table = Map<string, unknown>;
function tablePairs(a: Layer, b: Layer): [Table, Table][] {
  return [
    [a.runTable, b.runTable],
    [a.taskTable, b.taskTable],
    [a.shotTable, b.shotTable],
    [a.indexTable, b.indexTable],
  ];
}
