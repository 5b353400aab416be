// Decisions without a disk: B5, B6, S4, S6, case 59.

import assert from "node:assert/strict";
import { test } from "node:test";
import {
  attemptUpdate,
  claim,
  complete,
  heartbeat,
  holdAttempt,
  progress,
  publishSnapshot,
  recordVerdict,
  register,
  requestFiles,
} from "../../bus/state/decide-attempt.ts";
import { approve, cancelTask, grantFiles, reject, retryTask } from "../../bus/state/decide-person.ts";
import { cancelRun, pause, planHash, resume, submit } from "../../bus/state/decide-run.ts";
import { backOff, land, settle } from "../../bus/state/decide-settle.ts";
import { runStatus } from "../../bus/state/status.ts";
import type { ErrorCode } from "../../schemas/errors.ts";
import { isCode } from "../../schemas/errors.ts";
import { MAX_INNOCENT_RETRIES } from "../../schemas/limits.ts";
import { addTasksLike, at, fails, go, moved, passes, said } from "../helpers/decide.ts";
import { BASE, draftWith, HALF, oid, runSpec, specsOf, taskSpec } from "../helpers/state.ts";

const refuses = (code: ErrorCode, fn: () => unknown) =>
  assert.throws(fn, (e) => isCode(e, code) || assert.fail(String(e)));
const A = { run: "r", task: "a" };

test("S6: bad work is tried again as often as the spec says, then blocked with the evidence", () => {
  const d = draftWith([taskSpec("a", { retries: 2 }), taskSpec("b", { depends_on: ["a"] })]);
  for (const [cause, pause_ms] of [
    ["check", 1_000],
    ["timeout", 1_500],
  ] as const) {
    fails(d, "a", cause);
    const s = at(d, "a");
    assert.ok(s.name === "retrying" && s.cause === cause && s.evidence.summary === cause);
    assert.equal(Date.parse(s.not_before) - d.now, pause_ms, "factor 1.5, jitter in the middle");
    go(d, "a");
  }
  fails(d, "a", "conflict");
  const s = at(d, "a");
  assert.ok(
    s.name === "blocked" && s.needs.kind === "retries_used" && s.needs.evidence.summary === "conflict",
  );
  assert.deepEqual(at(d, "b"), {
    name: "blocked",
    since: d.at,
    needs: { kind: "upstream", root: "a", state: "blocked", cause: "conflict: conflict" },
  });
});

test("S6: the pause grows by 1.5 up to its bound, with at most 20 % of jitter either way", () => {
  assert.deepEqual(
    [0, 1, 2, 20].map((n) => backOff(n, HALF)),
    [1_000, 1_500, 2_250, 60_000],
  );
  assert.equal(
    backOff(0, () => 0),
    800,
  );
  assert.ok(backOff(0, () => 0.999999) <= 1_200);
});

test("S6: infra, lost and rate_limited never use up the retries for bad work, but have a bound", () => {
  const d = draftWith([taskSpec("a", { retries: 0 })]);
  const machine = { machine: "the disk is full" };
  for (let n = 0; n < MAX_INNOCENT_RETRIES; n++) {
    fails(d, "a", "infra", machine);
    assert.equal(at(d, "a").name, "retrying");
    go(d, "a");
  }
  fails(d, "a", "lost", machine);
  assert.equal(at(d, "a").name, "retrying", "each innocent cause by itself");
  go(d, "a");
  fails(d, "a", "rate_limited");
  assert.equal(at(d, "a").name, "retrying");
  go(d, "a");
  fails(d, "a", "infra", machine);
  assert.equal(at(d, "a").name, "blocked");
});

test("case 59 failed-dependency: everything downstream is blocked and names the root; a retry frees it", () => {
  const tasks = specsOf({
    bad: [],
    good: [],
    kid: ["bad"],
    grandkid: ["kid"],
    both: ["bad", "good"],
    slow: [],
    after: ["slow"],
  });
  const d = draftWith(tasks.map((t) => ({ ...t, retries: 0 })));
  fails(d, "bad", "check");
  passes(d, "good", 1);
  assert.deepEqual(cancelTask(d, "r", "slow", "me"), ["slow"]);
  for (const id of ["kid", "grandkid", "both"])
    assert.match(said(d, id), /^blocked upstream bad blocked: check/);
  assert.equal(said(d, "after"), "blocked upstream slow cancelled: cancelled by me");
  assert.equal(runStatus(d.mustRun("r"), d.tasks("r")), "incomplete", "nothing is pending for ever");
  refuses("ILLEGAL_MOVE", () => retryTask(d, { run: "r", task: "kid" }, "me"));
  retryTask(d, { run: "r", task: "bad", feedback: "look again" }, "me");
  assert.equal(d.mustTask("r", "bad").feedback, "look again");
  assert.deepEqual(d.mustTask("r", "bad").counts, {});
  assert.deepEqual(at(d, "both"), { name: "pending", waits_for: ["bad"] }, "good is merged already");
  passes(d, "bad", 2);
  assert.deepEqual(
    ["kid", "both", "grandkid"].map((id) => at(d, id).name),
    ["ready", "ready", "pending"],
  );
  passes(d, "kid", 3);
  assert.equal(at(d, "grandkid").name, "ready");
  assert.match(said(d, "after"), /slow cancelled/);
});

test("B5: with two roots in the way, freeing one leaves the other named", () => {
  const d = draftWith(specsOf({ a: [], b: [], c: ["a", "b"], e: ["c"] }));
  cancelTask(d, "r", "a", "me");
  cancelTask(d, "r", "b", "me");
  assert.match(said(d, "e"), /upstream a/);
  retryTask(d, A, "me");
  for (const id of ["c", "e"]) assert.match(said(d, id), /upstream b cancelled/);
  retryTask(d, { run: "r", task: "b" }, "me");
  assert.deepEqual(at(d, "c"), { name: "pending", waits_for: ["a", "b"] });
  assert.deepEqual(at(d, "e"), { name: "pending", waits_for: ["c"] });
});

test("case 59: a task that comes late finds its dependency merged, or blocked, at once", () => {
  const d = draftWith(specsOf({ good: [], bad: [] }));
  passes(d, "good", 1);
  cancelTask(d, "r", "bad", "me");
  addTasksLike(d, specsOf({ late: ["good"], doomed: ["bad", "good"], more: ["doomed"] }));
  assert.equal(at(d, "late").name, "ready");
  for (const id of ["doomed", "more"]) assert.match(said(d, id), /upstream bad cancelled/);
  refuses("BAD_PLAN", () => addTasksLike(d, specsOf({ x: ["y"], y: ["x", "good"] })));
  refuses("BAD_PLAN", () => addTasksLike(d, [taskSpec("late", { goal: "another" })]));
  refuses("NO_SUCH_RUN", () =>
    submit(d, { spec: runSpec("r", specsOf({ z: [] })), add_to: "nope" }, "me", "h"),
  );
  const before = d.events.length;
  assert.deepEqual(addTasksLike(d, specsOf({ late: ["good"] })), { run: "r", attached: true, tasks: 0 });
  assert.equal(d.events.length, before, "the same task again changes nothing");
});

test("S4: with waves a task starts only when all lower waves are done; a blocked one holds the higher waves", () => {
  const d = draftWith(specsOf({ a: [], b: [], c: ["a"], e: ["c"] }), { schedule: "waves" });
  passes(d, "a", 1);
  assert.deepEqual(at(d, "c"), { name: "pending", waits_for: [] });
  cancelTask(d, "r", "b", "me");
  for (const id of ["c", "e"]) assert.match(said(d, id), /upstream b cancelled/);
  retryTask(d, { run: "r", task: "b" }, "me");
  assert.deepEqual(at(d, "c"), { name: "pending", waits_for: [] });
  passes(d, "b", 2);
  assert.equal(at(d, "c").name, "ready");
  passes(d, "c", 3);
  assert.equal(at(d, "e").name, "ready");
});

test("submit: the same plan attaches, another is refused, an ended one gets the next name", () => {
  const d = draftWith(specsOf({ a: [] }));
  const again = runSpec("r", specsOf({ a: [] }));
  assert.deepEqual(submit(d, { spec: again }, "me", planHash(again)), { run: "r", attached: true, tasks: 1 });
  const shuffled = {
    ...again,
    tasks: again.tasks.map((t) => Object.fromEntries(Object.entries(t).reverse()) as typeof t),
  };
  assert.equal(planHash(shuffled), planHash(again), "the order of keys means nothing");
  const other = runSpec("r", specsOf({ b: [] }));
  refuses("RUN_EXISTS", () => submit(d, { spec: other }, "me", planHash(other)));
  cancelRun(d, "r", "me");
  assert.equal(runStatus(d.mustRun("r"), d.tasks("r")), "cancelled");
  assert.equal(submit(d, { spec: other }, "me", planHash(other)).run, "r-2");
  assert.equal(submit(d, { spec: other }, "me", planHash(other)).attached, true);
});

test("pause keeps its reason until the run goes on; only a new reason pauses again", () => {
  const d = draftWith(specsOf({ a: [] }));
  pause(d, "r", "scheduler", "the branch is gone");
  assert.equal(d.mustRun("r").paused_why, "the branch is gone");
  assert.equal(pause(d, "r", "me").paused, true);
  pause(d, "r", "scheduler", "the branch is gone");
  assert.equal(d.mustRun("r").paused_why, "the branch is gone");
  pause(d, "r", "scheduler", "the branch is another");
  assert.equal(d.mustRun("r").paused_why, "the branch is another");
  resume(d, "r", "me");
  assert.equal(d.mustRun("r").paused_why, undefined);
  assert.equal(d.mustRun("r").paused, false);
});

test("claim: compare-and-swap, and nothing of a paused run", () => {
  const d = draftWith(specsOf({ a: [], b: ["a"] }));
  const params = { ...A, worker: "w", base: BASE, workspace: "/w" };
  const { state_version } = d.mustTask("r", "a");
  refuses("STALE", () => claim(d, { ...params, state_version: state_version - 1 }));
  pause(d, "r", "me");
  refuses("NOT_CLAIMABLE", () => claim(d, { ...params, state_version }));
  resume(d, "r", "me");
  refuses("NOT_CLAIMABLE", () => claim(d, { ...params, task: "b", state_version: 1 }));
  assert.equal(claim(d, { ...params, state_version }).attempt, 1);
});

test("B6: every report, said twice, has the effect of once and the same answer", () => {
  const d = draftWith([taskSpec("a", { retries: 5 }), taskSpec("b", { depends_on: ["a"] })]);
  const ref = go(d, "a");
  const snapshot = { version: 1, commit: oid(11), tree: oid(12), changed_count: 1 };
  const outcome = { v: 1, ref, kind: "agent", name: "agent", reason: "exit", exit: 0, started: "t" } as never;
  const verdict = {
    check: "c",
    tier: "shallow",
    tree: oid(12),
    verdict: "pass",
    exit: 0,
    duration_ms: 1,
    command: "c",
    summary: "",
  } as const;
  const changed = [{ path: "f", mode: "100644", oid: oid(5) }];
  const reports: [string, () => unknown][] = [
    ["register", () => register(d, ref, { kind: "agent", name: "agent", pid: 1, start_time: "s" })],
    ["heartbeat", () => heartbeat(d, ref)],
    ["attempt_update", () => attemptUpdate(d, { ...ref, phase: "agent" })],
    ["hold_attempt", () => holdAttempt(d, { ...ref, why: "the disk is full" })],
    ["hold_attempt null", () => holdAttempt(d, { ...ref, why: null })],
    ["progress", () => progress(d, ref, { status: "s", message: "m" })],
    ["request_files", () => requestFiles(d, ref, { paths: ["src/x", "other"], reason: "" })],
    ["complete", () => complete(d, ref, outcome)],
    [
      "publish_snapshot",
      () => publishSnapshot(d, { ...ref, base: BASE, commit: oid(11), tree: oid(12), changed }),
    ],
    ["record_verdict", () => recordVerdict(d, { ...ref, verdict })],
    ["settle", () => settle(d, { ...ref, result: { kind: "passed", snapshot, base: BASE } }, HALF)],
    ["land", () => land(d, { ...ref, old_head: BASE, commit: oid(21), tree: oid(22) })],
  ];
  for (const [name, report] of reports) {
    const first = report();
    const events = d.events.length;
    assert.deepEqual(report(), first, name);
    assert.equal(d.events.length, events, `${name} again makes no event`);
  }
  assert.deepEqual(d.mustTask("r", "a").attempts.length, 1);
  assert.equal(at(d, "b").name, "ready");
});

test("B6: reports of an attempt that is over are fenced", () => {
  const d = draftWith([taskSpec("a", { retries: 5 })]);
  const old = go(d, "a");
  fails(d, "a", "lost");
  const result = { kind: "passed", snapshot: null, base: BASE } as const;
  refuses("FENCED", () => settle(d, { ...old, result }, HALF));
  refuses("FENCED", () => heartbeat(d, old));
  const fresh = go(d, "a");
  assert.equal(fresh.attempt, 2);
  const verdict = {
    check: "c",
    tier: "deep",
    tree: oid(1),
    verdict: "pass",
    exit: 0,
    duration_ms: 1,
    command: "",
    summary: "",
  } as const;
  for (const report of [
    () => settle(d, { ...old, result }, HALF),
    () => register(d, old, { kind: "agent", name: "agent", pid: 1, start_time: "s" }),
    () => attemptUpdate(d, old),
    () => recordVerdict(d, { ...old, verdict }),
    () => complete(d, old, { ref: old } as never),
    () => land(d, { ...old, old_head: BASE, commit: oid(1), tree: oid(2) }),
  ])
    refuses("FENCED", report);
});

test("issue 2.6: a grant of what the plan protects or the task forbids is refused with the reason", () => {
  const d = draftWith([taskSpec("a", { forbidden_files: ["src/secret"] })], { protect: ["test/a.mjs"] });
  const why = (path: string, words: RegExp) =>
    assert.throws(
      () => grantFiles(d, { ...A, paths: ["x", path] }, "me"),
      (e: unknown) => isCode(e, "BAD_PATH") && words.test(e.message),
    );
  why("test/a.mjs", /grant of "test\/a\.mjs": the plan protects it, nobody may change it/);
  why("src/secret", /grant of "src\/secret": the task forbids it/);
  assert.deepEqual(d.mustTask("r", "a").granted, []);
});

test("G1: a grant or a request that is no path of the repository is refused, and poisons nothing", () => {
  const d = draftWith(specsOf({ a: [] }));
  const ref = go(d, "a");
  for (const path of ["../x", "/etc/passwd", "src/**", ".git/config", "a//b"])
    refuses("BAD_PATH", () => requestFiles(d, ref, { paths: [path], reason: "" }));
  for (const path of ["../x", "!src", "a\0b", ".git/x", "sub/.GIT/**"])
    refuses("BAD_PATH", () => grantFiles(d, { ...A, paths: [path] }, "me"));
  refuses("ILLEGAL_MOVE", () => grantFiles(d, A, "me"));
  assert.deepEqual(d.mustTask("r", "a").granted, []);
  assert.deepEqual(grantFiles(d, { ...A, paths: ["docs/**"] }, "me").granted, ["docs/**"]);
});

test("land: only from the head that the bus knows, only what passed", () => {
  const d = draftWith(specsOf({ a: [] }));
  const ref = go(d, "a");
  refuses("ILLEGAL_MOVE", () => land(d, { ...ref, old_head: BASE, commit: oid(1), tree: oid(2) }));
  moved(d, ref);
  refuses("STALE_HEAD", () => land(d, { ...ref, old_head: oid(9), commit: oid(1), tree: oid(2) }));
  land(d, { ...ref, old_head: BASE, commit: oid(1), tree: oid(2) });
  assert.equal(d.mustRun("r").head, oid(1));
  refuses("ILLEGAL_MOVE", () => land(d, { ...ref, old_head: oid(1), commit: oid(3), tree: oid(2) }));
  refuses("ILLEGAL_MOVE", () => cancelTask(d, "r", "a", "me"));
  refuses("ILLEGAL_MOVE", () => retryTask(d, A, "me"));
});

test("settle: no changes is failed, or done at once where the spec says so", () => {
  const d = draftWith([
    taskSpec("a", { retries: 0 }),
    taskSpec("b", { no_changes: "ok" }),
    taskSpec("c", { depends_on: ["b"] }),
  ]);
  const result = { kind: "passed", snapshot: null, base: BASE } as const;
  assert.equal(settle(d, { ...go(d, "a"), result }, HALF).state, "blocked");
  assert.match(said(d, "a"), /no_changes/);
  assert.equal(settle(d, { ...go(d, "b"), result }, HALF).state, "passed");
  const s = at(d, "b");
  assert.ok(s.name === "passed" && s.merged?.commit === null);
  assert.equal(at(d, "c").name, "ready");
  assert.equal(d.mustRun("r").head, BASE);
});

test("review: waits for a person; approved it is passed again, rejected it is tried again with the reason", () => {
  const d = draftWith([taskSpec("a", { review: true, retries: 1 }), taskSpec("b", { depends_on: ["a"] })]);
  moved(d, go(d, "a"));
  assert.match(said(d, "b"), /upstream a blocked: waits for review/);
  refuses("ILLEGAL_MOVE", () => approve(d, { run: "r", task: "b" }, "me"));
  reject(d, { ...A, reason: "too clever" }, "me", HALF);
  const s = at(d, "a");
  assert.ok(s.name === "retrying" && s.cause === "rejected" && /too clever/.test(s.evidence.summary));
  assert.equal(at(d, "b").name, "pending");
  const second = go(d, "a");
  moved(d, second);
  approve(d, A, "me");
  assert.equal(at(d, "a").name, "passed");
  assert.deepEqual(at(d, "b"), { name: "pending", waits_for: ["a"] });
  assert.deepEqual(land(d, { ...second, old_head: BASE, commit: oid(1), tree: oid(2) }).ready, ["b"]);
});

test("request_files: allowed ones are granted at once, others block the task until a person grants them", () => {
  const d = draftWith([
    taskSpec("a", { forbidden_files: ["src/secret"] }),
    taskSpec("b", { depends_on: ["a"] }),
  ]);
  const ref = go(d, "a");
  const answer = requestFiles(d, ref, { paths: ["src/x", "src/secret", "lib/y"], reason: "need" });
  assert.deepEqual(answer, { granted: ["src/x"], pending: ["src/secret", "lib/y"] });
  settle(d, { ...ref, result: { kind: "needs_files" } }, HALF);
  assert.match(said(d, "b"), /upstream a blocked: asks for src\/secret, lib\/y/);
  refuses("BAD_PATH", () => grantFiles(d, A, "me")); // one of them is forbidden, and would stay so
  const { granted } = grantFiles(d, { ...A, paths: ["lib/y"] }, "me");
  assert.deepEqual(granted, ["lib/y"]);
  assert.equal(at(d, "a").name, "ready");
  assert.equal(at(d, "b").name, "pending");
  const next = go(d, "a");
  assert.deepEqual(requestFiles(d, next, { paths: ["lib/y"], reason: "" }), {
    granted: ["lib/y"],
    pending: [],
  });
  assert.deepEqual(d.mustTask("r", "a").counts, {}, "asking is no failure");
});

test("request_files: what was granted while the agent ran is not asked for again", () => {
  const d = draftWith([taskSpec("a")]);
  const ref = go(d, "a");
  requestFiles(d, ref, { paths: ["lib/y"], reason: "" });
  grantFiles(d, A, "me");
  assert.equal(settle(d, { ...ref, result: { kind: "needs_files" } }, HALF).state, "ready");
});

test("cancel: a shim that reports afterwards is told to end, a new run of the task is fenced off", () => {
  const d = draftWith(specsOf({ a: [] }));
  const ref = go(d, "a");
  cancelTask(d, "r", "a", "me");
  assert.equal(heartbeat(d, ref).end, "cancelled by me");
  assert.equal(
    register(d, ref, { kind: "agent", name: "agent", pid: 1, start_time: "s" }).end,
    "cancelled by me",
  );
  assert.deepEqual(complete(d, ref, { v: 1, ref, kind: "agent", name: "agent", started: "t" } as never), {
    accepted: true,
  });
  const events = d.events.length;
  assert.deepEqual(cancelTask(d, "r", "a", "me"), ["a"]);
  assert.equal(d.events.length, events);
  refuses("FENCED", () => settle(d, { ...ref, result: { kind: "needs_files" } }, HALF));
});
