// A run with a past: some tasks at work, and as many events in the journal as asked for. The events are words of the
// agents, by far the most frequent ones of a long run.

import { claim, progress } from "../../bus/state/decide-attempt.ts";
import { planHash, submit } from "../../bus/state/decide-run.ts";
import type { Store } from "../../bus/state/store.ts";
import { benchRun } from "./plan.ts";

/** So many changes share one write. */
const AT_ONCE = 500;
const BUS = { actor: "bench" };

export interface History {
  run: string;
  repo: string;
  base: string;
  workspace: string;
  tasks: number;
  running: number;
}

/** Submits the run and claims its first tasks. */
export async function beginHistory(store: Store, order: History): Promise<void> {
  const spec = benchRun(order);
  await store.change(BUS, (draft) => submit(draft, { spec }, "person", planHash(spec)));
  const { run, base, workspace } = order;
  await Promise.all(
    workers(order).map((task) =>
      store.change(BUS, (draft) => {
        const { state_version } = draft.mustTask(run, task);
        return claim(draft, { run, task, state_version, worker: "w", base, workspace });
      }),
    ),
  );
}

/** `events` more events of the tasks at work, all durable. */
export async function addHistory(store: Store, order: History, events: number): Promise<void> {
  const at = workers(order);
  for (let done = 0; done < events; done += AT_ONCE) {
    const some = Array.from({ length: Math.min(AT_ONCE, events - done) }, (_, i) => done + i);
    await Promise.all(
      some.map((n) =>
        store.change(BUS, (draft) =>
          progress(
            draft,
            { run: order.run, task: at[n % at.length] as string, attempt: 1 },
            {
              status: "at work",
              message: `step ${store.seq}.${n} of the task: reading, changing, trying out`,
            },
          ),
        ),
      ),
    );
  }
}

function workers({ running }: History): string[] {
  return Array.from({ length: running }, (_, i) => `task_${i}`);
}
