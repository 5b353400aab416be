import assert from "node:assert/strict";
import { test } from "node:test";
import { Mirror } from "../../scheduler/mirror.ts";
import type { JournalRecord, TaskEvent } from "../../schemas/events.ts";
import { AT, OID, ready, runOf, runSpecOf, specOf, taskOf } from "../helpers/tasks.ts";

function mirrorOf(...ids: string[]) {
  const mirror = new Mirror();
  const spec = runSpecOf(
    "r",
    ids.map((id) => specOf(id)),
  );
  mirror.load(
    [runOf(spec)],
    spec.tasks.map((s) => taskOf(s, ready())),
  );
  const follow = (task: string, state_version: number, event: TaskEvent) =>
    mirror.follow({
      v: 1,
      seq: state_version,
      ts: AT,
      kind: "event",
      actor: "bus",
      run: "r",
      task,
      event,
      state_version,
    } as JournalRecord);
  return { mirror, follow };
}
const claimed: TaskEvent = {
  type: "task.claimed",
  attempt: 1,
  worker: "w",
  base: OID("a"),
  workspace: "/w",
  lease_until: AT,
};
const snapshot = { version: 1, commit: OID("b"), tree: OID("c"), changed_count: 1 };

test("events move tasks through the sets that a tick looks at", () => {
  const { mirror, follow } = mirrorOf("constructor_", "b");
  const at = mirror.runs.get("r");
  assert.deepEqual([...(at?.ready ?? [])], ["constructor_", "b"]);
  follow("b", 2, claimed);
  assert.deepEqual([[...(at?.ready ?? [])], [...(at?.underway ?? [])]], [["constructor_"], ["b"]]);
  assert.equal(mirror.running("r", "b", 1)?.base, OID("a"));
  assert.equal(mirror.running("r", "b", 2), undefined);
  follow("b", 3, { type: "task.passed", attempt: 1, snapshot, base: OID("a") });
  assert.deepEqual([...(at?.underway ?? [])], ["b"]);
  follow("b", 4, { type: "task.landed", attempt: 1, commit: OID("d"), tree: OID("c") });
  assert.deepEqual([...(at?.underway ?? [])], []);
  assert.equal(mirror.isMerged("r", "b"), true);
  assert.equal(mirror.runs.get("r")?.run.head, OID("d"));
});

test("B6: a late or repeated event changes nothing; a gap marks the run to be read again", () => {
  const { mirror, follow } = mirrorOf("a");
  follow("a", 2, claimed);
  follow("a", 2, { type: "task.cancelled", by: "person" });
  follow("a", 1, { type: "task.cancelled", by: "person" });
  assert.equal(mirror.task("r", "a")?.state.name, "running");
  assert.equal(mirror.stale.size, 0);
  follow("a", 5, { type: "task.cancelled", by: "person" });
  assert.equal(mirror.task("r", "a")?.state.name, "running");
  assert.deepEqual([...mirror.stale], ["r"]);
});

test("unknown runs and tasks, and plans that grew, are read again", () => {
  const { mirror, follow } = mirrorOf("a");
  follow("new", 1, { type: "task.ready" });
  assert.deepEqual([...mirror.stale], ["r"]);
  const event = { type: "run.submitted" } as JournalRecord["event"];
  mirror.follow({ v: 1, seq: 9, ts: AT, kind: "event", actor: "p", run: "other", event } as JournalRecord);
  assert.deepEqual([...mirror.stale], ["r", "other"]);
});

test("a review that ends well puts the snapshot on the train; grants count for the lane at once", () => {
  const { mirror, follow } = mirrorOf("a");
  follow("a", 2, claimed);
  follow("a", 3, { type: "task.passed", attempt: 1, snapshot, base: OID("a") });
  follow("a", 4, { type: "task.blocked", needs: { kind: "review", snapshot } });
  assert.equal(mirror.runs.get("r")?.underway.size, 0);
  follow("a", 5, { type: "task.approved", by: "person" });
  const task = mirror.task("r", "a");
  assert.ok(
    task?.state.name === "passed" && task.state.snapshot?.commit === OID("b") && task.state.base === OID("a"),
  );
  follow("a", 6, { type: "task.files_granted", by: "person", paths: ["package.json"] });
  const after = mirror.task("r", "a");
  assert.equal(after && mirror.laneOf(after).serial, true);
});
