// busctl's verbs against a made-up bus: what they ask, what they print, how they end.

import assert from "node:assert/strict";
import { mkdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { test } from "node:test";
import { LogFile, TerminalLog } from "../../bus/ctl/log-file.ts";
import { adviceFor } from "../../bus/ctl/render/advice.ts";
import { run as approve } from "../../bus/ctl/verbs/approve.ts";
import { run as cancel } from "../../bus/ctl/verbs/cancel.ts";
import { run as cat } from "../../bus/ctl/verbs/cat.ts";
import { run as grant } from "../../bus/ctl/verbs/grant.ts";
import { run as logs } from "../../bus/ctl/verbs/logs.ts";
import { run as ls } from "../../bus/ctl/verbs/ls.ts";
import { run as reject } from "../../bus/ctl/verbs/reject.ts";
import { run as tasks } from "../../bus/ctl/verbs/tasks.ts";
import { moment } from "../../bus/ctl/verbs/tasks-audit.ts";
import { run as verify } from "../../bus/ctl/verbs/verify.ts";
import { BusbarError, isCode } from "../../schemas/errors.ts";
import type { Task } from "../../schemas/task.ts";
import {
  args,
  type FakeBus,
  fakeBus,
  fakeCtx,
  iso,
  makeAttempt,
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
import { tempDir } from "../helpers/temp.ts";

function busOf(all: Task[], more: Parameters<typeof fakeBus>[0] = {}): FakeBus {
  const find = ({ task }: { task: string }) => all.find((one) => one.spec.id === task);
  return fakeBus({
    list_runs: () => ({ runs: [makeSummary(all)] }),
    ping: () => ({ worker: "w" }),
    list_tasks: () => ({ tasks: all }),
    get_task: (params: { task: string }) => ({ task: find(params), run: makeRun(all) }),
    ...more,
  });
}

const ALL = [
  makeTask("done", merged(), { attempts: [makeAttempt(1, { ended: iso(4_000), result: "passed" })] }),
  makeTask("busy", running()),
  makeTask("stuck", usedUp(), { attempts: [makeAttempt(1)] }),
  makeTask("later", {
    name: "blocked",
    since: iso(1),
    needs: { kind: "upstream", root: "stuck", state: "blocked", cause: "check" },
  }),
];

test("O1: tasks prints the table, with counts and reasons", async () => {
  const ctx = fakeCtx(busOf(ALL), { tty: true, width: 100 });
  assert.equal(await tasks(ctx, args([])), 0);
  const text = ctx.written();
  assert.match(text, /1\/4 merged {2}1 running {2}2 blocked/);
  assert.match(text, /✓ {2}merged +done/);
  assert.match(text, /stuck +2 +#1 +check .*check tests: exit 1/);
  assert.match(text, /stuck is blocked \(check\)/);
});

test("case 70 disk-full: tasks says that state cannot be written, and shows it all the same", async () => {
  const degraded = "state cannot be written: ENOSPC";
  const bus = busOf(ALL, { ping: () => ({ worker: "w", degraded }) });
  const ctx = fakeCtx(bus, { width: 100 });
  assert.equal(await tasks(ctx, args([])), 0);
  assert.match(ctx.written(), /^! state cannot be written: ENOSPC; .*\n(.*\n)+.*merged +done/);
  const json = fakeCtx(bus, { json: true });
  await tasks(json, args([]));
  assert.equal(JSON.parse(json.written()).degraded, degraded);
});
test("O1: tasks --json has a stable shape", async () => {
  const ctx = fakeCtx(busOf(ALL), { json: true });
  await tasks(ctx, args([]));
  const { runs } = JSON.parse(ctx.written());
  assert.equal(runs[0].run, "r");
  assert.deepEqual(
    runs[0].tasks.map((one: { task: string; state: string }) => [one.task, one.state]),
    [
      ["done", "merged"],
      ["busy", "running"],
      ["stuck", "blocked"],
      ["later", "blocked"],
    ],
  );
  assert.equal(runs[0].tasks[2].cause, "check");
  assert.equal(runs[0].tasks[0].commit, OID2);
  assert.match(runs[0].tasks[2].advice.commands[0], /^busctl logs r\/stuck/);
});

test("O1: tasks --task shows what a person needs to decide, and the commands", async () => {
  const ctx = fakeCtx(busOf(ALL), { tty: true, width: 80 });
  await tasks(ctx, args([], { task: "r/stuck" }));
  const text = ctx.written();
  for (const part of [
    "r/stuck",
    "goal of stuck",
    "may change",
    "test -f stuck.txt",
    "#1",
    "| boom",
    "busctl retry r/stuck",
  ])
    assert.ok(text.includes(part), part);
});

test("advice: where a check was red its own log is named, fit for a shell", () => {
  const task = makeTask("t", usedUp());
  if (task.state.name === "blocked" && task.state.needs.kind === "retries_used")
    task.state.needs.evidence.check = "it's red";
  assert.equal(adviceFor(task)?.commands[0], "busctl logs r/t --check 'it'\\''s red' --tail 50");
  assert.equal(adviceFor(makeTask("m", merged())), undefined);
});

test("case 62 stale-socket: tasks says that nothing runs and starts nothing", async () => {
  await assert.rejects(tasks(fakeCtx(undefined), args([])), { code: "BUS_AWAY", message: /not running/ });
});

test("O1: tasks --audit passes the filters on and prints one record a line", async () => {
  const bus = busOf(ALL, {
    query_audit: () => ({
      records: [
        {
          ...record(4, "done", undefined),
          kind: "access",
          method: "get_file",
          access: { path: "a\nb" },
          response_time_ms: 0.5,
        },
        record(3, "done", { type: "task.ready" }),
      ],
    }),
  });
  const ctx = fakeCtx(bus);
  await tasks(ctx, args([], { audit: true, task: "done", method: "get_file", since: "10m", limit: "5" }));
  const [, query] = bus.calls.filter((one) => one.method !== "list_runs");
  assert.deepEqual(query?.params, {
    run: "r",
    task: "done",
    method: "get_file",
    since: new Date(T0 + 10_000 - 600_000).toISOString(),
    newest: true,
    limit: 5,
  });
  const lines = ctx.written().trimEnd().split("\n");
  assert.equal(lines.length, 2);
  assert.match(lines[1] ?? "", /get_file r\/done a b 0\.50ms/);
  await assert.rejects(tasks(ctx, args([], { method: "get_file" })), /--method goes with --audit/);
  assert.throws(() => moment("since", "yesterday", T0), { code: "USAGE" });
});

test("O1: tasks --audit leaves greetings out for people, unless named or failed; JSON has them all", async () => {
  const greet = (seq: number, method: string, more = {}) => ({
    ...record(seq, undefined, undefined),
    kind: "access",
    method,
    access: {},
    ...more,
  });
  const records = [
    greet(6, "ping"),
    greet(5, "hello", { access: { error: "BAD_TOKEN" } }),
    greet(4, "hello"),
    record(3, "done", { type: "task.ready" }),
  ];
  const lines = async (values: Record<string, unknown>, json = false) => {
    const ctx = fakeCtx(busOf(ALL, { query_audit: () => ({ records }) }), { json });
    await tasks(ctx, args([], { audit: true, ...values }));
    return ctx.written().trimEnd().split("\n");
  };
  assert.match((await lines({})).join("\n"), /^\S+ +3 .*task\.ready.*\n\S+ +5 .*hello.*BAD_TOKEN.*$/);
  assert.match((await lines({ limit: "1" })).join("\n"), /^\S+ +5 .*$/);
  assert.equal((await lines({ method: "ping" })).length, 4);
  assert.equal((await lines({}, true)).length, 4);
});

test("cat: bytes as they are; links are shown as links; a terminal gets no escape sequence", async () => {
  const answer = (content: string, more = {}) => ({
    content,
    encoding: "base64",
    oid: OID,
    mode: "100644",
    size: 1,
    version: 1,
    commit: OID,
    request_id: "x",
    response_time_ms: 1,
    ...more,
  });
  const bytes = Buffer.from([0, 255, 10, 27, 91, 50, 74]);
  const binary = busOf(ALL, { get_file: () => answer(bytes.toString("base64")) });
  const pipe = fakeCtx(binary);
  await cat(pipe, args(["done:dir/a b.bin"]));
  assert.deepEqual(pipe.bytes(), bytes);
  assert.deepEqual(binary.calls.at(-1)?.params, { run: "r", task_id: "done", path: "dir/a b.bin" });
  const tty = fakeCtx(binary, { tty: true });
  await cat(tty, args(["done:x"]));
  assert.ok(!tty.written().includes("\x1b"));
  const link = fakeCtx(
    busOf(ALL, { get_file: () => answer("../target", { encoding: "utf8", mode: "120000" }) }),
  );
  await cat(link, args(["done:l"]));
  assert.equal(link.written(), "../target\n");
  assert.match(link.errors(), /symbolic link/);
});

test("case 45 get-file-escape: cat refuses paths before the bus is asked", async () => {
  for (const path of ["../x", "/etc/passwd", "a/.git/config", "a//b", ""]) {
    const bus = busOf(ALL);
    await assert.rejects(cat(fakeCtx(bus), args([`done:${path}`])), (e: { code?: string }) =>
      /BAD_PATH|USAGE/.test(e.code ?? ""),
    );
    assert.deepEqual(bus.calls, [], path);
  }
});

test("ls: goes on over pages, with the version of the first", async () => {
  const asked: unknown[] = [];
  const bus = busOf(ALL, {
    list_files: (params: { after?: string }) => {
      asked.push(params);
      const file = (path: string) => ({ path, mode: "100644", oid: OID });
      return params.after
        ? { version: 2, commit: OID, files: [file("b\n")] }
        : { version: 2, commit: OID, files: [file("a")], next: "a" };
    },
  });
  const ctx = fakeCtx(bus);
  await ls(ctx, args(["done:dir/"]));
  assert.equal(ctx.written(), "100644 aaaaaaaaaa a\n100644 aaaaaaaaaa b\\n\n");
  assert.deepEqual(asked[1], { run: "r", task_id: "done", prefix: "dir/", version: 2, after: "a" });
});

test("decisions: approve, reject with a reason, grant with and without paths", async () => {
  const bus = busOf(ALL, {
    approve: () => ({ state_version: 2 }),
    reject: () => ({ state_version: 2 }),
    grant_files: () => ({ state_version: 2, granted: ["x"] }),
  });
  const ctx = fakeCtx(bus);
  assert.equal(await approve(ctx, args(["stuck"])), 0);
  await assert.rejects(async () => reject(ctx, args(["stuck"])), /needs a reason/);
  await reject(ctx, args(["stuck"], { reason: "why" }));
  await grant(ctx, args(["stuck"]));
  await grant(ctx, args(["stuck", "x"]));
  const changes = bus.calls.filter((one) => !/^(list|get)_/.test(one.method)).map((one) => one.params);
  const of = { run: "r", task: "stuck" };
  assert.deepEqual(changes, [of, { ...of, reason: "why" }, of, { ...of, paths: ["x"] }]);
});

test("cancel: a task at once; a whole run only with --yes where nobody can be asked", async () => {
  const bus = busOf(ALL, { cancel: () => ({ cancelled: ["busy"] }) });
  await cancel(fakeCtx(bus), args(["busy"]));
  assert.deepEqual(bus.calls.at(-1)?.params, { run: "r", task: "busy" });
  await assert.rejects(cancel(fakeCtx(bus), args(["r"])), /needs --yes/);
  await cancel(fakeCtx(bus), args([], { yes: true }));
  assert.deepEqual(bus.calls.at(-1)?.params, { run: "r" });
});

test("verify: damaged is exit 1 and names the record", async () => {
  const ctx = fakeCtx(
    busOf(ALL, {
      verify: () => ({
        ok: false,
        records: 9,
        first_bad: { kind: "changed", seq: 4, file: "1.jsonl", line: 4, why: "mac" },
      }),
    }),
  );
  assert.equal(await verify(ctx, args([])), 1);
  assert.match(ctx.written(), /record 4: changed: mac\n {2}in 1\.jsonl, line 4/);
});

function attemptOnDisk(dir: string, log: string): Task {
  mkdirSync(join(dir, "checks"), { recursive: true });
  writeFileSync(join(dir, "context.json"), "{}");
  writeFileSync(join(dir, "agent.log"), log);
  writeFileSync(join(dir, "checks/1-unit-tests.log"), "old\n");
  writeFileSync(join(dir, "checks/3-unit-tests.log"), "check\n");
  const attempt = makeAttempt(1, { workspace: dir, ended: iso(5_000), result: "check" });
  return makeTask("busy", usedUp(), { attempts: [attempt] });
}

test("logs: whole, its end, a check's; a terminal gets no control characters", async (t) => {
  const task = attemptOnDisk(tempDir(t), "1\n2\n\x1b[31m3\x1b[0m\x07\n");
  const show = async (values: Record<string, unknown>, tty = false) => {
    const ctx = fakeCtx(busOf([task]), { tty });
    await logs(ctx, args(["busy"], values));
    return ctx.written();
  };
  assert.equal(await show({}), "1\n2\n\x1b[31m3\x1b[0m\x07\n");
  assert.equal(await show({ tail: "1" }, true), "3\\x07\n");
  assert.equal(await show({ check: "unit tests" }), "check\n");
  await assert.rejects(show({ check: "lint" }), { code: "NO_SUCH_FILE" });
  await assert.rejects(show({ attempt: "7" }), /no attempt 7/);
});

test("logs: an empty log is said to be empty, beside an output that stays empty", async (t) => {
  const dir = tempDir(t);
  const task = attemptOnDisk(dir, "");
  writeFileSync(join(dir, "checks/4-lint.log"), "");
  const show = async (values: Record<string, unknown>) => {
    const ctx = fakeCtx(busOf([task]), {});
    assert.equal(await logs(ctx, args(["busy"], values)), 0);
    return [ctx.written(), ctx.errors()];
  };
  assert.deepEqual(await show({}), ["", "the agent's log of attempt 1 is empty: nothing was printed\n"]);
  assert.deepEqual(await show({ check: "lint" }), [
    "",
    'the log of check "lint" of attempt 1 is empty: nothing was printed\n',
  ]);
  assert.deepEqual(await show({ check: "unit tests", tail: "0" }), ["", ""]);
});

test("case 38 runaway-output: the end of a large log is found without reading all of it", (t) => {
  const path = join(tempDir(t), "log");
  writeFileSync(path, `${"x".repeat(99)}\n`.repeat(20_000));
  const file = new LogFile(path);
  t.after(() => file.close());
  file.tail(1_500);
  let size = 0;
  for (let piece = file.next(); piece; piece = file.next()) size += piece.length;
  assert.equal(size, 150_000);
  file.tail(0);
  assert.equal(file.next(), undefined);
});

test("a log cut anywhere inside a character or an escape is shown the same", () => {
  const bytes = Buffer.from("añ\x1b[31m日本\x1b[0m\r\nnext\rover\n");
  for (let at = 0; at <= bytes.length; at++) {
    const log = new TerminalLog();
    assert.equal(
      log.take(bytes.subarray(0, at)) + log.take(bytes.subarray(at)) + log.flush(),
      "añ日本\nnext\nover\n",
    );
  }
});

test("O1: the audit log has a heading on a terminal, and nothing but records in a pipe", async () => {
  const one = record(3, "done", { type: "task.ready" });
  for (const tty of [true, false]) {
    const ctx = fakeCtx(busOf(ALL, { query_audit: () => ({ records: [one] }) }), { tty });
    await tasks(ctx, args([], { audit: true }));
    const [first = "", second] = ctx.written().split("\n");
    const line = tty ? second : first;
    if (tty) assert.match(first, /^time +seq who what run\/task#attempt/);
    assert.match(line ?? "", / {6}3 bus task\.ready r\/done$/);
    assert.equal(
      first.indexOf(" seq ") + 4,
      tty ? (line ?? "").indexOf("3 bus") + 1 : 3,
      "seq stands over its numbers",
    );
  }
});

test("following the audit log or an agent's log ends with a word when the bus goes", async () => {
  const bus = busOf(ALL, { query_audit: () => ({ records: [] }), subscribe: () => ({ seq: 1 }) });
  const end = tasks(fakeCtx(bus), args([], { audit: true, follow: true }));
  bus.drop();
  await assert.rejects(
    end,
    (e) => isCode(e, "BUS_AWAY") && /the bus has gone; nothing more comes/.test(e.message),
  );
});

test("cancel of a name that nobody has: neither run nor task, with the nearest of either", async () => {
  const get_task = ({ task }: { task: string }) => {
    const found = ALL.find((one) => one.spec.id === task);
    if (!found) throw new BusbarError("NO_SUCH_TASK", "no");
    return { task: found, run: makeRun(ALL) };
  };
  const named = (word: string) => cancel(fakeCtx(busOf(ALL, { get_task })), args([word]));
  await assert.rejects(named("nope"), /^BusbarError: there is no run and no task "nope"$/);
  await assert.rejects(named("stuk"), /there is no run and no task "stuk"; did you mean stuck\?/);
  await assert.rejects(named("r/nope"), /run r has no task "nope"/);
  await assert.rejects(named("s/done"), /there is no run "s"/);
});
