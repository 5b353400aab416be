// Rendering of busctl is pure: width of text, tables, the live block, the lines of a run.

import assert from "node:assert/strict";
import { test } from "node:test";
import fc from "fast-check";
import { changeJson, changeLine } from "../../bus/ctl/render/lines.ts";
import { palette, wantsColor, wantsUnicode } from "../../bus/ctl/render/palette.ts";
import { bar, countRows, type Model, progressFrame } from "../../bus/ctl/render/progress.ts";
import { applyRecord, isResting, rowOf } from "../../bus/ctl/render/row.ts";
import { renderTable } from "../../bus/ctl/render/table.ts";
import { bytes, duration, ticking } from "../../bus/ctl/render/time.ts";
import { cut, displayWidth, harmless, oneLine, pad } from "../../bus/ctl/render/width.ts";
import type { TaskState } from "../../schemas/task.ts";
import { iso, makeTask, merged, OID, OID2, record, running, T0, usedUp } from "../helpers/ctl-fakes.ts";

const plain = palette(false);

test("width: wide characters count two, marks and escapes nothing", () => {
  assert.equal(displayWidth("abc"), 3);
  assert.equal(displayWidth("日本"), 4);
  assert.equal(displayWidth("e\u0301"), 1);
  assert.equal(displayWidth("\x1b[31mred\x1b[39m"), 3);
  assert.equal(displayWidth("👩‍👩‍👧"), 2);
  assert.equal(displayWidth("\x1b]8;;http://x\x07link\x1b]8;;\x07"), 4);
});

test("width: cut and pad keep to the width, whatever the text", () => {
  fc.assert(
    fc.property(
      fc.string({ unit: "grapheme", maxLength: 30 }),
      fc.integer({ min: 0, max: 20 }),
      (text, width) => {
        const safe = oneLine(text);
        assert.ok(displayWidth(cut(safe, width)) <= width);
        assert.equal(displayWidth(pad(safe, width)), width);
      },
    ),
  );
  assert.equal(cut("abcdef", 4), "abc…");
  assert.equal(pad("7", 3, "right"), "  7");
});

test("harmless: no control or direction character is left, line ends stay", () => {
  assert.equal(harmless("a\x1b[2Jb\nc\u202ed\x07"), "a\\x1b[2Jb\nc\\u202ed\\x07");
  assert.equal(oneLine(" a\n\t b "), "a b");
});

test("table: columns line up, shrink where they may, and lines never exceed the width", () => {
  const columns = [
    { title: "task", shrinkTo: 4 },
    { title: "n", align: "right" as const },
    { title: "note", shrinkTo: 5 },
  ];
  const rows = [
    ["short", "1", "a rather long note that does not fit"],
    ["a-very-long-task-name", "200", "日本語のメモ"],
  ];
  const wide = renderTable(columns, rows, Number.POSITIVE_INFINITY);
  assert.equal(wide[1], "short                    1  a rather long note that does not fit");
  for (const width of [60, 40, 20, 8]) {
    for (const line of renderTable(columns, rows, width))
      assert.ok(displayWidth(line) <= width, `${width}: ${line}`);
  }
});

function model(): Model {
  const tasks = [
    makeTask("done", merged()),
    makeTask("busy", running(2), { attempts: [] }),
    makeTask("stuck", usedUp()),
    makeTask("later", { name: "pending", waits_for: ["busy"] }),
  ];
  return { run: "r", rows: new Map(tasks.map((t) => [t.spec.id, rowOf(t)])), paused: false, started: T0 };
}

test("O1: the live block shows counts, a bar and the running tasks", () => {
  const lines = progressFrame(model(), { width: 100, height: 24 }, T0 + 10_000, plain);
  assert.match(lines[0] ?? "", /^r {2}█{6}░{18} {2}1\/4 merged {2}10s$/);
  assert.deepEqual(lines.slice(1), ["1 running  1 pending  1 blocked", "● busy      agent        9s  try 2"]);
});

test("issue 2.6: the bar is as long whatever states come and go: it fills, and never jumps", () => {
  const { run, started } = model();
  const lengths = new Set<number>();
  const states: TaskState[] = [{ name: "pending", waits_for: [] }, running(1), usedUp(), merged()];
  for (let step = 0; step < 4 ** 3; step++) {
    const rows = Array.from({ length: 12 }, (_, i) =>
      rowOf(makeTask(`t${i}`, states[Math.floor(step / 4 ** (i % 3)) % 4] ?? merged())),
    );
    const at = { run, started, paused: false, rows: new Map(rows.map((row) => [row.task, row])) };
    const [first = ""] = progressFrame(at, { width: 60, height: 24 }, T0 + step * 20_000, plain);
    lengths.add(first.replace(/[^█░]/g, "").length);
    assert.match(first, /^r {2}[█░]+ {2}[ 1]\d\/12 merged {2}\S/);
  }
  assert.equal(lengths.size, 1);
});

test("O1: the live block fits every terminal, narrow and low ones too", () => {
  const rows = new Map(
    Array.from({ length: 50 }, (_, i) => {
      const row = { ...rowOf(makeTask(`task-with-a-long-name-${i}`, running())), note: "日本語 x".repeat(9) };
      return [row.task, row] as const;
    }),
  );
  for (const width of [10, 20, 39, 40, 80, 200]) {
    for (const height of [1, 2, 3, 10, 60]) {
      const lines = progressFrame({ ...model(), rows, trouble: "bus away" }, { width, height }, T0, plain);
      assert.ok(lines.length <= Math.max(3, height - 1), `${width}x${height}: ${lines.length} lines`);
      for (const line of lines) assert.ok(displayWidth(line) <= width, `${width}x${height}: ${line}`);
    }
  }
  const low = progressFrame({ ...model(), rows }, { width: 80, height: 10 }, T0, plain);
  assert.match(low.at(-1) ?? "", /and \d+ more running/);
});

test("bar: full only when all is merged", () => {
  assert.equal(bar(0, 0, 4, palette(false, false)), "----");
  assert.equal(bar(3, 4, 4, palette(false, false)), "###-");
  assert.equal(bar(999, 1000, 10, palette(false, false)), "#########-");
});

test("colours: only on a terminal, NO_COLOR and --no-color win", () => {
  assert.equal(wantsColor(true, {}, false), true);
  assert.equal(wantsColor(false, {}, false), false);
  assert.equal(wantsColor(true, { NO_COLOR: "1" }, false), false);
  assert.equal(wantsColor(true, { NO_COLOR: "" }, false), true);
  assert.equal(wantsColor(true, { TERM: "dumb" }, false), false);
  assert.equal(wantsColor(true, { FORCE_COLOR: "1" }, true), false);
  assert.equal(wantsUnicode({ LANG: "C" }), false);
  assert.equal(wantsUnicode({ LC_ALL: "en_US.UTF-8", LANG: "C" }), true);
});

test("times: few characters", () => {
  assert.deepEqual([0, 4_200, 37_000, 303_000, 7_620_000, 273_600_000].map(duration), [
    "0.0s",
    "4.2s",
    "37s",
    "5m 03s",
    "2h 07m",
    "3d 04h",
  ]);
  assert.equal(ticking(4_900), "4s");
  assert.equal(duration(Number.NaN), "0s");
  assert.equal(bytes(1536), "1.5 KiB");
});

test("rows: events move a row the way the task moves; what is not shown changes nothing", () => {
  const start = rowOf(makeTask("a", { name: "ready", since: iso(0) }));
  const claimed = applyRecord(
    start,
    record(1, "a", {
      type: "task.claimed",
      attempt: 1,
      worker: "w",
      base: OID,
      workspace: "/w",
      lease_until: iso(9),
    }),
  );
  assert.deepEqual(
    [claimed.shown, claimed.attempt, claimed.detail, claimed.since],
    ["running", 1, "prepare", T0 + 1_000],
  );
  const phase = applyRecord(claimed, record(2, "a", { type: "task.phase", attempt: 1, phase: "agent" }));
  assert.deepEqual([phase.detail, phase.since], ["agent", T0 + 1_000]);
  assert.equal(
    applyRecord(phase, record(3, "a", { type: "task.lease", attempt: 1, lease_until: iso(9) })),
    phase,
  );
  const landed = applyRecord(
    phase,
    record(4, "a", { type: "task.landed", attempt: 1, commit: OID2, tree: OID }),
  );
  assert.deepEqual([landed.shown, landed.note, landed.detail], ["merged", OID2.slice(0, 10), ""]);
  assert.equal(isResting(landed.shown), true);
  assert.equal(isResting(phase.shown), false);
  assert.equal(countRows([landed, phase]).running, 1);
});

test("lines: one per change of state, plain and as JSON; progress of the agent gets none", () => {
  const failed = record(7, "a", {
    type: "task.failed",
    attempt: 2,
    cause: "check",
    evidence: { summary: "tests:\nexit 1", log: "", paths: [], landed_since: [] },
  });
  assert.match(changeLine(failed, plain, 80) ?? "", /^\d\d:\d\d:\d\d a failed #2 check tests: exit 1$/);
  assert.deepEqual(
    (changeLine(failed, plain, 24) ?? "").split("\n").map((line) => line.slice(9)),
    ["a failed #2", "check tests:", "exit 1"],
  );
  assert.equal(changeLine(failed, palette(true), 80)?.includes(palette(true).red("failed")), true);
  assert.deepEqual(changeJson(failed), {
    type: "change",
    ts: iso(7_000),
    seq: 7,
    run: "r",
    task: "a",
    event: "task.failed",
    state: "failed",
    attempt: 2,
    detail: "check",
    note: "tests:\nexit 1",
  });
  const quiet = record(8, "a", { type: "task.progress", attempt: 2, status: "x", message: "" });
  assert.equal(changeLine(quiet, plain, 80), undefined);
  assert.equal(changeJson(quiet), undefined);
});
