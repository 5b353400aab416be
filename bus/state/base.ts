// The committed state: the lowest layer, with the read sets of attempts at work.

import type { Gap } from "../../schemas/answers.ts";
import type { JournalRecord } from "../../schemas/events.ts";
import { taskKey } from "../../schemas/ids.ts";
import type { Task } from "../../schemas/task.ts";
import { Layer } from "./layer.ts";

const NOTHING: ReadonlyMap<string, string> = new Map();

export class Base extends Layer {
  /** Task -> attempt -> path -> object id ("" where nothing was there). */
  readonly reads = new Map<string, Map<number, Map<string, string>>>();

  /** Parts of the journal that are lost, in order. */
  readonly gaps: Gap[] = [];

  noteGap({ from, to, why, former }: Omit<Gap, "at">, at: string): void {
    this.gaps.push({ from, to, at, why, ...(former && { former }) });
  }

  override readSet(run: string, task: string, attempt: number): ReadonlyMap<string, string> {
    return this.reads.get(taskKey(run, task))?.get(attempt) ?? NOTHING;
  }

  /** Notes what an agent was shown; `run`, `task` and `attempt` of the record name the reader. True when it counts. */
  noteRead(record: Pick<JournalRecord, "actor" | "method" | "run" | "task" | "attempt" | "access">): boolean {
    const { run, task, attempt, access } = record;
    if (record.method !== "get_file" || !record.actor.startsWith("agent:")) return false;
    if (run === undefined || task === undefined || attempt === undefined || !access?.path) return false;
    if (access.oid === undefined && access.error !== "NO_SUCH_FILE") return false;
    const state = this.task(run, task)?.state;
    if (state?.name !== "running" || state.attempt !== attempt) return false;
    this.putRead(taskKey(run, task), attempt, access.path, access.oid ?? "");
    return true;
  }

  putRead(key: string, attempt: number, path: string, oid: string): void {
    const byAttempt = this.reads.get(key) ?? new Map<number, Map<string, string>>();
    this.reads.set(key, byAttempt);
    const paths = byAttempt.get(attempt) ?? new Map<string, string>();
    byAttempt.set(attempt, paths);
    paths.set(path, oid);
  }

  /** Read sets are kept until the task is merged or cancelled, or another attempt begins. */
  trimReads(task: Task): void {
    const key = taskKey(task.run, task.spec.id);
    const kept = this.reads.get(key);
    if (!kept) return;
    const s = task.state;
    if (s.name === "cancelled" || (s.name === "passed" && s.merged)) this.reads.delete(key);
    else if (s.name === "running") for (const n of kept.keys()) if (n !== s.attempt) kept.delete(n);
  }
}
