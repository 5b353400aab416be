// Every method of the table with every role: FORBIDDEN or handed to its handler, and nothing before `hello`.

import assert from "node:assert/strict";
import { test } from "node:test";
import { Dispatcher, type Handlers, roleFault, type Session, strangerSession } from "../../bus/dispatch.ts";
import { type ErrorCode, isCode } from "../../schemas/errors.ts";
import { METHODS, type MethodName, ROLES, type Role } from "../../schemas/methods.ts";
import { jsonLog, systemClock } from "../../schemas/ports.ts";
import { FakeStore } from "../helpers/fake-store.ts";
import { outcomeOf } from "../helpers/outcomes.ts";

const NAMES = Object.keys(METHODS) as MethodName[];
const OID = "a".repeat(40);
const ATTEMPT = { run: "r", task: "t", attempt: 1 };

/** Params that pass the table, for each method that needs some. */
const PARAMS: Partial<Record<MethodName, unknown>> = {
  get_file: { path: "f" },
  task_status_update: { status: "s" },
  request_files: { paths: ["f"] },
  register: { kind: "agent", name: "n", pid: 2, start_time: "1" },
  heartbeat: { kind: "agent" },
  complete: { outcome: outcomeOf({ run: "r", task: "t", attempt: 1 }) },
  register_worker: { worker: "w", host: "h", pid: 2, start_time: "1", slots: 1 },
  claim: { run: "r", task: "t", state_version: 1, worker: "w", base: OID, workspace: "/w" },
  attempt_update: ATTEMPT,
  hold_attempt: { ...ATTEMPT, why: null },
  publish_snapshot: { ...ATTEMPT, base: OID, commit: OID, tree: OID, changed: [] },
  record_verdict: {
    ...ATTEMPT,
    verdict: { check: "c", tier: "deep", tree: OID, verdict: "pass", exit: 0, duration_ms: 1, command: "c" },
  },
  settle_attempt: { ...ATTEMPT, result: { kind: "needs_files" } },
  land: { ...ATTEMPT, old_head: OID, commit: OID, tree: OID },
  report_into: { run: "r", branch: "b", head: OID, moved: true },
  find_verdicts: { ...ATTEMPT, keys: ["0".repeat(64)] },
  inputs_changed: ATTEMPT,
  write_manifest: ATTEMPT,
  submit_run: undefined,
  get_run: { run: "r" },
  cancel: { run: "r" },
  retry_task: { run: "r", task: "t" },
  approve: { run: "r", task: "t" },
  reject: { run: "r", task: "t", reason: "no" },
  grant_files: { run: "r", task: "t" },
  pause: { run: "r" },
  resume: { run: "r" },
};

function bench() {
  const store = new FakeStore();
  const reached: string[] = [];
  const handlers = Object.fromEntries(
    NAMES.map((name) => [
      name,
      () => {
        reached.push(name);
        return {};
      },
    ]),
  ) as unknown as Handlers;
  const dispatcher = new Dispatcher({
    store,
    handlers,
    tokens: { check: () => undefined },
    clock: systemClock,
    log: jsonLog(() => {}),
    version: "0",
    life: "x",
  });
  return { store, reached, dispatcher };
}

function session(role: Role, greeted = true): Session {
  return { ...strangerSession({ notify: () => {}, onClose: () => {} }), role, greeted, actor: role };
}

async function codeOf(run: () => unknown): Promise<ErrorCode | "ok"> {
  try {
    await run();
    return "ok";
  } catch (error) {
    assert.ok(isCode(error, "FORBIDDEN", "INVALID_PARAMS", "NOT_GREETED", "METHOD_NOT_FOUND"), String(error));
    return error.code;
  }
}

test("B1: every method with every role is FORBIDDEN or reaches its handler, and is recorded (B4)", async () => {
  for (const role of ROLES) {
    for (const name of NAMES) {
      if (name === "hello") continue;
      const { store, reached, dispatcher } = bench();
      const code = await codeOf(() => dispatcher.call(name, PARAMS[name] ?? {}, session(role)));
      const expected = roleFault(name, role) ?? (name === "submit_run" ? "INVALID_PARAMS" : "ok");
      assert.equal(code, expected, `${name} as ${role}`);
      assert.deepEqual(reached, expected === "ok" ? [name] : []);
      assert.equal(store.records.length, 1);
      assert.equal(store.records[0]?.access?.error, expected === "ok" ? undefined : expected);
      assert.equal(typeof store.records[0]?.response_time_ms, "number");
    }
  }
});

test("B1: before hello only ping and hello are open", async () => {
  for (const name of NAMES) {
    if (name === "hello") continue;
    const { dispatcher } = bench();
    const code = await codeOf(() => dispatcher.call(name, PARAMS[name] ?? {}, session("agent", false)));
    assert.equal(code, name === "ping" ? "ok" : "NOT_GREETED", name);
  }
});

test("names of object members are no methods", async () => {
  for (const name of ["constructor", "__proto__", "toString", "hasOwnProperty", ""]) {
    const { dispatcher } = bench();
    assert.equal(await codeOf(() => dispatcher.call(name, {}, session("person"))), "METHOD_NOT_FOUND");
  }
});

test("complete: an outcome that is none is refused with its place", async () => {
  const { dispatcher } = bench();
  const ref = { run: "r", task: "t", attempt: 1 };
  const { limits_missing: _, ...less } = outcomeOf(ref);
  for (const [outcome, place] of [
    [less, "outcome.limits_missing"],
    [{ ...outcomeOf(ref), peak_rss: -1 }, "outcome.peak_rss"],
    [{ ...outcomeOf(ref), reason: "bored" }, "outcome.reason"],
    [{ ...outcomeOf(ref), started: "yesterday" }, "outcome.started"],
    [null, "outcome"],
  ] as const)
    await assert.rejects(
      async () => dispatcher.call("complete", { outcome }, session("shim")),
      (e) => isCode(e, "INVALID_PARAMS") && e.data.param === place,
      place,
    );
});

test("an unknown param is named and refused by every method with fixed params", async () => {
  for (const name of NAMES) {
    if (name === "ping" || name === "hello" || name === "submit_run") continue;
    const role = ROLES.find((each) => roleFault(name, each) === undefined)!;
    const { dispatcher } = bench();
    const params = { ...(PARAMS[name] as object), suprise: 1 };
    await assert.rejects(
      async () => dispatcher.call(name, params, session(role)),
      (e) => isCode(e, "INVALID_PARAMS") && e.message.includes("suprise") && e.data.param === "suprise",
      name,
    );
  }
});
