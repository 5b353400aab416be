// B5, B6, B7: random histories. Whatever people, schedulers and shims say in whatever order, the invariants of the
// state hold after every step, and replaying the journal gives the same state.

import assert from "node:assert/strict";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { test } from "node:test";
import fc from "fast-check";
import { Base } from "../../bus/state/base.ts";
import { isDone, openDeps } from "../../bus/state/cascade.ts";
import { Draft } from "../../bus/state/draft.ts";
import type { IndexedView } from "../../bus/state/layer.ts";
import { replay } from "../../bus/state/replay.ts";
import type { Store } from "../../bus/state/store.ts";
import { BusbarError } from "../../schemas/errors.ts";
import type { JournalRecord } from "../../schemas/events.ts";
import type { Task } from "../../schemas/task.ts";
import { act, graph, okErrors, schedule, start, stepsUpTo } from "../helpers/histories.ts";
import { quickDisk } from "../helpers/quick-disk.ts";
import { dump, FakeClock, openStore, T0 } from "../helpers/state.ts";

type View = IndexedView;

/** All that `id` depends on, directly or through others. */
function above(view: View, id: string): Set<string> {
  const seen = new Set<string>();
  const rest = [id];
  for (let at = rest.pop(); at !== undefined; at = rest.pop())
    for (const dep of view.task("r", at)!.spec.depends_on)
      if (!seen.has(dep)) {
        seen.add(dep);
        rest.push(dep);
      }
  return seen;
}

/** Stands in the way of others by itself. */
const isRoot = ({ state: s }: Task) =>
  s.name === "cancelled" || (s.name === "blocked" && s.needs.kind !== "upstream");

/** The roots that hold a task, found without the code under test: above it, or in a lower wave. */
function rootsOf(view: View, task: Task): Set<string> {
  const waves = view.run("r")!.spec.schedule === "waves";
  const up = above(view, task.spec.id);
  const found = [...view.tasks("r")].filter(
    (t) => isRoot(t) && (up.has(t.spec.id) || (waves && t.wave < task.wave)),
  );
  return new Set(found.map((t) => t.spec.id));
}

/** Of a task that waits, for others or behind a root. */
function checkWaiting(view: View, task: Task): void {
  const s = task.state;
  const waves = view.run("r")!.spec.schedule === "waves";
  const name = `${task.spec.id} is ${s.name}`;
  const roots = rootsOf(view, task);
  if (s.name === "pending") {
    assert.deepEqual([...roots], [], `${name}: what waits may hope`);
    const open = openDeps(view, task).sort();
    assert.deepEqual([...s.waits_for].sort(), open, name);
    const lower = [...view.tasks("r")].some((t) => t.wave < task.wave && !isDone(t));
    assert.ok(open.length > 0 || (waves && lower), `${name}: it waits for something`);
  }
  if (s.name !== "blocked" || s.needs.kind !== "upstream") return;
  const { root, state, cause } = s.needs;
  assert.ok(roots.has(root), `${name} by ${root}, which is none of ${[...roots].join(", ")}`);
  const at = view.task("r", root)!.state;
  assert.equal(at.name, state, `${name} by ${root}`);
  assert.equal(cause, causeOf(at), `${name}: it is told why`);
}

/** Of the state as it stands, in the words that are told downstream. */
function causeOf(s: Task["state"]): string {
  if (s.name === "cancelled") return `cancelled by ${s.by}`;
  assert.ok(s.name === "blocked");
  switch (s.needs.kind) {
    case "retries_used":
      return `${s.needs.cause}: ${s.needs.evidence.summary}`;
    case "files":
      return `asks for ${s.needs.paths.join(", ")}`;
    default:
      return "waits for review";
  }
}

/** What must hold of every run at rest. */
function checkInvariants(view: View): void {
  const waves = view.run("r")!.spec.schedule === "waves";
  const run = view.run("r")!;
  const landed = run.landed.map((l) => l.task);
  assert.equal(new Set(landed).size, landed.length, "no task lands twice");
  for (const task of view.tasks("r")) {
    const s = task.state;
    const name = `${task.spec.id} is ${s.name}`;
    assert.notEqual(s.name, "failed", "failed stands for a moment only");
    checkWaiting(view, task);
    if (!["ready", "running", "passed", "retrying"].includes(s.name)) continue;
    assert.deepEqual(openDeps(view, task), [], `${name}: all it depends on is merged`);
    const lower = [...view.tasks("r")].filter((t) => t.wave < task.wave && !isDone(t));
    if (waves && s.name === "ready" && !addedLate(task))
      assert.ok(lower.every(addedLate), `${name}: its wave is open`);
  }
}

/** Tasks added to a run may open a wave again that was through. */
const addedLate = (task: Task) => task.spec.id.startsWith("new");

/** A root that is back brings back exactly what it held; what others hold is told the other root. */
function checkReturn(before: Map<string, Task>, view: View): void {
  for (const [id, old] of before) {
    const s = old.state;
    if (s.name !== "blocked" || s.needs.kind !== "upstream") continue;
    const now = view.task("r", id)!;
    const isHeld = now.state.name === "blocked" && now.state.needs.kind === "upstream";
    if (now.state.name === "cancelled") continue;
    assert.equal(isHeld, rootsOf(view, now).size > 0, `${id} was held by ${s.needs.root}`);
    // Whoever names a root that stands as it stood says nothing new.
    const root = view.task("r", s.needs.root)!;
    if (isHeld && isRoot(root) && root.state_version === before.get(s.needs.root)?.state_version)
      assert.equal(now.state_version, old.state_version, `${id}: nothing happened to its root`);
  }
}

test("B5, B6: the invariants hold after every step, a refused step changes nothing, replay gives the same", () => {
  fc.assert(
    fc.property(graph, schedule, stepsUpTo(120), (tasks, kind, list) => {
      const base = new Base();
      const records: JournalRecord[] = [];
      let now = T0;
      const commit = (fn: (d: Draft) => unknown) => {
        const d = new Draft(base, now);
        const before = new Map(base.run("r") ? [...base.tasks("r")].map((t) => [t.spec.id, t]) : []);
        try {
          fn(d);
        } catch (error) {
          assert.ok(error instanceof BusbarError && okErrors.has(error.code), String(error));
          return;
        }
        for (const [i, e] of d.events.entries()) {
          const version = d.versions[i];
          const before = e.task !== undefined ? base.task("r", e.task)?.state_version : undefined;
          if (version !== undefined && before !== undefined)
            assert.ok(version > before, "state_version grows");
          records.push({
            v: 1,
            seq: records.length + 1,
            ts: d.at,
            kind: "event",
            actor: "x",
            ...e,
            ...(version !== undefined && { state_version: version }),
          });
        }
        base.absorb(d);
        checkInvariants(base);
        checkReturn(before, base);
      };
      commit(start(tasks, kind));
      for (const step of list) {
        now += step.n * 10_000;
        commit((d) => act(d, step));
      }
      const again = new Base();
      for (const record of records) replay(again, JSON.parse(JSON.stringify(record)) as JournalRecord);
      assert.deepEqual(again.taskTable, base.taskTable);
      assert.deepEqual(again.runTable, base.runTable);
      assert.deepEqual(again.shotTable, base.shotTable);
      assert.deepEqual(again.indexTable, base.indexTable);
    }),
    { numRuns: 300 },
  );
});

test("B7: on disk: closed or cut off at any step, with or without its checkpoint, the state comes back the same", async () => {
  await fc.assert(
    fc.asyncProperty(
      graph,
      schedule,
      stepsUpTo(120),
      fc.nat(60),
      fc.boolean(),
      async (tasks, kind, list, at, keep) => {
        const dir = mkdtempSync(join(tmpdir(), "bb-model-"));
        const clock = new FakeClock();
        const left: Store[] = [];
        try {
          let store = await openStore(dir, { clock, disk: quickDisk, segmentBytes: 20_000 });
          await store.change({ actor: "me" }, start(tasks, kind));
          for (const [i, step] of list.entries()) {
            clock.ms += step.n * 10_000;
            await store
              .change({ actor: "me" }, (d) => act(d, step))
              .catch((error: unknown) => {
                assert.ok(error instanceof BusbarError && okErrors.has(error.code), String(error));
              });
            if (i % 17 === 5) await store.checkpoint();
            if (i !== at) continue;
            const before = dump(store);
            left.push(store); // as a kill leaves it: no last checkpoint, nothing closed
            if (!keep) rmSync(join(dir, "checkpoint"), { recursive: true, force: true });
            store = await openStore(dir, { clock, disk: quickDisk, segmentBytes: 20_000 });
            assert.deepEqual(dump(store), before);
          }
          const before = dump(store);
          await store.close();
          const again = await openStore(dir, { disk: quickDisk });
          assert.deepEqual(dump(again), before);
          assert.equal((await again.verify()).ok, true);
          await again.close();
        } finally {
          for (const store of left) await store.close(); // for its descriptors
          rmSync(dir, { recursive: true, force: true });
        }
      },
    ),
    { numRuns: 25 },
  );
});
