// A small StateStore in memory for tests of what stands on it: runs, tasks and snapshots are put in by hand,
// records are kept in order, the next transaction can be made to fail.

import type { AccessDraft, EventDraft, Snapshot, StateStore, StateView } from "../../bus/state/view.ts";
import { BusbarError } from "../../schemas/errors.ts";
import type { ChangedPath, JournalRecord } from "../../schemas/events.ts";
import { taskKey } from "../../schemas/ids.ts";
import type { Run, Task, TaskState } from "../../schemas/task.ts";
import { TaskSpec } from "../../schemas/task.ts";

type Unplaced = Omit<JournalRecord, "v" | "seq" | "ts">;

export class FakeStore implements StateStore {
  readonly key = Buffer.alloc(32, 7);
  readonly records: JournalRecord[] = [];
  degraded: string | undefined;
  /** Knob: the next transaction fails as a full disk would make it. */
  failNext = false;
  readonly #runs = new Map<string, Run>();
  readonly #tasks = new Map<string, Task>();
  readonly #shots = new Map<string, Snapshot[]>();
  readonly #listeners = new Set<(record: JournalRecord) => void>();

  readonly view: StateView = {
    run: (run) => this.#runs.get(run),
    runs: () => this.#runs.values(),
    task: (run, task) => this.#tasks.get(taskKey(run, task)),
    tasks: (run) => [...this.#tasks.values()].filter((task) => task.run === run),
    snapshots: (run, task, attempt) => {
      const all = this.#shots.get(taskKey(run, task)) ?? [];
      const of = attempt ?? all.at(-1)?.attempt;
      return all.filter((shot) => shot.attempt === of);
    },
    readSet: () => new Map(),
  };

  get seq(): number {
    return this.records.length;
  }

  async transact<T>(
    ctx: { actor: string; method?: string; requestId?: string },
    decide: (draft: StateView) => { events: EventDraft[]; result: T },
  ): Promise<T> {
    if (this.failNext) {
      this.failNext = false;
      throw new BusbarError("STORAGE", "writing the journal: ENOSPC");
    }
    const { events, result } = decide(this.view);
    for (const draft of events) this.#append({ kind: "event", actor: ctx.actor, ...draft });
    return result;
  }

  async access(record: AccessDraft): Promise<void> {
    this.#append({ kind: "access", ...record });
  }

  onRecord(fn: (record: JournalRecord) => void): () => void {
    this.#listeners.add(fn);
    return () => this.#listeners.delete(fn);
  }

  async *recordsAfter(seq: number): AsyncGenerator<JournalRecord> {
    for (const record of this.records.slice(seq)) {
      await null;
      yield record;
    }
  }

  async close(): Promise<void> {}

  /** An event from nowhere, as if some handler had written it. */
  emit(draft: EventDraft): void {
    this.#append({ kind: "event", actor: "test", ...draft });
  }

  get listeners(): number {
    return this.#listeners.size;
  }

  putRun(run: string, base: string, reads: "dependencies" | "run" = "dependencies"): void {
    const spec = { run, base, base_name: "main", repo: "/r", workers: 1, reads, gate: "none" };
    this.#runs.set(run, { run, spec, head: base, landed: [], order: [] } as unknown as Run);
  }

  putTask(
    run: string,
    id: string,
    facts: { state?: TaskState; depends_on?: string[]; base?: string; workspace?: string } = {},
  ) {
    const spec = TaskSpec.parse({
      id,
      goal: "g",
      agent: { use: "command" },
      allowed_files: ["**"],
      timeout_s: 1,
      retries: 0,
      depends_on: facts.depends_on ?? [],
    });
    const state = facts.state ?? { name: "pending", waits_for: [] };
    const attempt = "attempt" in state ? state.attempt : 0;
    const started = "2026-01-01T00:00:00.000Z";
    const record = { attempt, worker: "w", base: facts.base!, workspace: facts.workspace ?? "", started };
    const attempts = attempt ? [{ ...record, snapshots: [], verdicts: [] }] : [];
    const task: Task = { run, spec, wave: 0, state, state_version: 1, attempts, counts: {}, granted: [] };
    this.#tasks.set(taskKey(run, id), task);
  }

  putSnapshot(
    run: string,
    task: string,
    shot: Omit<Snapshot, "changed" | "changed_count"> & { changed: ChangedPath[] },
  ): void {
    const changed = new Map(shot.changed.map((each) => [each.path, each]));
    const list = this.#shots.get(taskKey(run, task)) ?? [];
    this.#shots.set(taskKey(run, task), [...list, { ...shot, changed, changed_count: changed.size }]);
  }

  #append(record: Unplaced): void {
    const placed: JournalRecord = {
      v: 1,
      seq: this.records.length + 1,
      ts: new Date().toISOString(),
      ...record,
    };
    this.records.push(placed);
    for (const listener of [...this.#listeners]) listener(placed);
  }
}

/** The state of a task that runs its attempt `n` in `workspace` from `base`. */
export function running(attempt: number, base: string, workspace = "/nowhere"): TaskState {
  const at = "2026-01-01T00:00:00.000Z";
  return {
    name: "running",
    attempt,
    worker: "w",
    phase: "agent",
    since: at,
    lease_until: at,
    workspace,
    base,
  };
}
