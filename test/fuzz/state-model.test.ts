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
import { claim, heartbeat, publishSnapshot, requestFiles } from "../../bus/state/decide-attempt.ts";
import { approve, cancelTask, grantFiles, reject, retryTask } from "../../bus/state/decide-person.ts";
import { cancelRun, pause, planHash, resume, submit } from "../../bus/state/decide-run.ts";
import { expireLease, land, retryDue, settle } from "../../bus/state/decide-settle.ts";
import { Draft } from "../../bus/state/draft.ts";
import type { IndexedView } from "../../bus/state/layer.ts";
import { replay } from "../../bus/state/recovery.ts";
import type { Store } from "../../bus/state/store.ts";
import { BusbarError } from "../../schemas/errors.ts";
import type { JournalRecord } from "../../schemas/events.ts";
import { CAUSES, type Cause, type TaskSpec } from "../../schemas/task.ts";
import { quickDisk } from "../helpers/quick-disk.ts";
import { dump, FakeClock, HALF, oid, openStore, runSpec, T0, taskSpec } from "../helpers/state.ts";

/** A step: what, on which task (by number), with which small number. */
interface Step {
  what: (typeof WHATS)[number];
  task: number;
  n: number;
}
const WHATS = [
  "claim",
  "claim",
  "claim",
  "snapshot",
  "pass",
  "pass",
  "land",
  "land",
  "fail",
  "files",
  "late",
  "heartbeat",
  "expire",
  "due",
  "due",
  "cancel",
  "cancelRun",
  "retry",
  "retry",
  "grant",
  "approve",
  "reject",
  "pause",
  "resume",
  "add",
] as const;
const SIZE = 7;
const id = (n: number) => `t${n % SIZE}`;

/** Task n may depend on lower ones only, so there is no cycle. */
const graph: fc.Arbitrary<TaskSpec[]> = fc
  .array(
    fc.record({
      deps: fc.tuple(fc.nat(2 ** SIZE - 1), fc.nat(2 ** SIZE - 1)).map(([a, b]) => a & b),
      review: fc.boolean(),
      retries: fc.nat(2),
      ok: fc.boolean(),
    }),
    { minLength: SIZE, maxLength: SIZE },
  )
  .map((shapes) =>
    shapes.map(({ deps, review, retries, ok }, n) =>
      taskSpec(`t${n}`, {
        depends_on: [...Array(n).keys()].filter((m) => deps & (1 << m)).map((m) => `t${m}`),
        review: review && n % 3 === 0,
        retries,
        no_changes: ok ? "ok" : "fail",
      }),
    ),
  );
const steps = fc.array(
  fc.record({ what: fc.constantFrom(...WHATS), task: fc.nat(SIZE - 1), n: fc.nat(12) }),
  { maxLength: 120, size: "max" },
);

let oids = 0x1000;
function act(d: Draft, { what, task: number, n }: Step): unknown {
  const task = id(number);
  const now = d.mustTask("r", task);
  const newest = now.attempts.at(-1)?.attempt ?? 1;
  const ref = { run: "r", task, attempt: what === "late" ? Math.max(1, newest - 1) : newest };
  const head = d.mustRun("r").head;
  const base = now.attempts.at(-1)?.base ?? head;
  const snapshot = { version: 1, commit: oid(oids++), tree: oid(oids++), changed_count: 1 };
  const passed = { kind: "passed", snapshot: n === 0 ? null : snapshot, base } as const;
  const evidence = { summary: "s", log: "", paths: [], landed_since: [] };
  switch (what) {
    case "claim":
      return claim(d, {
        run: "r",
        task,
        state_version: now.state_version,
        worker: "w",
        base: head,
        workspace: "/w",
      });
    case "snapshot":
      return publishSnapshot(d, {
        ...ref,
        base,
        commit: oid(oids++),
        tree: oid(oids++),
        changed: [{ path: `f${n}`, mode: "100644", oid: oid(n) }],
      });
    case "pass":
    case "late":
      return settle(d, { ...ref, result: passed }, HALF);
    case "fail":
      return settle(
        d,
        { ...ref, result: { kind: "failed", cause: CAUSES[n % CAUSES.length] as Cause, evidence } },
        HALF,
      );
    case "files":
      requestFiles(d, ref, { paths: [`lib/${n}`], reason: "r" });
      return settle(d, { ...ref, result: { kind: "needs_files" } }, HALF);
    case "land":
      return land(d, { ...ref, old_head: head, commit: oid(oids++), tree: oid(oids++) });
    case "heartbeat":
      return heartbeat(d, ref);
    case "expire":
      return expireLease(d, ref, HALF);
    case "due":
      return retryDue(d, "r", task);
    case "cancel":
      return cancelTask(d, "r", task, "me");
    case "cancelRun":
      return n === 0 ? cancelRun(d, "r", "me") : undefined;
    case "retry":
      return retryTask(d, { run: "r", task, feedback: "f" }, "me");
    case "grant":
      return grantFiles(d, { run: "r", task }, "me");
    case "approve":
      return approve(d, { run: "r", task }, "me");
    case "reject":
      return reject(d, { run: "r", task, reason: "no" }, "me", HALF);
    case "pause":
      return n < 3 ? pause(d, "r", "me") : undefined;
    case "resume":
      return resume(d, "r", "me");
    case "add": {
      const added = taskSpec(`new${n}`, { depends_on: [task] });
      return submit(d, { spec: runSpec("r", [added]), add_to: "r" }, "me", "-");
    }
  }
}

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

function start(tasks: TaskSpec[], schedule: "eager" | "waves") {
  const spec = runSpec("r", tasks, { schedule });
  return (d: Draft) => submit(d, { spec }, "me", planHash(spec));
}

const schedule = fc.constantFrom("eager" as const, "waves" as const);
const okErrors = new Set(["ILLEGAL_MOVE", "FENCED", "STALE", "NOT_CLAIMABLE", "STALE_HEAD", "BAD_PLAN"]);

test("B5, B6: the invariants hold after every step, a refused step changes nothing, replay gives the same", () => {
  fc.assert(
    fc.property(graph, schedule, steps, (tasks, kind, list) => {
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
      steps,
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
