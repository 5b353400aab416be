// A change of state, durable, with 2,000 tasks; and the start from checkpoint and journal.

import { fdatasyncSync, mkdirSync, openSync, writeSync } from "node:fs";
import { join } from "node:path";
import { Low } from "lowdb";
import { JSONFile } from "lowdb/node";
import { cancelTask, retryTask } from "../../bus/state/decide-person.ts";
import { planHash, submit } from "../../bus/state/decide-run.ts";
import { Store } from "../../bus/state/store.ts";
import { systemClock } from "../../schemas/ports.ts";
import { type Bench, type BenchContext, interleave, median, type Row, timed } from "./bench.ts";
import { benchRun } from "./plan.ts";

const TASKS = 2_000;
const CHANGES = 100;
const CALLERS = 200;
const PERSON = { actor: "person", method: "cancel", requestId: "bench" };
const QUIET = { info: () => {}, warn: () => {}, error: () => {} };

export const state: Bench = {
  name: "state",
  about: `one change of state, durable, with ${TASKS} tasks; start from disk`,
  run: measure,
};

async function measure(ctx: BenchContext): Promise<Row[]> {
  const dir = join(ctx.dir, "bus");
  mkdirSync(dir, { mode: 0o700 });
  const open = () => Store.open({ dir, clock: systemClock, log: QUIET });
  const store = await open();
  const spec = benchRun({ run: "bench", repo: "/bench", base: "0".repeat(40), tasks: TASKS });
  await store.change(PERSON, (draft) => submit(draft, { spec }, "person", planHash(spec)));
  const lowdb = await peerDatabase(ctx.dir, [...store.view.tasks("bench")]);
  const raw = openSync(join(ctx.dir, "raw"), "a");
  const line = `${JSON.stringify({ seq: 1, kind: "event", text: "x".repeat(300) })}\n`;

  const m = await interleave(ctx.quick ? 2 : 7, {
    ours: async (round) => {
      const times: number[] = [];
      for (let n = 0; n < CHANGES; n++) times.push(await timed(() => toggle(store, round * CHANGES + n)));
      return median(times);
    },
    group: async (round) => {
      const took = await timed(() =>
        Promise.all(Array.from({ length: CALLERS }, (_, n) => toggle(store, round * CALLERS + n))),
      );
      return (CALLERS * 1_000) / took;
    },
    raw: () => {
      const times: number[] = [];
      for (let n = 0; n < CHANGES; n++) {
        const started = performance.now();
        writeSync(raw, line);
        fdatasyncSync(raw);
        times.push(performance.now() - started);
      }
      return median(times);
    },
    lowdb: async () => median([await timed(() => lowdb.write()), await timed(() => lowdb.write())]),
  });
  const replayed = store.eventsSinceCheckpoint;
  await store.close();
  const start = await timed(async () => await (await open()).close());
  const floor = { name: "append + fdatasync", value: m.raw };
  const peer = { name: "lowdb write, not durable", value: m.lowdb };
  return [
    { measure: "one change, durable (p50)", unit: "ms", ours: m.ours, floor, peer, target: 1 },
    { measure: `changes of ${CALLERS} callers at once, durable`, unit: "/s", ours: m.group },
    {
      measure: `start with ${TASKS} tasks`,
      unit: "ms",
      ours: start,
      target: 200,
      note: `opened and closed again; ${replayed} events had been written since the checkpoint before the close. The target is the one for 20,000 tasks`,
    },
  ];
}

/** Cancels the task, or takes the cancelled one back: one or two events. */
function toggle(store: Store, n: number): Promise<unknown> {
  const id = `task_${n % TASKS}`;
  return store.change(PERSON, (draft): unknown =>
    draft.task("bench", id)?.state.name === "cancelled"
      ? retryTask(draft, { run: "bench", task: id }, "person")
      : cancelTask(draft, "bench", id, "person"),
  );
}

async function peerDatabase(dir: string, tasks: unknown[]): Promise<Low<{ tasks: unknown[] }>> {
  const database = new Low(new JSONFile<{ tasks: unknown[] }>(join(dir, "lowdb.json")), { tasks });
  await database.write();
  return database;
}
