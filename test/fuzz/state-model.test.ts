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
import { replay } from "../../bus/state/recovery.ts";
import type { Store } from "../../bus/state/store.ts";
import { BusbarError } from "../../schemas/errors.ts";
import type { JournalRecord } from "../../schemas/events.ts";
import { act, graph, okErrors, schedule, start, stepsUpTo } from "../helpers/histories.ts";
import { quickDisk } from "../helpers/quick-disk.ts";
import { dump, FakeClock, openStore, T0 } from "../helpers/state.ts";

/** What must hold of every run at rest. */
function checkInvariants(view: IndexedView): void {
  const waves = view.run("r")!.spec.schedule === "waves";
  const landed = view.run("r")!.landed.map((l) => l.task);
  assert.equal(new Set(landed).size, landed.length, "no task lands twice");
  const held = [...view.tasks("r")].filter((t) => t.state.name === "blocked" || t.state.name === "cancelled");
  const lowestHeld = Math.min(...held.map((t) => t.wave));
  for (const task of view.tasks("r")) {
    const s = task.state;
    if (waves && s.name === "pending")
      assert.ok(task.wave <= lowestHeld, "a held wave holds the higher ones");
    const name = `${task.spec.id} is ${s.name}`;
    assert.notEqual(s.name, "failed", "failed stands for a moment only");
    if (s.name === "ready" || s.name === "running" || s.name === "passed" || s.name === "retrying") {
      assert.deepEqual(openDeps(view, task), [], `${name}: all it depends on is merged`);
    }
    const deps = task.spec.depends_on.map((dep) => view.task("r", dep)!.state);
    if (s.name === "pending") {
      assert.deepEqual([...s.waits_for].sort(), openDeps(view, task).sort(), name);
      const lower = [...view.tasks("r")].some((t) => t.wave < task.wave && !isDone(t));
      assert.ok(s.waits_for.length > 0 || (waves && lower), `${name}: it waits for something`);
      assert.ok(
        !deps.some((dep) => dep.name === "blocked" || dep.name === "cancelled"),
        `${name} behind a block`,
      );
    }
    if (s.name === "blocked" && s.needs.kind === "upstream") {
      const root = view.task("r", s.needs.root)!.state;
      assert.equal(root.name, s.needs.state, `${name} by ${s.needs.root}`);
      assert.ok(root.name !== "blocked" || root.needs.kind !== "upstream", "the root itself is named");
    }
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
