// What busctl prints stays within the terminal, and nothing that a person needs to decide is cut away there.

import assert from "node:assert/strict";
import { test } from "node:test";
import { auditLine } from "../../bus/ctl/render/lines.ts";
import { palette } from "../../bus/ctl/render/palette.ts";
import { endLines } from "../../bus/ctl/render/summary.ts";
import { taskScreen } from "../../bus/ctl/render/task-screen.ts";
import { displayWidth, wrap } from "../../bus/ctl/render/width.ts";
import { run as tasks } from "../../bus/ctl/verbs/tasks.ts";
import {
  args,
  fakeBus,
  fakeCtx,
  makeAttempt,
  makeRun,
  makeSummary,
  makeTask,
  merged,
  OID,
  OID2,
  record,
  T0,
  usedUp,
} from "../helpers/ctl-fakes.ts";

const LONG = "every line of the parser is looked at, and what it does with tabs is written down in the notes";

function blockedTask() {
  const task = makeTask("parser_of_long_lines", usedUp(), { attempts: [makeAttempt(1)] });
  task.spec.goal = LONG;
  if (task.state.name === "blocked" && task.state.needs.kind === "retries_used")
    task.state.needs.evidence.log = `FAIL: ${LONG}\n`;
  return task;
}

test("wrap: between words, no line too wide, nothing lost; wide words and wide characters too", () => {
  for (const text of [
    LONG,
    "x".repeat(95),
    `a ${"漢字".repeat(40)} b`,
    `${"😀".repeat(31)} end`,
    "a  b".repeat(20),
  ]) {
    for (const width of [10, 11, 30, 80]) {
      const lines = wrap(text, width);
      for (const line of lines) assert.ok(displayWidth(line) <= width, `${width}: ${line}`);
      assert.equal(lines.join("").replace(/\s/g, ""), text.replace(/\s/g, ""));
      assert.equal(lines.join("").includes("\ufffd"), false);
    }
  }
  assert.deepEqual(wrap("one two three", 10), ["one two", "three"]);
  assert.deepEqual(wrap(LONG, 20, 2).length, 2);
  assert.match(wrap(LONG, 20, 2)[1] ?? "", /…$/);
  assert.deepEqual(wrap(LONG, Number.POSITIVE_INFINITY), [LONG]);
});

test("O3: one task on 80 columns: goal, evidence and advice are there in full, and no line is wider", () => {
  const task = blockedTask();
  const lines = taskScreen(task, makeRun([task]), T0 + 10_000, palette(false), 80);
  for (const line of lines) assert.ok(displayWidth(line) <= 80, line);
  assert.ok(lines.length <= 40, `${lines.length} lines`);
  const flat = lines
    .map((line) => line.replace(/^ {2}\| /, "").trim())
    .join(" ")
    .replace(/\s+/g, " ");
  assert.ok(flat.includes(`goal ${LONG}`), flat);
  assert.ok(flat.includes(`FAIL: ${LONG}`), flat);
  assert.match(flat, /try again with a word of advice, or cancel it\./);
});

test("O3: a check of the candidate is told from the same check of the task's own tree", () => {
  const verdict = {
    check: "tests",
    tier: "deep",
    tree: OID,
    verdict: "pass",
    exit: 0,
    duration_ms: 1_000,
  } as const;
  const verdicts = [OID, OID2].map((tree) => ({ ...verdict, tree, command: "npm test", summary: "" }));
  const task = makeTask("a", merged(), { attempts: [makeAttempt(1, { verdicts })] });
  const lines = taskScreen(task, makeRun([task]), T0, palette(false), 80);
  assert.deepEqual(
    lines.filter((line) => line.includes("npm test")).map((line) => line.trim()),
    ["pass deep tests 1.0s  npm test", "pass deep tests merged 1.0s  npm test"],
  );
});

test("O3: the end of a run and the table on 80 columns", async () => {
  const task = blockedTask();
  const end = { run: makeRun([task]), summary: makeSummary([task]), tasks: [task] };
  const lines = endLines(end, T0 + 10_000, palette(false), 80);
  for (const line of lines) assert.ok(displayWidth(line) <= 80, line);
  assert.match(
    lines.join(" ").replace(/\s+/g, " "),
    /parser_of_long_lines: Its tries are used up .* or cancel it\./,
  );
  const summary = makeSummary([task], { branch: "busbar/a-run-with-a-longer-name", status: "incomplete" });
  const bus = fakeBus({
    list_runs: () => ({ runs: [summary] }),
    list_tasks: () => ({ tasks: [task] }),
    ping: () => ({ worker: "w" }),
  });
  const ctx = fakeCtx(bus, { tty: true });
  await tasks(ctx, args([]));
  const shown = ctx.written().trimEnd().split("\n");
  for (const line of shown) assert.ok(displayWidth(line) <= 80, line);
  assert.match(shown[1] ?? "", /^incomplete, base main a+, branch busbar\/a-run-with-a-longer-name$/);
});

test("O1: the audit log on a narrow terminal has the time in short, elsewhere in full", () => {
  const one = record(3, "done", { type: "task.ready" });
  assert.match(auditLine(one, palette(false), 80), /^\d\d-\d\d \d\d:\d\d:\d\d {6}3 bus task\.ready r\/done$/);
  assert.match(auditLine(one, palette(false), Number.POSITIVE_INFINITY), /^2026-01-02T03:04:08\.000Z /);
});

test("--into on the end of a run: there, or why not, with the command that does it", () => {
  const task = makeTask("a", {
    name: "passed",
    attempt: 1,
    since: "2026-01-02T03:04:09.000Z",
    snapshot: null,
    base: "a".repeat(40),
    merged: { commit: "b".repeat(40), at: "2026-01-02T03:04:10.000Z" },
  });
  const summary = makeSummary([task], { status: "merged" });
  const run = makeRun([task]);
  run.spec.into = "release";
  const into = { branch: "release", head: summary.head, at: "2026-01-02T03:04:10.000Z" };
  const said = (result: { moved: boolean; why: string } | undefined) =>
    endLines(
      { run: result ? { ...run, into: { ...into, ...result } } : run, summary, tasks: [task] },
      T0 + 10_000,
      palette(false),
      80,
    ).join("\n");
  assert.match(said({ moved: true, why: "" }), /\nBranch release is there too\./);
  assert.match(said({ moved: false, why: "it has commits" }), /\nrelease was not moved: it has commits/);
  assert.match(said(undefined), /\nrelease was not moved: nobody has said why; /);
});
