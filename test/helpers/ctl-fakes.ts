// A made-up terminal, a made-up bus in process, and tasks in any state, for the tests of busctl's verbs.

import type { BusClient } from "../../bus/client/client.ts";
import { Args, type Bus, type Ctx } from "../../bus/ctl/context.ts";
import { palette } from "../../bus/ctl/render/palette.ts";
import { BusbarError } from "../../schemas/errors.ts";
import type { EventNotice, JournalRecord } from "../../schemas/events.ts";
import type { MethodName, Notifications, RunSummary } from "../../schemas/methods.ts";
import type { AttemptRecord, Run, Task, TaskState } from "../../schemas/task.ts";

export const OID = "a".repeat(40);
export const OID2 = "b".repeat(40);
export const T0 = Date.parse("2026-01-02T03:04:05.000Z");
export const iso = (ms: number) => new Date(T0 + ms).toISOString();

export function makeTask(id: string, state: TaskState, more: Partial<Task> = {}): Task {
  return {
    run: "r",
    spec: {
      id,
      goal: `goal of ${id}`,
      interface: "",
      command: "true",
      agent: { use: "command", args: [] },
      priority: 100,
      depends_on: [],
      allowed_files: [`${id}.txt`],
      forbidden_files: [],
      context_files: [],
      acceptance: [{ run: `test -f ${id}.txt` }],
      prohibited_actions: [],
      timeout_s: 600,
      retries: 3,
      limits: {},
      env: { pass: [], set: {}, secret: [] },
      tags: [],
      checkout: "full",
      no_changes: "fail",
      review: false,
      changes_contracts: false,
    },
    wave: 1,
    state,
    state_version: 1,
    attempts: [],
    counts: {},
    granted: [],
    ...more,
  };
}

export const merged = (): TaskState => ({
  name: "passed",
  attempt: 1,
  since: iso(4_000),
  snapshot: { version: 1, commit: OID2, tree: OID, changed_count: 1 },
  base: OID,
  merged: { commit: OID2, at: iso(5_000) },
});

export const running = (attempt = 1): TaskState => ({
  name: "running",
  attempt,
  worker: "w",
  phase: "agent",
  since: iso(1_000),
  lease_until: iso(60_000),
  workspace: "/nowhere",
  base: OID,
});

export const usedUp = (): TaskState => ({
  name: "blocked",
  since: iso(6_000),
  needs: {
    kind: "retries_used",
    cause: "check",
    evidence: { summary: "check tests: exit 1", log: "boom\n", paths: [], landed_since: [] },
  },
});

export function makeAttempt(n: number, more: Partial<AttemptRecord> = {}): AttemptRecord {
  return {
    attempt: n,
    worker: "w",
    base: OID,
    workspace: "/nowhere",
    started: iso(1_000),
    snapshots: [{ version: 1, commit: OID2, tree: OID, changed_count: 2 }],
    verdicts: [],
    ...more,
  };
}

export function makeRun(tasks: readonly Task[], more: Partial<Run> = {}): Run {
  return {
    run: "r",
    spec: {
      run: "r",
      repo: "/repo/.git",
      base: OID,
      base_name: "main",
      workers: 2,
      schedule: "eager",
      reads: "dependencies",
      gate: "none",
      protect: [],
      serial: [],
      contracts: [],
      sandbox: "auto",
    },
    plan_hash: "h",
    created: iso(0),
    by: "person",
    paused: false,
    head: OID,
    landed: [],
    order: tasks.map((task) => task.spec.id),
    ...more,
  };
}

export function makeSummary(tasks: readonly Task[], more: Partial<RunSummary> = {}): RunSummary {
  const counts: Record<string, number> = {};
  for (const task of tasks) counts[task.state.name] = (counts[task.state.name] ?? 0) + 1;
  const landed = tasks.filter((task) => task.state.name === "passed" && task.state.merged).length;
  return {
    run: "r",
    status: "active",
    repo: "/repo/.git",
    base: OID,
    base_name: "main",
    branch: "busbar/r",
    head: landed > 0 ? OID2 : OID,
    created: iso(0),
    counts,
    total: tasks.length,
    merged: landed,
    gate: "none",
    ...more,
  };
}

export function record(seq: number, task: string | undefined, event: JournalRecord["event"]): JournalRecord {
  return {
    v: 1,
    seq,
    ts: iso(seq * 1_000),
    kind: "event",
    actor: "bus",
    run: "r",
    ...(task === undefined ? {} : { task }),
    ...(event ? { event } : {}),
  };
}

type Answers = { [M in MethodName]?: (params: never) => unknown };

export interface FakeBus extends Bus {
  calls: { method: MethodName; params: unknown }[];
  emit(record: EventNotice): void;
  notify<N extends keyof Notifications>(name: N, params: Notifications[N]): void;
  drop(): void;
}

/** Answers from `answers`; a method that is not there is an error of the test. */
export function fakeBus(answers: Answers): FakeBus {
  const listeners = new Map<string, Set<(params: never) => void>>();
  const notify: FakeBus["notify"] = (name, params) => {
    for (const fn of listeners.get(name) ?? []) fn(params as never);
  };
  let drop: () => void = () => {};
  const closed = new Promise<void>((resolve) => {
    drop = resolve;
  });
  const calls: FakeBus["calls"] = [];
  const call = async (method: MethodName, params: unknown) => {
    calls.push({ method, params });
    const answer = answers[method];
    if (!answer) throw new BusbarError("METHOD_NOT_FOUND", `the fake bus does not know ${method}`);
    return answer(params as never);
  };
  return {
    calls,
    call: call as BusClient["call"],
    on: ((name: string, fn: (params: never) => void) => {
      const all = listeners.get(name) ?? new Set();
      listeners.set(name, all.add(fn));
      return () => all.delete(fn);
    }) as BusClient["on"],
    closed,
    close: () => drop(),
    notify,
    emit: (one) => notify("event", one),
    drop: () => drop(),
  };
}

export interface FakeCtx extends Ctx {
  written(): string;
  errors(): string;
  bytes(): Buffer;
  signal(name: "SIGINT" | "SIGTERM" | "SIGHUP"): void;
}

export function fakeCtx(
  bus: Bus | undefined,
  more: { tty?: boolean; json?: boolean; width?: number } = {},
): FakeCtx {
  const out: Buffer[] = [];
  let err = "";
  const handlers = new Map<string, Set<() => void>>();
  const tty = more.tty ?? false;
  return {
    io: {
      out: async (text) => {
        out.push(Buffer.from(text));
      },
      err: (text) => {
        err += text;
      },
      outTty: tty,
      inTty: false,
      columns: () => more.width ?? (tty ? 80 : Number.POSITIVE_INFINITY),
      rows: () => 24,
      onResize: () => () => {},
    },
    env: { LANG: "C.UTF-8" },
    dir: "/",
    json: more.json ?? false,
    p: palette(false),
    now: () => T0 + 10_000,
    connect: async () => {
      if (bus) return bus;
      throw new BusbarError("BUS_AWAY", "not running: no bus works on /repo/.git");
    },
    onSignal: (name, fn) => {
      const all = handlers.get(name) ?? new Set();
      handlers.set(name, all.add(fn));
      return () => all.delete(fn);
    },
    written: () => Buffer.concat(out).toString("utf8"),
    bytes: () => Buffer.concat(out),
    errors: () => err,
    signal: (name) => {
      for (const fn of handlers.get(name) ?? []) fn();
    },
  };
}

export function args(words: string[], values: Record<string, unknown> = {}): Args {
  return new Args(words, new Map(Object.entries(values)));
}
