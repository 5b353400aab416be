// What busctl says about a run is true of it: how it ended, who waits for whom, how long it took, what failed.

import assert from "node:assert/strict";
import { test } from "node:test";
import { grantLines } from "../../bus/ctl/outside.ts";
import { adviceFor } from "../../bus/ctl/render/advice.ts";
import { type GcAnswer, gcLines } from "../../bus/ctl/render/gc.ts";
import { outcomeWords } from "../../bus/ctl/render/outcome.ts";
import { palette } from "../../bus/ctl/render/palette.ts";
import { buildReport, reportMarkdown } from "../../bus/ctl/render/report.ts";
import { timeOf } from "../../bus/ctl/render/row.ts";
import { endLines, taskTable } from "../../bus/ctl/render/summary.ts";
import { displayWidth } from "../../bus/ctl/render/width.ts";
import { run as tasks } from "../../bus/ctl/verbs/tasks.ts";
import { isCode } from "../../schemas/errors.ts";
import type { Task, TaskState } from "../../schemas/task.ts";
import {
  args,
  fakeBus,
  fakeCtx,
  iso,
  makeAttempt,
  makeRun,
  makeSummary,
  makeTask,
  merged,
  T0,
  usedUp,
} from "../helpers/ctl-fakes.ts";

const P = palette(false);
const cancelled = (): TaskState => ({ name: "cancelled", since: iso(3_000), by: "person" });
const behind = (root: string, state: "blocked" | "cancelled" = "blocked"): TaskState => ({
  name: "blocked",
  since: iso(6_000),
  needs: { kind: "upstream", root, state, cause: "check" },
});
const needing = (id: string, deps: string[], state: TaskState): Task => {
  const task = makeTask(id, state);
  return { ...task, spec: { ...task.spec, depends_on: deps } };
};

test("issue 2.6: one cancelled task does not make a run cancelled: done, 1 cancelled", () => {
  const words = (states: TaskState[], status: "merged" | "incomplete" | "cancelled" | "active") =>
    outcomeWords(
      makeSummary(
        states.map((state, i) => makeTask(`t${i}`, state)),
        { status },
      ),
    );
  assert.equal(words([merged(), merged()], "merged"), "done");
  assert.equal(words([merged(), cancelled()], "incomplete"), "done, 1 cancelled");
  assert.equal(words([cancelled(), cancelled()], "cancelled"), "cancelled");
  assert.equal(words([merged(), usedUp(), cancelled()], "incomplete"), "incomplete, 1 blocked, 1 cancelled");
  assert.equal(words([merged(), usedUp()], "active"), "active");
});

test("issue 2.6: who waits is said with what it waits for: a dependency, or the wave after a task", () => {
  const all = [
    makeTask("root", usedUp()),
    makeTask("gone", cancelled()),
    needing("child", ["root"], behind("root")),
    needing("grandchild", ["child"], behind("root")),
    needing("orphan", ["gone"], behind("gone", "cancelled")),
    needing("stranger", [], behind("root")),
  ];
  const end = { run: makeRun(all), summary: makeSummary(all, { status: "incomplete" }), tasks: all };
  const text = endLines(end, T0 + 9_000, P, 200).join("\n");
  assert.match(text, /2 tasks wait for root \(blocked; by dependency\): child, grandchild/);
  assert.match(text, /1 task waits for gone \(cancelled; by dependency\): orphan/);
  assert.match(text, /1 task waits for root \(blocked; its wave opens after it\): stranger/);
});

test("issue 2.6: a merged task shows how long it took, not how long ago; a cancelled one nothing", () => {
  const attempt = makeAttempt(1, { started: iso(1_000), ended: iso(4_000), result: "passed" });
  const all = [makeTask("m", merged(), { attempts: [attempt] }), makeTask("c", cancelled())];
  for (const later of [10_000, 3_600_000]) {
    const [, m = "", c = ""] = taskTable(all, (row) => timeOf(row, T0 + later), P, 100);
    assert.match(m, / 4\.0s /);
    assert.doesNotMatch(c, /\d[smh]/);
  }
});

test("issue 2.6: the end of a run shows how long a blocked task was worked on, not how long it is blocked", () => {
  const attempt = makeAttempt(1, { started: iso(1_000), ended: iso(4_000), result: "check" });
  const stuck = { ...usedUp(), since: iso(4_000) } as TaskState;
  const all = [makeTask("b", stuck, { attempts: [attempt] }), makeTask("u", stuck)];
  const end = { run: makeRun(all), summary: makeSummary(all, { status: "incomplete" }), tasks: all };
  const lines = endLines(end, T0 + 9_000, P, 120);
  assert.match(lines.find((line) => / b /.test(line)) ?? "", / 3\.0s /);
  assert.doesNotMatch(lines.find((line) => / u /.test(line)) ?? "", / \d\.\ds /);
});

test("issue 2.6: the report keeps the causes of all attempts after a person's retry", () => {
  const attempts = [
    makeAttempt(1, {
      result: "check",
      ended: iso(2_000),
      evidence: { summary: "check tests: exit 1", log: "", paths: [], landed_since: [] },
    }),
    makeAttempt(2, { result: "timeout", ended: iso(3_000) }),
    makeAttempt(3, { result: "passed", ended: iso(4_000) }),
  ];
  const all = [makeTask("a", merged(), { attempts, counts: {} })];
  const summary = makeSummary(all, { status: "merged" });
  const report = buildReport({
    run: makeRun(all),
    summary,
    tasks: all,
    files: new Map(),
    now: T0,
    version: "0",
  });
  assert.deepEqual(report.tasks[0]?.failed_attempts, { check: 1, timeout: 1 });
  const text = reportMarkdown(report);
  assert.match(text, /\| `a` \| merged \| 3 \| check 1, timeout 1 \|/);
  assert.match(text, /- #1 \*\*check\*\* after 1\.0s: check tests: exit 1/);
  assert.match(text, /- #2 \*\*timeout\*\*/);
});

test("issue 2.6: diff advises a grant only of files that it reaches, and says why of the others", () => {
  const task = makeTask("a", usedUp());
  task.spec.forbidden_files = ["secret/**"];
  const run = makeRun([task]);
  run.spec.protect = ["test/**"];
  const said = (paths: string[], secret = false) =>
    grantLines(run, task, { paths, secret, place: undefined }).join("\n");
  const advice = "to allow one: busctl grant r/a PATH; then busctl retry r/a";
  const held = "no grant helps test/run.sh: the plan protects it, nobody may change it";
  assert.equal(said(["docs/x"]), advice);
  assert.equal(said(["test/run.sh"]), held);
  assert.equal(said(["docs/x", "test/run.sh"]), `${advice}\n${held}`);
  assert.equal(said(["secret/k"]), "no grant helps secret/k: the task forbids it");
  assert.equal(said(["docs/x"], true), "they hold secrets; a grant does not help");
});

test("W9: gc tells a row for each run and the totals, at most 80 cells wide, and names what will not go", () => {
  const one = (run: string, n: number) => ({
    workspace: `/s/${run}/${n}`,
    run,
    task: `t${n}`,
    archive: "/a",
  });
  const answer: GcAnswer = {
    archived: Array.from({ length: 30 }, (_, n) => one("first-run-with-a-long-name", n)),
    kept: [
      ...Array.from({ length: 12 }, (_, n) => ({
        ...one("second", n),
        kind: "not_idle" as const,
        why: "idle for 3 s only",
      })),
      { ...one("second", 99), kind: "not_harvested", why: "its result is not captured" },
    ],
  };
  const lines = gcLines(answer, { dry: true, idleS: 7200 }, P, 80);
  assert.ok(lines.length <= 7, lines.join("\n"));
  assert.ok(lines.includes("A workspace is archived when it is idle for 2h 00m; --all takes it now."));
  for (const line of lines) assert.ok(displayWidth(line) <= 80, line);
  assert.match(lines.join("\n"), /total +30 +12 +1\n/);
  assert.match(lines.join("\n"), /kept second\/t99: its result is not captured/);
});

test("O2: an unknown method or actor of the audit log is an error with the nearest right word", async () => {
  const asked = (more: Record<string, unknown>) =>
    tasks(fakeCtx(fakeBus({ query_audit: () => ({ records: [] }) })), args([], { audit: true, ...more }));
  const says = (pattern: RegExp) => (error: unknown) => isCode(error, "USAGE") && pattern.test(error.message);
  await assert.rejects(asked({ method: "getfile" }), says(/no method "getfile"; did you mean get_file\?/));
  await assert.rejects(asked({ method: "nonsense" }), says(/no method "nonsense"$/));
  await assert.rejects(asked({ actor: "persn" }), says(/did you mean person\?/));
  await assert.rejects(asked({ actor: "agent" }), says(/agent:RUN\/TASK#N/));
  for (const actor of ["person", "scheduler:vm", "agent:r/a#1", "bus"])
    assert.equal(await asked({ actor, method: "get_file" }), 0);
});

test("issue 2.6: no grant is advised for what the plan protects, or what no change may hold", () => {
  const evidence = (summary: string) => ({ summary, log: "", paths: ["t.mjs"], landed_since: [] });
  const commands = (summary: string) =>
    adviceFor(
      makeTask("a", {
        name: "blocked",
        since: iso(1),
        needs: { kind: "retries_used", cause: "scope", evidence: evidence(summary) },
      }),
    )?.commands.join("\n") ?? "";
  assert.match(commands("out of scope: t.mjs"), /busctl grant/);
  assert.doesNotMatch(commands("protected by the plan: t.mjs (nobody may change it)"), /busctl grant/);
  assert.doesNotMatch(commands("no change may hold this: cfg is a link into .git (.git)"), /busctl grant/);
});
