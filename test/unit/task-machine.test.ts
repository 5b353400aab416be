// B5: the whole table of state x event, legal and illegal cells. The table here is written by hand, not derived.

import assert from "node:assert/strict";
import { test } from "node:test";
import { applyTask } from "../../bus/state/task-machine.ts";
import { isCode } from "../../schemas/errors.ts";
import type { TaskEvent } from "../../schemas/events.ts";
import type { Evidence, Need, SnapshotInfo, Task, TaskState } from "../../schemas/task.ts";
import { BASE, oid, taskSpec } from "../helpers/state.ts";

const AT = "2030-01-01T00:00:00.000Z";
const EVIDENCE: Evidence = { summary: "s", log: "", paths: [], landed_since: [] };
const SHOT: SnapshotInfo = { version: 1, commit: oid(1), tree: oid(2), changed_count: 1 };
const VERDICT = {
  check: "c",
  tier: "shallow",
  tree: oid(2),
  verdict: "pass",
  exit: 0,
  duration_ms: 1,
  command: "c",
  summary: "",
} as const;
const OUTCOME = { kind: "agent", name: "agent", reason: "exit", exit: 0, started: AT } as never;
const blocked = (needs: Extract<TaskState, { name: "blocked" }>["needs"]): TaskState => ({
  name: "blocked",
  since: AT,
  needs,
});
const UPSTREAM = { kind: "upstream", root: "x", state: "blocked", cause: "c" } as const;
const USED = { kind: "retries_used", cause: "check", evidence: EVIDENCE } as const;
const FILES: Need = { kind: "files", paths: ["p"], reason: "" };
const REVIEW = { kind: "review", snapshot: SHOT } as const;

/** Every state, in the kinds that the machine tells apart. */
const STATES: Record<string, TaskState> = {
  pending: { name: "pending", waits_for: [] },
  waiting: { name: "pending", waits_for: ["x"] },
  ready: { name: "ready", since: AT },
  running: {
    name: "running",
    attempt: 1,
    worker: "w",
    phase: "agent",
    since: AT,
    lease_until: AT,
    workspace: "/w",
    base: BASE,
  },
  passed: { name: "passed", attempt: 1, since: AT, snapshot: SHOT, base: BASE, merged: null },
  merged: {
    name: "passed",
    attempt: 1,
    since: AT,
    snapshot: SHOT,
    base: BASE,
    merged: { commit: oid(3), at: AT },
  },
  failed: { name: "failed", attempt: 1, since: AT, cause: "check", evidence: EVIDENCE },
  retrying: { name: "retrying", attempts: 1, not_before: AT, cause: "check", evidence: EVIDENCE },
  upstream: blocked(UPSTREAM),
  used: blocked(USED),
  files: blocked(FILES),
  review: blocked(REVIEW),
  cancelled: { name: "cancelled", since: AT, by: "p" },
};
const ALL = Object.keys(STATES).join(" ");

/** Event, the states it is legal in, and the state it leads to ("=": the same state). */
const TABLE: [TaskEvent, string, string][] = [
  [{ type: "task.ready" }, "pending retrying", "ready"],
  [
    { type: "task.claimed", attempt: 2, worker: "w", base: BASE, workspace: "/w", lease_until: AT },
    "ready",
    "running",
  ],
  [{ type: "task.phase", attempt: 1, phase: "prove" }, "running", "="],
  [{ type: "task.lease", attempt: 1, lease_until: AT }, "running", "="],
  [{ type: "task.progress", attempt: 1, status: "s", message: "" }, "running", "="],
  [{ type: "task.files_requested", attempt: 1, paths: ["p"], reason: "" }, "running", "="],
  [{ type: "task.publish_requested", attempt: 1 }, "running", "="],
  [{ type: "task.snapshot", attempt: 1, snapshot: SHOT, base: BASE, changed: [] }, "running", "="],
  [{ type: "task.verdict", attempt: 1, verdict: VERDICT }, "running passed merged", "="],
  [{ type: "task.inputs_changed", attempt: 1, paths: ["p"] }, "running passed merged", "="],
  [{ type: "task.passed", attempt: 1, snapshot: SHOT, base: BASE }, "running", "passed"],
  [{ type: "task.landed", attempt: 1, commit: oid(3), tree: oid(4) }, "passed", "passed"],
  [{ type: "task.failed", attempt: 1, cause: "check", evidence: EVIDENCE }, "running passed", "failed"],
  [{ type: "task.retrying", not_before: AT, cause: "check", evidence: EVIDENCE }, "failed", "retrying"],
  [{ type: "task.blocked", needs: UPSTREAM }, "pending waiting upstream", "blocked"],
  [{ type: "task.blocked", needs: USED }, "failed", "blocked"],
  [{ type: "task.blocked", needs: FILES }, "running", "blocked"],
  [{ type: "task.blocked", needs: REVIEW }, "passed", "blocked"],
  [{ type: "task.unblocked", waits_for: ["x"] }, "upstream files", "pending"],
  [{ type: "task.retry_asked", by: "p", waits_for: [] }, "failed used files review cancelled", "pending"],
  [
    { type: "task.files_granted", by: "p", paths: ["p"] },
    "pending waiting ready running failed retrying upstream used review",
    "=",
  ],
  [{ type: "task.approved", by: "p" }, "review", "passed"],
  [{ type: "task.rejected", by: "p", reason: "r" }, "review", "failed"],
  [{ type: "task.cancelled", by: "p" }, ALL.replace("merged ", "").replace(" cancelled", ""), "cancelled"],
  [
    { type: "proc.registered", attempt: 1, kind: "agent", name: "agent", pid: 1, start_time: "1" },
    "running passed merged",
    "=",
  ],
  [{ type: "proc.completed", attempt: 1, outcome: OUTCOME }, ALL, "="],
];

function taskIn(state: TaskState): Task {
  const first = {
    attempt: 1,
    worker: "w",
    base: BASE,
    workspace: "/w",
    started: AT,
    snapshots: [],
    verdicts: [],
  };
  return {
    run: "r",
    spec: taskSpec("a"),
    wave: 0,
    state,
    state_version: 7,
    attempts: [first],
    counts: {},
    granted: [],
  };
}

for (const [event, legal, to] of TABLE) {
  const kind = "needs" in event ? `${event.type} (${event.needs.kind})` : event.type;
  test(`B5: ${kind} is legal in: ${legal}`, () => {
    for (const [name, state] of Object.entries(STATES)) {
      const before = taskIn(state);
      const frozen = structuredClone(before);
      if (kind === "task.files_granted" && name === "files") continue; // below: it moves there
      if (legal.split(" ").includes(name)) {
        const after = applyTask(before, event, AT);
        assert.equal(after.state_version, 8, name);
        assert.equal(after.state.name, to === "=" ? state.name : to, name);
      } else {
        assert.throws(
          () => applyTask(before, event, AT),
          (e) => isCode(e, "ILLEGAL_MOVE"),
          name,
        );
      }
      assert.deepEqual(before, frozen, "the old task is never changed");
    }
  });
}

test("B5: granted files bring a task that asked for them back; other attempts' numbers are fenced in every state", () => {
  const back = applyTask(taskIn(STATES.files!), { type: "task.files_granted", by: "p", paths: ["p"] }, AT);
  assert.deepEqual([back.state, back.granted], [{ name: "pending", waits_for: [] }, ["p"]]);
  for (const [event] of TABLE) {
    if (!("attempt" in event)) continue;
    for (const attempt of [event.attempt - 1, event.attempt + 1]) {
      for (const state of Object.values(STATES)) {
        assert.throws(
          () => applyTask(taskIn(state), { ...event, attempt }, AT),
          (e) => isCode(e, "FENCED"),
        );
      }
    }
  }
});

test("B5: each state carries only the facts true in it, the attempt keeps its history", () => {
  const events: TaskEvent[] = [
    { type: "task.snapshot", attempt: 1, snapshot: SHOT, base: BASE, changed: [] },
    { type: "task.verdict", attempt: 1, verdict: VERDICT },
    { type: "task.failed", attempt: 1, cause: "check", evidence: EVIDENCE },
    { type: "task.retrying", not_before: AT, cause: "check", evidence: EVIDENCE },
  ];
  const end = events.reduce((task, event) => applyTask(task, event, AT), taskIn(STATES.running!));
  assert.deepEqual(end.state, {
    name: "retrying",
    attempts: 1,
    not_before: AT,
    cause: "check",
    evidence: EVIDENCE,
  });
  assert.deepEqual(end.counts, { check: 1 });
  const { result, ended, snapshots, verdicts } = end.attempts[0]!;
  assert.deepEqual(
    { result, ended, snapshots, verdicts },
    {
      result: "check",
      ended: AT,
      snapshots: [SHOT],
      verdicts: [VERDICT],
    },
  );
});
