import assert from "node:assert/strict";
import { test } from "node:test";
import { runsForScheduler } from "../../bus/methods/live-runs.ts";
import type { TaskState } from "../../schemas/task.ts";
import { FakeStore } from "../helpers/fake-store.ts";

const at = "2026-01-01T00:00:00.000Z";
const merged: TaskState = {
  name: "passed",
  attempt: 1,
  since: at,
  snapshot: { version: 1, commit: "c", tree: "t", changed_count: 1 },
  base: "b",
  merged: { commit: "c", at },
};
const cancelled: TaskState = { name: "cancelled", since: at, by: "me" };

function storeWith(runs: [run: string, states: TaskState[]][]): FakeStore {
  const store = new FakeStore();
  for (const [run, states] of runs) {
    store.putRun(run, "b");
    for (const [i, state] of states.entries()) store.putTask(run, `t${i}`, { state });
  }
  return store;
}

const many = (n: number, state: TaskState) => Array.from({ length: n }, () => state);

test("a scheduler is told of every run where something may happen, and of the newest that are through", () => {
  const store = storeWith([
    ["old", many(900, merged)],
    ["waits", [...many(900, merged), { ...merged, merged: null }]],
    ["asks", [cancelled, { name: "failed", attempt: 1, since: at } as TaskState]],
    ["newer", many(900, cancelled)],
    ["live", [{ name: "pending", waits_for: [] }]],
    ["newest", many(500, merged)],
  ]);
  const { runs, tasks } = runsForScheduler(store.view);
  assert.deepEqual(
    runs.map((run) => run.run),
    ["waits", "asks", "newer", "live", "newest"],
  );
  assert.equal(tasks.length, 901 + 2 + 900 + 1 + 500);
});

test("a run whose result is not in the person's branch yet is never left out", () => {
  const store = storeWith([
    ["brought", many(10, merged)],
    ["big", many(1_501, merged)],
  ]);
  const run = store.view.run("brought")!;
  Object.assign(run.spec, { into: "main" });
  assert.deepEqual(
    runsForScheduler(store.view).runs.map((each) => each.run),
    ["brought"],
  );
  Object.assign(run, { into: { branch: "main", head: run.head, moved: true, why: "", at } });
  assert.deepEqual(runsForScheduler(store.view).runs, []);
});
