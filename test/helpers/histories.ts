// Random histories for tests of the state: plans, and steps of people, schedulers and shims in whatever order.

import assert from "node:assert/strict";
import fc from "fast-check";
import { claim, heartbeat, publishSnapshot, requestFiles } from "../../bus/state/decide-attempt.ts";
import { approve, cancelTask, grantFiles, reject, retryTask } from "../../bus/state/decide-person.ts";
import { cancelRun, pause, planHash, reportInto, resume, submit } from "../../bus/state/decide-run.ts";
import { expireLease, land, retryDue, settle } from "../../bus/state/decide-settle.ts";
import type { Draft } from "../../bus/state/draft.ts";
import { CAUSES, type Cause, type TaskSpec } from "../../schemas/task.ts";
import { HALF, oid, runSpec, taskSpec } from "./state.ts";

/** A step: what, on which task (by number), with which small number. */
export interface Step {
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
  "into",
] as const;
const SIZE = 7;
const id = (n: number) => `t${n % SIZE}`;

/** Task n may depend on lower ones only, so there is no cycle. */
export const graph: fc.Arbitrary<TaskSpec[]> = fc
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
export const stepsUpTo = (maxLength: number) =>
  fc.array(fc.record({ what: fc.constantFrom(...WHATS), task: fc.nat(SIZE - 1), n: fc.nat(12) }), {
    maxLength,
    size: "max",
  });

let oids = 0x1000;
/** Does a step; throws where it is not legal. */
export function act(d: Draft, { what, task: number, n }: Step): unknown {
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
    case "into": {
      // As the scheduler tells it once a run is through, and whatever else comes: the same again is one event.
      const result = { run: "r", branch: "main", head: oid(n), moved: n % 2 === 0, why: n % 2 ? "w" : "" };
      const { recorded } = reportInto(d, result);
      assert.equal(reportInto(d, result).recorded, false, "the same again is nothing new");
      const { into } = d.mustRun("r");
      assert.deepEqual([into?.head, into?.moved, into?.why], [result.head, result.moved, result.why]);
      return recorded;
    }
    case "add": {
      const added = taskSpec(`new${n}`, { depends_on: [task] });
      return submit(d, { spec: runSpec("r", [added]), add_to: "r" }, "me", "-");
    }
  }
}

/** Submits run `r`. */
export function start(tasks: TaskSpec[], schedule: "eager" | "waves") {
  const spec = runSpec("r", tasks, { schedule });
  return (d: Draft) => submit(d, { spec }, "me", planHash(spec));
}

export const schedule = fc.constantFrom("eager" as const, "waves" as const);
/** How an illegal step is refused. */
export const okErrors = new Set([
  "ILLEGAL_MOVE",
  "FENCED",
  "STALE",
  "NOT_CLAIMABLE",
  "STALE_HEAD",
  "BAD_PLAN",
]);
