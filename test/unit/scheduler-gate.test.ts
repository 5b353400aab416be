import assert from "node:assert/strict";
import { once } from "node:events";
import { type AddressInfo, createServer } from "node:net";
import { test } from "node:test";
import { agentEnd, errorEvidence } from "../../scheduler/evidence.ts";
import { afterTrouble, checksFor, hintOf, judge, type Trouble } from "../../scheduler/gate.ts";
import { madeUp } from "../../scheduler/outcomes.ts";
import { isListening, troubleBetween } from "../../scheduler/trouble.ts";
import { ioError } from "../../schemas/errors.ts";
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
  for (const reason of ["timeout", "memory", "pids", "cpu", "fsize", "disk", "limit"] as const)
    assert.equal(verdict({ reason }), "fail", reason);
  for (const reason of ["spawn_failed", "lost", "cancelled"] as const)
    assert.equal(verdict({ reason }), "infra", reason);
});

test("issue 5.1: a red check whose program is missing, or cannot be executed, says so", () => {
  const said = (exit: number, log_tail: string) =>
    judge({ name: "c", timeout_s: 5 }, outcome({ exit, log_tail })).summary;
  assert.equal(
    said(127, "ran 1\nsh: 1: tsc: not found\n"),
    "c ended with exit code 127 (a program is missing: sh: 1: tsc: not found)",
  );
  assert.equal(said(126, ""), "c ended with exit code 126 (a program cannot be executed)");
  assert.equal(said(1, "sh: 1: tsc: not found\n"), "c ended with exit code 1");
});

test("words in a log decide nothing: red stays red, and the line is told as a hint", () => {
  for (const word of ["ENOSPC", "EADDRINUSE", "EMFILE", "ENFILE"]) {
    const log_tail = `ran 3\nError: ${word}: no such luck\n`;
    const judged = judge({ name: "c", timeout_s: 5 }, outcome({ exit: 1, log_tail }));
    assert.deepEqual([judged.verdict, judged.trouble], ["fail", "hint"], word);
    assert.match(judged.summary, new RegExp(`no fact confirms it: Error: ${word}`));
  }
});

test("case 52 gate-not-isolated: a port that is taken is reported with its line and not blamed on the change", () => {
  const red = outcome({
    exit: 1,
    log_tail: "ran 3\nError: listen EADDRINUSE: address already in use :::34711\n",
  });
  assert.deepEqual(hintOf(red)?.port, 34711);
  const judged = judge({ name: "c", timeout_s: 5 }, red, { takenPort: 34711 });
  assert.equal(judged.verdict, "infra");
  assert.match(judged.summary, /port 34711 is taken: Error: listen EADDRINUSE/);
});

test("a fact of the machine excuses a red check and a lost one, and nothing else", () => {
  const facts = { machine: "the disk is full" };
  const of = (more: Partial<Outcome>) => {
    const { verdict, trouble } = judge({ name: "c", timeout_s: 5 }, outcome(more), facts);
    return `${verdict} ${trouble ?? ""}`.trim();
  };
  assert.equal(of({ exit: 0 }), "pass");
  assert.equal(of({ exit: 1 }), "infra fact");
  assert.equal(of({ reason: "lost" }), "infra fact");
  assert.equal(of({ reason: "timeout" }), "fail");
});

const TROUBLES: readonly (readonly [troubles: string, answer: ReturnType<typeof afterTrouble>])[] = [
  ["lost", "again"],
  ["lost lost", "again"],
  ["lost lost lost", "fail"],
  ["lost fact lost", "infra"],
  ["fact", "again"],
  ["fact fact", "again"],
  ["fact fact fact", "infra"],
  ["hint", "again"],
  ["hint hint", "fail"],
  ["fact hint", "again"],
  ["hint fact hint", "fail"],
  ["hint lost lost", "fail"],
  ["fact fact lost", "infra"],
];
for (const [troubles, answer] of TROUBLES)
  test(`troubles of one gate: ${troubles}: ${answer}`, () => {
    assert.equal(afterTrouble(troubles.split(" ") as Trouble[]), answer);
  });

test("what the machine had between two looks", () => {
  const well = { boot: "b", oomKills: 1, free: 1e9, inodes: 10 };
  const table: [Partial<typeof well>, Partial<typeof well>, RegExp | undefined][] = [
    [well, {}, undefined],
    [{}, {}, undefined],
    [well, { boot: "c" }, /started anew/],
    [{ ...well, boot: "" }, {}, undefined],
    [well, { boot: "" }, undefined],
    [well, { oomKills: 3 }, /killed 2 processes for want of memory/],
    [well, { free: 4096 }, /disk is full \(4096 bytes/],
    [well, { inodes: 0 }, /no inode left/],
  ];
  for (const [before, after, words] of table) {
    const got = troubleBetween(before, { ...well, ...after });
    if (words === undefined) assert.equal(got, undefined, JSON.stringify([before, after]));
    else assert.match(got ?? "", words);
  }
});

test("an error of ours holds a fact only when the system said so to us", () => {
  const errno = (code: string) => Object.assign(new Error(code), { code });
  assert.match(errorEvidence("s", ioError("writing", "/x", errno("ENOSPC"))).machine ?? "", /ENOSPC/);
  assert.equal(errorEvidence("s", ioError("writing", "/x", errno("EISDIR"))).machine, undefined);
  assert.equal(errorEvidence("s", new Error("git said ENOSPC")).machine, undefined);
});

test("somebody listens at a port, or nobody", async (t) => {
  const server = createServer().listen(0, "127.0.0.1");
  await once(server, "listening");
  t.after(() => server.close());
  const { port } = server.address() as AddressInfo;
  assert.equal(isListening(port), true);
  server.close();
  await once(server, "close");
  assert.equal(isListening(port), false);
});

test("S6: the end of an agent maps to a cause; exit 0 alone proves nothing", () => {
  const cause = (more: Partial<Outcome>) => {
    const end = agentEnd({ outcome: outcome(more) });
    return end.kind === "failed" ? end.cause : end.kind;
  };
  assert.equal(cause({ exit: 0 }), "clean");
  assert.equal(cause({ exit: 3 }), "agent_error");
  assert.equal(cause({ reason: "signal" }), "agent_error");
  assert.equal(cause({ reason: "timeout" }), "timeout");
  for (const reason of ["memory", "pids", "cpu", "fsize", "disk", "limit"] as const)
    assert.equal(cause({ reason }), reason);
  assert.equal(cause({ reason: "spawn_failed" }), "infra");
  assert.equal(cause({ reason: "lost" }), "lost");
});
