// Specs, clocks and stores for tests of the state.

import { Base } from "../../bus/state/base.ts";
import { planHash, submit } from "../../bus/state/decide-run.ts";
import { Draft } from "../../bus/state/draft.ts";
import { Store } from "../../bus/state/store.ts";
import type { Log } from "../../schemas/ports.ts";
import { RunSpec, type TaskSpec } from "../../schemas/task.ts";

export const oid = (n: number): string => n.toString(16).padStart(40, "0");
export const BASE = oid(0xba5e);
export const T0 = Date.UTC(2030, 0, 1);

/** A task that needs nothing said: override what the test is about. */
export function taskSpec(id: string, over: Partial<TaskSpec> = {}): TaskSpec {
  return {
    id,
    goal: "g",
    interface: "",
    command: "true",
    agent: { use: "command", args: [] },
    priority: 100,
    depends_on: [],
    allowed_files: ["src/**"],
    forbidden_files: [],
    context_files: [],
    acceptance: [],
    prohibited_actions: [],
    timeout_s: 60,
    retries: 1,
    limits: {},
    env: { pass: [], set: {}, secret: [] },
    tags: [],
    checkout: "full",
    no_changes: "fail",
    review: false,
    changes_contracts: false,
    ...over,
  };
}

/** `{a: [], b: ["a"]}`: tasks by id with what they depend on. */
export function specsOf(graph: Record<string, string[]>): TaskSpec[] {
  return Object.entries(graph).map(([id, depends_on]) => taskSpec(id, { depends_on }));
}

export function runSpec(run: string, tasks: TaskSpec[], over: Partial<RunSpec> = {}): RunSpec {
  return RunSpec.parse({
    run,
    repo: "/repo/.git",
    base: BASE,
    base_name: "main",
    workers: 4,
    gate: "none",
    tasks,
    ...over,
  });
}

export class FakeClock {
  constructor(public ms = T0) {}
  now = () => this.ms;
  monotonic = () => performance.now();
}

export class MemoryLog implements Log {
  readonly lines: { level: string; message: string; facts?: Record<string, unknown> }[] = [];
  info = (message: string, facts?: Record<string, unknown>) => this.add("info", message, facts);
  warn = (message: string, facts?: Record<string, unknown>) => this.add("warn", message, facts);
  error = (message: string, facts?: Record<string, unknown>) => this.add("error", message, facts);
  private add(level: string, message: string, facts?: Record<string, unknown>) {
    this.lines.push({ level, message, ...(facts && { facts }) });
  }
}

export const HALF = () => 0.5;

/** A draft on an empty state with one run submitted; ask and decide on it as if it were committed. */
export function draftWith(tasks: TaskSpec[], over: Partial<RunSpec> = {}): Draft {
  const d = new Draft(new Base(), T0);
  const spec = runSpec("r", tasks, over);
  submit(d, { spec }, "person", planHash(spec));
  return d;
}

export function openStore(dir: string, over: Partial<Parameters<typeof Store.open>[0]> = {}): Promise<Store> {
  return Store.open({ dir, clock: new FakeClock(), log: new MemoryLog(), ...over });
}

/** The whole state as plain values, to be compared. */
export function dump(store: Pick<Store, "view">): unknown {
  return [...store.view.runs()].map((run) => ({
    run,
    tasks: [...store.view.tasks(run.run)].map((task) => ({
      task,
      snapshots: task.attempts.map((a) =>
        store.view
          .snapshots(run.run, task.spec.id, a.attempt)
          .map((s) => ({ ...s, changed: [...s.changed] })),
      ),
      reads: task.attempts.map((a) => [...store.view.readSet(run.run, task.spec.id, a.attempt)]),
    })),
  }));
}
