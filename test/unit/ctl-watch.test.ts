// Watching a run: lines, JSON, the live block, signals, a bus that goes away, the end and its exit code.

import assert from "node:assert/strict";
import { test } from "node:test";
import { type AttendOptions, attend } from "../../bus/ctl/attend.ts";
import { LiveBlock } from "../../bus/ctl/live.ts";
import { palette } from "../../bus/ctl/render/palette.ts";
import { endLines } from "../../bus/ctl/render/summary.ts";
import { displayWidth } from "../../bus/ctl/render/width.ts";
import { follow } from "../../bus/ctl/verbs/tasks-follow.ts";
import { BusbarError } from "../../schemas/errors.ts";
import type { Task } from "../../schemas/task.ts";
import {
  args,
  type FakeBus,
  fakeBus,
  fakeCtx,
  iso,
  makeRun,
  makeSummary,
  makeTask,
  merged,
  OID,
  OID2,
  record,
  running,
  T0,
  usedUp,
} from "../helpers/ctl-fakes.ts";
import { until } from "../helpers/wait.ts";

const paused = (paused_why: string | undefined) => (paused_why === undefined ? {} : { paused_why });

/** A run whose state the test sets; `seq` is what get_run answers. */
function world(first: Task[]) {
  const state = {
    tasks: first,
    seq: 10,
    status: "active" as "active" | "paused" | "merged" | "incomplete" | "cancelled",
    why: undefined as string | undefined,
    full: false,
  };
  const make = () =>
    fakeBus({
      get_run: () => ({
        run: makeRun(state.tasks, { paused: state.status === "paused", ...paused(state.why) }),
        summary: makeSummary(state.tasks, { status: state.status, ...paused(state.why) }),
        tasks: state.tasks,
        seq: state.seq,
      }),
      subscribe: () => ({ seq: state.seq }),
      cancel: () => {
        if (state.full) throw new BusbarError("STORAGE", "writing journal: ENOSPC");
        return { cancelled: [] };
      },
      ping: () => ({ worker: "w" }),
    });
  const buses: FakeBus[] = [];
  const options: AttendOptions = {
    run: "r",
    fresh: true,
    keepGoing: false,
    cancelOnTerm: true,
    connect: async () => {
      buses.push(make());
      return buses.at(-1) as FakeBus;
    },
  };
  const subscribed = (n: number) =>
    until("the watch has subscribed", () => buses[n]?.calls.some((one) => one.method === "subscribe"));
  return { state, buses, options, subscribed };
}

const landed = (seq: number, task: string) =>
  record(seq, task, { type: "task.landed", attempt: 1, commit: OID2, tree: OID });

test("O1: one line per change of state, in order; the end says branch and command, exit 0", async () => {
  const { state, buses, options, subscribed } = world([
    makeTask("a", running()),
    makeTask("b", { name: "ready", since: iso(0) }),
  ]);
  const ctx = fakeCtx(undefined);
  const end = attend(ctx, options);
  await subscribed(0);
  assert.deepEqual(buses[0]?.calls.find((one) => one.method === "subscribe")?.params, {
    run: "r",
    from_seq: 10,
  });
  buses[0]?.emit(landed(10, "a")); // known already
  buses[0]?.emit(landed(11, "a"));
  state.tasks = [makeTask("a", merged()), makeTask("b", merged())];
  state.status = "merged";
  buses[0]?.emit(landed(12, "b"));
  assert.equal(await end, 0);
  const lines = ctx.written().split("\n");
  assert.match(lines[0] ?? "", /^\d\d:\d\d:\d\d a running #1 agent$/);
  assert.match(lines[1] ?? "", / a merged #1 bbbbbbbbbb$/);
  assert.match(lines[2] ?? "", / b merged #1 bbbbbbbbbb$/);
  assert.match(ctx.written(), /Take it over with: {2}git merge --ff-only busbar\/r\n/);
  assert.match(ctx.written(), /gate: none/);
});

test("exit 1 when tasks are left, with what a person can do", async () => {
  const { options, state } = world([makeTask("a", merged()), makeTask("b", usedUp())]);
  state.status = "incomplete";
  const ctx = fakeCtx(undefined);
  assert.equal(await attend(ctx, options), 1);
  assert.match(ctx.written(), /b: Its tries are used up \(check\)/);
  assert.match(ctx.written(), /busctl retry r\/b --feedback/);
});

test("--json: JSON lines, the last one of type end with the exit code", async () => {
  const { options, state, buses, subscribed } = world([makeTask("a", running())]);
  const ctx = fakeCtx(undefined, { json: true });
  const end = attend(ctx, options);
  await subscribed(0);
  state.tasks = [makeTask("a", merged())];
  state.status = "merged";
  buses[0]?.emit(landed(11, "a"));
  assert.equal(await end, 0);
  const values = ctx
    .written()
    .trimEnd()
    .split("\n")
    .map((line) => JSON.parse(line));
  assert.deepEqual(
    values.map((one) => one.type),
    ["tasks", "change", "end"],
  );
  assert.equal(values[2].exit, 0);
  assert.equal(values[2].take_over, "git merge --ff-only busbar/r");
});

test("Ctrl-C detaches: exit 130, says how to come back and how to cancel, cancels nothing", async () => {
  const { options, buses, subscribed } = world([makeTask("a", running())]);
  const ctx = fakeCtx(undefined);
  const end = attend(ctx, options);
  await subscribed(0);
  ctx.signal("SIGINT");
  assert.equal(await end, 130);
  assert.match(ctx.written(), /busctl tasks --follow --run r/);
  assert.match(ctx.written(), /busctl cancel r/);
  assert.ok(buses.every((bus) => bus.calls.every((one) => one.method !== "cancel")));
});

test("SIGTERM cancels the run and waits for its end", async () => {
  const { options, state, buses, subscribed } = world([makeTask("a", running())]);
  const ctx = fakeCtx(undefined);
  const end = attend(ctx, options);
  await subscribed(0);
  ctx.signal("SIGTERM");
  await until("cancel was asked", () =>
    buses.some((bus) => bus.calls.some((one) => one.method === "cancel")),
  );
  state.tasks = [makeTask("a", { name: "cancelled", since: iso(3), by: "person" })];
  state.status = "cancelled";
  buses[0]?.emit(record(11, "a", { type: "task.cancelled", by: "person" }));
  assert.equal(await end, 1);
});

test("SIGTERM while the bus cannot take a cancel: said once, asked again until it is taken", async () => {
  const { options, state, buses, subscribed } = world([makeTask("a", running())]);
  state.full = true;
  const ctx = fakeCtx(undefined);
  const end = attend(ctx, options);
  await subscribed(0);
  ctx.signal("SIGTERM");
  ctx.signal("SIGTERM");
  const asked = () => buses.filter((bus) => bus.calls.some((one) => one.method === "cancel")).length;
  await until("it was asked a second time", () => asked() === 2);
  state.full = false;
  await until("it was taken", () => /r is cancelled now/.test(ctx.errors()));
  assert.equal(ctx.errors().match(/ENOSPC; not cancelled yet, asked again until it is/g)?.length, 1);
  state.tasks = [makeTask("a", { name: "cancelled", since: iso(3), by: "person" })];
  state.status = "cancelled";
  buses[0]?.emit(record(11, "a", { type: "task.cancelled", by: "person" }));
  assert.equal(await end, 1);
});

test("issue 5.1: a run that the scheduler paused ends a watch that nobody sees, exit 4, with what to do", async () => {
  for (const json of [false, true]) {
    const proving = { ...running(), phase: "prove" } as Task["state"];
    const { options, state, buses, subscribed } = world([makeTask("a", running()), makeTask("b", proving)]);
    const ctx = fakeCtx(undefined, { json });
    const end = attend(ctx, { ...options, stillMs: 0 });
    await subscribed(0);
    state.status = "paused";
    state.why = "check x is red on the base; mend it and go on";
    buses[0]?.emit(record(11, undefined, { type: "run.paused", by: "scheduler:h", why: state.why }));
    const reads = () => buses[0]?.calls.filter((one) => one.method === "get_run").length;
    await until("the pause is told", () => /paused by scheduler|run.paused/.test(ctx.written()));
    assert.equal(reads(), 1, "an agent works");
    buses[0]?.emit(record(12, "a", { type: "task.phase", attempt: 1, phase: "prove" }));
    assert.equal(await end, 4);
    if (json) {
      const last = JSON.parse(ctx.written().trimEnd().split("\n").at(-1) ?? "");
      assert.deepEqual(last, { type: "paused", run: "r", why: state.why, exit: 4 });
    } else {
      assert.match(ctx.written(), /run paused by scheduler:h: check x .* and go on; then: busctl resume r$/m);
      assert.match(
        ctx.written(),
        /^Paused: r is not through.*: check x is red.*\n {2}go on and watch: +busctl resume r; /m,
      );
    }
  }
});

test("issue 5.1: on a terminal a paused run is waited for, and how it goes on is said, also to whoever comes later", async () => {
  const { options, state, buses, subscribed } = world([makeTask("a", running())]);
  state.status = "paused";
  state.why = "check x is red on the base";
  const ctx = fakeCtx(undefined, { tty: true, width: 60 });
  const end = attend(ctx, options);
  await subscribed(0);
  assert.match(ctx.written(), /! paused, goes on with: busctl resume r; why: check x/);
  buses[0]?.emit(record(11, undefined, { type: "run.resumed", by: "person" }));
  state.tasks = [makeTask("a", merged())];
  state.status = "merged";
  buses[0]?.emit(landed(12, "a"));
  assert.equal(await end, 0);
});

test("O8: a bus that goes away is found again; nothing is told twice, nothing is missed", async () => {
  const { options, state, buses, subscribed } = world([makeTask("a", running()), makeTask("b", running())]);
  const ctx = fakeCtx(undefined);
  const end = attend(ctx, options);
  await subscribed(0);
  buses[0]?.emit(landed(11, "a"));
  state.tasks = [makeTask("a", merged()), makeTask("b", merged())];
  state.seq = 12;
  state.status = "merged";
  buses[0]?.drop();
  await subscribed(1);
  assert.deepEqual(buses[1]?.calls.find((one) => one.method === "subscribe")?.params, {
    run: "r",
    from_seq: 11,
  });
  buses[1]?.emit(landed(11, "a"));
  buses[1]?.emit(landed(12, "b"));
  assert.equal(await end, 0);
  for (const task of ["a", "b"])
    assert.equal(ctx.written().match(new RegExp(` ${task} merged #1`, "g"))?.length, 1, ctx.written());
});

test("on a terminal: the block is drawn, taken away at the end, the cursor comes back", async () => {
  const { options, state, buses, subscribed } = world([makeTask("a", running())]);
  const ctx = fakeCtx(undefined, { tty: true, width: 60 });
  const end = attend(ctx, options);
  await subscribed(0);
  state.tasks = [makeTask("a", merged())];
  state.status = "merged";
  buses[0]?.emit(landed(11, "a"));
  await end;
  const text = ctx.written();
  assert.ok(text.indexOf("\x1b[?25l") < text.indexOf("\x1b[?25h"), "hidden, then shown");
  assert.equal(text.lastIndexOf("\x1b[?25l") < text.lastIndexOf("\x1b[?25h"), true);
  assert.match(text, /● a/);
});

test("the block goes up over wrapped lines after the terminal became narrower", () => {
  let width = 40;
  const ctx = fakeCtx(undefined, { tty: true });
  const block = new LiveBlock({ ...ctx.io, columns: () => width });
  block.draw(["x".repeat(39), "y".repeat(39)]);
  width = 20;
  block.draw(["new"]);
  block.end();
  assert.ok(ctx.written().includes("\x1b[3A\r\x1b[Jnew"));
});

test("the end table fits the width; many tasks: only what is not merged", () => {
  const tasks = [
    ...Array.from({ length: 60 }, (_, i) => makeTask(`t${i}`, merged())),
    makeTask("bad", usedUp()),
  ];
  const end = { run: makeRun(tasks), summary: makeSummary(tasks, { status: "incomplete" }), tasks };
  const lines = endLines(end, T0 + 9_000, palette(false), 60);
  assert.ok(lines.some((line) => line.includes("(60 merged tasks not listed)")));
  for (const line of lines.slice(0, 4)) assert.ok(displayWidth(line) <= 60, line);
});

test("O8: a bus that says it ends on purpose ends the watch, exit 3; nobody asks for it again", async () => {
  for (const [by, leave_running, text] of [
    ["person", false, /ended by a person \(busctl down\); r is not through\.\n.*busctl retry r\/TASK/],
    [
      "SIGTERM",
      true,
      /ended by SIGTERM; r is not through\.\n {2}go on and watch: +busctl up; busctl tasks --follow --run r/,
    ],
  ] as const) {
    const { buses, options, subscribed } = world([makeTask("a", running())]);
    const ctx = fakeCtx(undefined);
    const end = attend(ctx, options);
    await subscribed(0);
    buses[0]?.notify("shutdown", { leave_running, by });
    buses[0]?.drop();
    assert.equal(await end, 3);
    assert.match(ctx.written(), text);
    assert.equal(buses.length, 1);
  }
});

test("O8: a run that was through all the same when the bus ended on purpose is told as merged", async () => {
  const { state, buses, options, subscribed } = world([makeTask("a", running())]);
  const ctx = fakeCtx(undefined);
  const end = attend(ctx, options);
  await subscribed(0);
  state.tasks = [makeTask("a", merged())];
  state.status = "merged";
  buses[0]?.notify("shutdown", { leave_running: false, by: "person" });
  buses[0]?.emit(landed(11, "a"));
  assert.equal(await end, 0);
});

test("issue 2.6: SIGTERM to a watch of another's run only leaves it, and says how to come back or cancel", async () => {
  const { options, buses, subscribed } = world([makeTask("a", running())]);
  const ctx = fakeCtx(undefined);
  const end = attend(ctx, { ...options, cancelOnTerm: false });
  await subscribed(0);
  ctx.signal("SIGTERM");
  assert.equal(await end, 130);
  assert.match(ctx.written(), /r goes on\.\n.*tasks --follow --run r\n.*busctl cancel r/);
  assert.ok(buses.every((bus) => bus.calls.every((one) => one.method !== "cancel")));
});

test("issue 2.6: a bus that was away is told once, with how long; one that never went is not", async () => {
  for (const json of [false, true]) {
    const { options, state, buses, subscribed } = world([makeTask("a", running())]);
    const ctx = fakeCtx(undefined, { json });
    const end = attend(ctx, options);
    await subscribed(0);
    assert.doesNotMatch(ctx.written(), /away/);
    buses[0]?.drop();
    await subscribed(1);
    state.tasks = [makeTask("a", merged())];
    state.status = "merged";
    buses[1]?.emit(landed(11, "a"));
    assert.equal(await end, 0);
    const told = json ? /^\{"type":"away","ms":\d+\}$/gm : /^! the bus was away \d+\.\ds; went on$/gm;
    assert.equal(ctx.written().match(told)?.length, 1, ctx.written());
  }
});

test("issue 2.6: tasks --follow without a run says which one it follows, and takes in those that begin later", async () => {
  const runs = new Map<string, "active" | "merged">([
    ["old", "merged"],
    ["first", "active"],
  ]);
  const task = makeTask("a", merged());
  const summaries = () =>
    [...runs].map(([run, status], i) => makeSummary([task], { run, status, created: iso(i * 1_000) }));
  const followed: string[] = [];
  const connect = async () =>
    fakeBus({
      list_runs: () => ({ runs: summaries() }),
      ping: () => ({ worker: "w" }),
      subscribe: () => ({ seq: 1 }),
      get_run: ({ run }: { run: string }) => {
        if (followed.at(-1) !== run) followed.push(run);
        if (run === "first" && !runs.has("later")) runs.set("later", "active");
        else runs.set(run, "merged");
        const status = runs.get(run) as "merged";
        const summary = makeSummary([task], { run, status });
        return { run: makeRun([task], { run }), summary, tasks: [task], seq: 1 };
      },
    });
  const ctx = { ...fakeCtx(undefined), connect };
  const code = await follow(ctx, args([]));
  assert.equal(code, 0);
  assert.deepEqual(followed, ["first", "later"]);
  assert.match(ctx.errors(), /^following later$/m);
  assert.match(ctx.written(), /first: 1 of 1 merged[\s\S]*later: 1 of 1 merged/);
});
