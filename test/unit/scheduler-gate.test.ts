import assert from "node:assert/strict";
import { test } from "node:test";
import { agentEnd } from "../../scheduler/evidence.ts";
import { checksFor, judge } from "../../scheduler/gate.ts";
import { madeUp } from "../../scheduler/processes.ts";
import type { Outcome } from "../../schemas/job.ts";
import { systemClock } from "../../schemas/ports.ts";
import { Gate } from "../../schemas/task.ts";
import { specOf } from "../helpers/tasks.ts";

const check = (name: string) => ({ name, run: name, timeout_s: 5 });
const gate = Gate.parse({
  shallow: [check("types")],
  middle: [check("lint"), check("build")],
  deep: [check("tests")],
});
const spec = specOf("t", { acceptance: [{ run: "a1" }, { text: "words only" }, { run: "a3" }] });
const names = (list: { name: string }[]) => list.map((c) => c.name);

test("G2: which checks a tree needs", () => {
  assert.deepEqual(names(checksFor(spec, gate, { kind: "captured" })), [
    "acceptance-1",
    "acceptance-3",
    "types",
  ]);
  assert.deepEqual(names(checksFor(spec, gate, { kind: "candidate", proven: true })), [
    "lint",
    "build",
    "tests",
  ]);
  assert.deepEqual(names(checksFor(spec, gate, { kind: "candidate", proven: false })), [
    "acceptance-1",
    "acceptance-3",
    "types",
    "lint",
    "build",
    "tests",
  ]);
  assert.deepEqual(names(checksFor(spec, gate, { kind: "canary" })), ["types", "lint", "build", "tests"]);
  assert.deepEqual(names(checksFor(spec, "none", { kind: "candidate", proven: false })), [
    "acceptance-1",
    "acceptance-3",
  ]);
  assert.deepEqual(names(checksFor(spec, "none", { kind: "candidate", proven: true })), []);
});

function outcome(more: Partial<Outcome>): Outcome {
  return {
    ...madeUp(
      { ref: { run: "r", task: "t", attempt: 1 }, kind: "check", name: "c" },
      "exit",
      "",
      systemClock,
    ),
    ...more,
  };
}

test("verdict: exit 0 is pass, every other end of the command is fail, what says nothing about the tree is infra", () => {
  const verdict = (more: Partial<Outcome>) => judge({ name: "c", timeout_s: 5 }, outcome(more)).verdict;
  assert.equal(verdict({ exit: 0 }), "pass");
  assert.equal(verdict({ exit: 0, log_tail: "EADDRINUSE" }), "pass");
  assert.equal(verdict({ exit: 1 }), "fail");
  assert.equal(verdict({ reason: "signal", signal: "SIGSEGV" }), "fail");
  for (const reason of ["timeout", "memory", "limit"] as const)
    assert.equal(verdict({ reason }), "fail", reason);
  for (const reason of ["spawn_failed", "lost", "cancelled"] as const)
    assert.equal(verdict({ reason }), "infra", reason);
});

test("case 52 gate-not-isolated: a port that is taken is reported with its line and not blamed on the change", () => {
  const judged = judge(
    { name: "c", timeout_s: 5 },
    outcome({ exit: 1, log_tail: "ran 3\nError: listen EADDRINUSE: 34711\n" }),
  );
  assert.equal(judged.verdict, "infra");
  assert.match(judged.summary, /listen EADDRINUSE: 34711/);
});

test("S6: the end of an agent maps to a cause; exit 0 alone proves nothing", () => {
  const cause = (more: Partial<Outcome>) => {
    const end = agentEnd(outcome(more));
    return end.kind === "failed" ? end.cause : end.kind;
  };
  assert.equal(cause({ exit: 0 }), "clean");
  assert.equal(cause({ exit: 3 }), "agent_error");
  assert.equal(cause({ reason: "signal" }), "agent_error");
  assert.equal(cause({ reason: "timeout" }), "timeout");
  assert.equal(cause({ reason: "memory" }), "memory");
  assert.equal(cause({ reason: "limit" }), "limit");
  assert.equal(cause({ reason: "spawn_failed" }), "infra");
  assert.equal(cause({ reason: "lost" }), "lost");
});
