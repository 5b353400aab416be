import assert from "node:assert/strict";
import { test } from "node:test";
import { reconcile, trainOrder } from "../../scheduler/train.ts";
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
const onItsWay = (task: string) => task === "t1" || task === "t2";

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
