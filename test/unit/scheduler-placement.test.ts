import assert from "node:assert/strict";
import { test } from "node:test";
import { clash, laneOf } from "../../scheduler/lanes.ts";
import { place, type RunView, slotsOfHost } from "../../scheduler/placement.ts";
import type { Task } from "../../schemas/task.ts";
import { passed, ready, running, specOf, taskOf } from "../helpers/tasks.ts";

function view(
  readyTasks: Task[],
  more: Partial<RunView> & { underway?: Task[]; serial?: string[] } = {},
): RunView {
  const { serial = [], ...rest } = more;
  return {
    run: "r",
    paused: false,
    schedule: "eager",
    workers: 100,
    ready: readyTasks,
    underway: [],
    returning: [],
    openWave: 0,
    orderOf: (id) => Number(/\d+$/.exec(id)?.[0] ?? 0),
    laneOf: (task) => laneOf(task.spec, task.granted, serial),
    holdsSlot: (task) => task.state.name === "running",
    ...rest,
  };
}
const t = (id: string, files: string[], more: Partial<Task["spec"]> = {}, state = ready()) =>
  taskOf(specOf(id, { allowed_files: files, ...more }), state);
const ids = (view_: RunView, slots = 100) => place([view_], slots).map((p) => p.task.spec.id);

test("S3: order is priority, wave, time of becoming ready, place in the plan", () => {
  const tasks = [
    t("d4", ["d"]),
    t("c3", ["c"]),
    taskOf(specOf("w2", { allowed_files: ["w"] }), ready(), { wave: 1 }),
    t("first9", ["f"], { priority: 1 }),
    t("early8", ["e"], {}, ready("2026-01-01T00:00:00.000Z")),
  ];
  assert.deepEqual(ids(view(tasks)), ["first9", "early8", "c3", "d4", "w2"]);
});

test("S3: no more than the free slots of host and run; running attempts hold one, passed tasks do not", () => {
  const tasks = [t("a1", ["a"]), t("b2", ["b"]), t("c3", ["c"])];
  const underway = [t("x", ["x"], {}, running()), t("y", ["y"], {}, passed())];
  assert.deepEqual(ids(view(tasks, { underway }), 3), ["a1", "b2"]);
  assert.deepEqual(ids(view(tasks, { underway, workers: 2 })), ["a1"]);
  assert.deepEqual(ids(view(tasks, { underway }), 1), []);
});

test("issue 5.1: a held attempt holds no slot, keeps its lane, and gets a slot again before anybody new", () => {
  const held = [t("h1", ["h"], {}, running()), t("h2", ["i"], {}, running())];
  const fresh = [t("a1", ["a"], { priority: 1 }), t("b2", ["h"])];
  const isHeld = { underway: held, holdsSlot: () => false };
  assert.deepEqual(ids(view(fresh, isHeld), 1), ["a1"]);
  assert.deepEqual(ids(view(fresh, { ...isHeld, returning: held }), 2), ["h1", "h2"]);
  assert.deepEqual(ids(view(fresh, { ...isHeld, returning: held, workers: 1 })), ["h1"]);
  assert.deepEqual(ids(view(fresh, { ...isHeld, returning: held })), ["h1", "h2", "a1"]);
  assert.deepEqual(ids(view(fresh, { ...isHeld, returning: held, paused: true })), []);
});

test("a paused run gets nothing", () => {
  assert.deepEqual(ids(view([t("a1", ["a"])], { paused: true })), []);
});

test("S4: in waves, a later wave waits for the open one", () => {
  const late = taskOf(specOf("late1", { allowed_files: ["l"] }), ready(), { wave: 1 });
  assert.deepEqual(ids(view([late], { schedule: "waves", openWave: 0 })), []);
  assert.deepEqual(ids(view([late], { schedule: "waves", openWave: 1 })), ["late1"]);
  assert.deepEqual(ids(view([late], { schedule: "eager", openWave: 0 })), ["late1"]);
});

test("S4: tasks that may touch the same file go one after the other, from claim to landing", () => {
  const tasks = [t("a1", ["src/x/**"]), t("b2", ["src/x/deep/file.ts"]), t("c3", ["src/y/**"])];
  assert.deepEqual(ids(view(tasks)), ["a1", "c3"]);
  const underway = [t("p", ["src/y"], {}, passed())];
  assert.deepEqual(ids(view(tasks, { underway })), ["a1"], "passed and not merged still holds its lane");
});

test("S4: tree-wide patterns do not serialise by themselves", () => {
  assert.deepEqual(ids(view([t("a1", ["**"]), t("b2", ["**"]), t("c3", ["**/*.ts"]), t("d4", ["src/**"])])), [
    "a1",
    "b2",
    "c3",
    "d4",
  ]);
});

test("S4, case 49 lockfile-two-tasks: public files have one lane, literally or by a pattern", () => {
  const lane = (files: string[], serial: string[] = []) =>
    laneOf(specOf("x", { allowed_files: files }), [], serial);
  assert.equal(lane(["package.json", "src-*.ts"]).serial, true);
  assert.equal(lane(["packages/a/package.json"]).serial, true);
  assert.equal(lane(["*.json"]).serial, true);
  assert.equal(lane(["packages/a/**"]).serial, false);
  assert.equal(lane(["**"]).serial, false);
  assert.equal(lane(["db/schema.sql"], ["db/**"]).serial, true);
  assert.equal(clash(lane(["package.json"]), lane(["go.mod"])), "serial");
  assert.equal(clash(lane(["package.json"]), lane(["src/a.ts"])), undefined);
});

test("G8: a task that changes contracts takes the serial lane; granted files count", () => {
  assert.equal(laneOf(specOf("x", { allowed_files: ["a"], changes_contracts: true }), [], []).serial, true);
  assert.equal(laneOf(specOf("x", { allowed_files: ["a"] }), ["Cargo.lock"], []).serial, true);
});

test("slots: as configured, else by cores; fewer while memory is short, never below one", () => {
  const facts = {
    configured: undefined,
    cores: 4,
    perCore: 4,
    max: 200,
    freeMemory: undefined,
    meanAttempt: undefined,
  };
  assert.equal(slotsOfHost({ ...facts, running: 0 }), 16);
  assert.equal(slotsOfHost({ ...facts, configured: 300, running: 0 }), 200);
  assert.equal(slotsOfHost({ ...facts, freeMemory: 250, meanAttempt: 100, running: 3 }), 5);
  assert.equal(slotsOfHost({ ...facts, freeMemory: 0, meanAttempt: 100, running: 0 }), 1);
});
