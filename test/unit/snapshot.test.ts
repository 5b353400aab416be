// Which snapshot answers and who may ask (B2, B8; design section 3).

import assert from "node:assert/strict";
import { test } from "node:test";
import { Snapshots } from "../../bus/snapshot.ts";
import { isCode } from "../../schemas/errors.ts";
import type { JournalRecord } from "../../schemas/events.ts";
import { FakeStore, running } from "../helpers/fake-store.ts";

const oid = (n: number) => String(n).padStart(40, "0");
const agent = (task: string, attempt = 1) =>
  ({ role: "agent", attempt: { run: "r", task, attempt } }) as const;
const person = { role: "person" } as const;

/** r: c depends on b depends on a; x stands alone; c runs its attempt 1. */
function chain(reads: "dependencies" | "run" = "dependencies") {
  const store = new FakeStore();
  store.putRun("r", oid(1), reads);
  store.putTask("r", "a");
  store.putTask("r", "b", { depends_on: ["a"] });
  store.putTask("r", "c", { depends_on: ["b"], state: running(1, oid(2)), base: oid(2) });
  store.putTask("r", "x");
  const publish = (task: string, attempt: number, version: number) =>
    store.putSnapshot("r", task, {
      attempt,
      version,
      commit: oid(version * 100),
      tree: oid(7),
      base: oid(2),
      changed: [],
    });
  return { store, publish, snapshots: new Snapshots(() => store.view) };
}

test("B2: an agent reads itself and what it depends on, however far; nothing else", () => {
  const { snapshots } = chain();
  for (const task of ["c", "b", "a", undefined])
    assert.equal(snapshots.resolve(agent("c"), { task_id: task }).task, task ?? "c");
  const refused = (wanted: object) =>
    assert.throws(
      () => snapshots.resolve(agent("c"), wanted),
      (e) => isCode(e, "NOT_READABLE"),
    );
  refused({ task_id: "x" });
  refused({ task_id: "nothing" });
  refused({ run: "other", task_id: "a" });
});

test("B2: `reads: run` opens the run, and only it", () => {
  const { snapshots } = chain("run");
  assert.equal(snapshots.resolve(agent("c"), { task_id: "x" }).task, "x");
  assert.throws(
    () => snapshots.resolve(agent("c"), { run: "other", task_id: "x" }),
    (e) => isCode(e, "NOT_READABLE"),
  );
});

test("B6: an attempt that is over, or never was, reads nothing", () => {
  const { snapshots } = chain();
  for (const call of [agent("c", 2), agent("a", 1)])
    assert.throws(
      () => snapshots.resolve(call, {}),
      (e) => isCode(e, "FENCED"),
    );
});

test("B2: the first answer pins the version for the attempt, `fresh` pins anew, `version` pins nothing", () => {
  const { snapshots, publish } = chain();
  const version = (wanted: object = {}) => snapshots.resolve(agent("c"), { task_id: "b", ...wanted }).version;
  publish("b", 1, 1);
  publish("b", 1, 2);
  assert.equal(version({ version: 1 }), 1);
  assert.equal(version(), 2);
  publish("b", 1, 3);
  assert.equal(version(), 2);
  assert.equal(version({ version: 3 }), 3);
  assert.equal(version(), 2);
  assert.equal(version({ fresh: true }), 3);
  publish("b", 1, 4);
  assert.equal(version(), 3);
  assert.equal(snapshots.resolve(person, { run: "r", task_id: "b" }).version, 4);
});

test("B2: a new attempt of the reader has no pins of the old one", () => {
  const { store, snapshots, publish } = chain();
  publish("b", 1, 1);
  snapshots.resolve(agent("c"), { task_id: "b" });
  publish("b", 1, 2);
  store.putTask("r", "c", { depends_on: ["b"], state: running(2, oid(2)), base: oid(2) });
  assert.equal(snapshots.resolve(agent("c", 2), { task_id: "b" }).version, 2);
});

test("B2: without a snapshot the answer is version 0: the base of the attempt, or of the run", () => {
  const { snapshots } = chain();
  const own = snapshots.resolve(agent("c"), {});
  assert.deepEqual([own.version, own.commit, own.base], [0, oid(2), oid(2)]);
  const other = snapshots.resolve(person, { run: "r", task_id: "x" });
  assert.deepEqual([other.version, other.commit], [0, oid(1)]);
});

test("typed errors: no such run, task, version; a person must name both", () => {
  const { snapshots } = chain();
  const codes = [
    [{ run: "q", task_id: "a" }, "NO_SUCH_RUN"],
    [{ run: "r", task_id: "q" }, "NO_SUCH_TASK"],
    [{ run: "r", task_id: "a", version: 3 }, "NO_SUCH_SNAPSHOT"],
    [{ task_id: "a" }, "INVALID_PARAMS"],
    [{ run: "r" }, "INVALID_PARAMS"],
  ] as const;
  for (const [wanted, code] of codes)
    assert.throws(
      () => snapshots.resolve(person, wanted),
      (e) => isCode(e, code),
      code,
    );
});

test("B7: pins come back from the audit log after a restart", () => {
  const { store, publish } = chain();
  publish("b", 1, 1);
  publish("b", 1, 2);
  const again = new Snapshots(() => store.view);
  const read = (version: number, more: object = {}): JournalRecord => ({
    v: 1,
    seq: 1,
    ts: "2026-01-01T00:00:00.000Z",
    kind: "access",
    actor: "agent:r/c#1",
    method: "get_file",
    run: "r",
    task: "c",
    attempt: 1,
    access: { path: "f", version, params: { task_id: "b" } },
    ...more,
  });
  again.restore(read(2, { access: { version: 2, params: { task_id: "b", version: 2 } } })); // named: no pin
  again.restore(read(2, { attempt: 9 })); // another attempt
  again.restore(read(2, { actor: "person" }));
  again.restore(read(1));
  again.restore(read(2)); // older: it asked with `fresh` afterwards
  assert.equal(again.resolve(agent("c"), { task_id: "b" }).version, 1);
});
