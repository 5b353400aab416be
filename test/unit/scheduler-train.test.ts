import assert from "node:assert/strict";
import { test } from "node:test";
import { reconcile, type Standing, standingOf, trainOrder } from "../../scheduler/train.ts";
import type { AttemptRecord, Task } from "../../schemas/task.ts";
import { OID, passed, running, specOf, taskOf } from "../helpers/tasks.ts";

test("G6: the train goes by priority, arrival, place; what is merged, running or waits for a dependency is not in it", () => {
  const tasks = [
    taskOf(specOf("late"), passed("2026-01-02T00:00:02.000Z")),
    taskOf(specOf("early"), passed("2026-01-02T00:00:01.000Z")),
    taskOf(specOf("urgent", { priority: 1 }), passed("2026-01-02T00:00:03.000Z")),
    taskOf(specOf("there"), passed("2026-01-01T00:00:00.000Z", true)),
    taskOf(specOf("works"), running()),
    taskOf(specOf("waits", { priority: 0, depends_on: ["open"] }), passed()),
    taskOf(specOf("constructor_", { priority: 5, depends_on: ["there"] }), passed()),
  ];
  const order = trainOrder(
    tasks,
    () => 0,
    (id) => id === "there",
  );
  assert.deepEqual(
    order.map((task) => task.spec.id),
    ["urgent", "constructor_", "early", "late"],
  );
});

const [A, B, C] = [OID("a"), OID("b"), OID("c")];
const step = (commit: string, parent: string, task?: string) => ({
  commit,
  tree: OID("e"),
  parent,
  ...(task === undefined ? {} : { task, attempt: 1 }),
});
const onItsWay = (task: string): Standing =>
  task === "t1" || task === "t2" ? "on_its_way" : task === "lost" ? "forgotten" : "over";

test("case 71 restart-mid-run: a branch ahead by our own commits is reported, in order", () => {
  assert.deepEqual(reconcile(A, A, [], onItsWay), { kind: "same" });
  const answer = reconcile(A, C, [step(B, A, "t1"), step(C, B, "t2")], onItsWay);
  assert.deepEqual(answer, {
    kind: "report",
    landings: [
      { task: "t1", attempt: 1, old: A, commit: B, tree: OID("e") },
      { task: "t2", attempt: 1, old: B, commit: C, tree: OID("e") },
    ],
  });
});

test("a branch that somebody else moved, rewound or removed stops the run's train", () => {
  assert.equal(reconcile(A, null, undefined, onItsWay).kind, "foreign");
  assert.equal(reconcile(B, A, undefined, onItsWay).kind, "foreign");
  assert.equal(reconcile(A, B, [step(B, A)], onItsWay).kind, "foreign");
  assert.equal(reconcile(A, B, [step(B, A, "other")], onItsWay).kind, "foreign");
  assert.equal(
    reconcile(A, C, [step(C, B, "t1")], onItsWay).kind,
    "foreign",
    "a gap between head and commit",
  );
});

test("the train's own candidate on the branch, whose task is off its way, goes back; nothing else does", () => {
  const kind = (ahead: ReturnType<typeof step>[], candidate: string) =>
    reconcile(A, ahead.at(-1)?.commit ?? A, ahead, onItsWay, candidate).kind;
  assert.equal(kind([step(B, A, "other")], B), "undo");
  assert.equal(kind([step(B, A, "other")], C), "foreign", "not what the train built last");
  assert.equal(kind([step(B, A, "t1"), step(C, B, "other")], C), "foreign", "more than the train does");
  assert.equal(kind([step(B, A)], B), "foreign", "no trailers of ours");
});

test("issue 3: a landing that the state has forgotten is named, after those before it; what stands on it waits", () => {
  const named = (ahead: ReturnType<typeof step>[]) => {
    const answer = reconcile(A, ahead.at(-1)?.commit ?? A, ahead, onItsWay, C);
    return answer.kind === "report" ? [answer.landings.map((l) => l.task), answer.forgotten?.task] : answer;
  };
  assert.deepEqual(named([step(B, A, "lost")]), [[], "lost"]);
  assert.deepEqual(named([step(B, A, "t1"), step(C, B, "lost")]), [["t1"], "lost"]);
  assert.deepEqual(named([step(B, A, "lost"), step(C, B, "t1")]), [[], "lost"]);
  const foreign = [step(B, A, "lost"), step(C, B)];
  assert.equal(reconcile(A, C, foreign, onItsWay, C).kind, "foreign", "a commit that is not ours on top");
  const held = reconcile(A, B, [step(B, A, "x")], () => "held", B);
  assert.ok(held.kind === "foreign" && /busctl retry x/.test(held.why), "never undone");
});

test("issue 3: what the state says of an attempt that the branch names as landed", () => {
  const task = (state: Task["state"], results: (AttemptRecord["result"] | undefined)[] = []) => ({
    ...taskOf(specOf("a"), state),
    attempts: results.map((result, n): AttemptRecord => {
      const facts = { worker: "w", base: A, workspace: "/w", started: "", snapshots: [], verdicts: [] };
      return { attempt: n + 1, ...facts, ...(result && { result }) };
    }),
  });
  const ready: Task["state"] = { name: "ready", since: "" };
  const blocked: Task["state"] = { name: "cancelled", since: "", by: "me" };
  assert.equal(standingOf(undefined, 1), "none");
  assert.equal(standingOf(task(passed("", true), ["passed"]), 1), "none");
  assert.equal(standingOf(task(passed(), ["passed"]), 1), "on_its_way");
  assert.equal(standingOf(task(passed(), ["passed"]), 2), "forgotten");
  assert.equal(standingOf(task(ready), 1), "forgotten");
  assert.equal(standingOf(task(ready, ["check", "lost"]), 2), "forgotten");
  assert.equal(standingOf(task(ready, ["check"]), 1), "over");
  assert.equal(standingOf(task(ready, ["cancelled"]), 1), "over");
  assert.equal(standingOf(task(blocked, ["cancelled"]), 1), "over");
  assert.equal(standingOf(task(blocked, ["cancelled"]), 2), "held");
  assert.equal(standingOf(task(running(), [undefined]), 1), "forgotten");
});
