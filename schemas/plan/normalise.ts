// From what a person wrote (input.ts) to the shapes of schemas/task.ts: defaults, shorthands, units.
//
// Who works: `command:` of the task; else agent of the task, of `defaults`, of the plan. The model: `model:` of the
// task, of that agent, of `defaults`. Lists and env of `defaults` are added to; all else is replaced. A preset of limits
// replaces the limits of `defaults`; single limits then stand over it.

import type { z } from "zod";
import { DEFAULT_RETRIES, DEFAULT_TIMEOUT_S } from "../limits.ts";
import type { Acceptance, Check, EnvSpec, Gate, TaskSpec } from "../task.ts";
import { acceptanceLine } from "./acceptance.ts";
import type { DefaultsInput, GateInput, PlanHead, TaskInput } from "./input.ts";
import { normaliseLimits } from "./limits-input.ts";
import { durationSeconds } from "./units.ts";

type AgentInput = NonNullable<TaskInput["agent"]>;
type Defaults = z.infer<typeof DefaultsInput>;

/** Adds a fault at a path of the input. */
export type Fault = (
  code: "agent" | "bad_value",
  path: (string | number)[],
  message: string,
  hint?: string,
) => void;

/** Shape and types of `input` are right already; what is left wrong goes to `fault`. */
export function normaliseTask(input: TaskInput, plan: PlanHead, fault: Fault): TaskSpec {
  const defaults = plan.defaults ?? {};
  const { command } = input;
  return {
    id: input.id,
    goal: (input.goal ?? "").trim(),
    interface: (input.interface ?? "").trim(),
    ...(command === undefined ? {} : { command }),
    agent: chooseAgent(input, plan, fault),
    priority: input.priority ?? defaults.priority ?? 100,
    depends_on: unique(input.depends_on),
    allowed_files: input.allowed_files,
    forbidden_files: both(defaults.forbidden_files, input.forbidden_files),
    context_files: unique(input.context_files),
    acceptance: (input.acceptance ?? []).map((item, i) => acceptance(item, ["acceptance", i], fault)),
    prohibited_actions: both(defaults.prohibited_actions, input.prohibited_actions),
    timeout_s: seconds(input.timeout ?? defaults.timeout),
    retries: input.retries ?? defaults.retries ?? DEFAULT_RETRIES,
    limits: normaliseLimits(input.limits, normaliseLimits(defaults.limits)),
    env: env(defaults.env, input.env),
    tags: both(defaults.tags, input.tags),
    checkout: input.checkout ?? defaults.checkout ?? "full",
    no_changes: input.no_changes ?? defaults.no_changes ?? "fail",
    review: input.review ?? defaults.review ?? false,
    changes_contracts: input.changes_contracts ?? false,
  };
}

/** Checks get names that are theirs alone; `fault` hears of a name given twice. */
export function normaliseGate(input: GateInput, fault: Fault): Gate | "none" {
  if (input === "none") return "none";
  const names = new Set<string>();
  const tier = (name: "shallow" | "middle" | "deep"): Check[] =>
    (input[name] ?? []).map((check, i) => {
      const c = typeof check === "string" ? { run: check } : check;
      if (c.name !== undefined && names.has(c.name))
        fault("bad_value", ["gate", name, i, "name"], `two checks are named ${JSON.stringify(c.name)}`);
      const label = c.name ?? freshName(c.run, names);
      names.add(label);
      return {
        name: label,
        run: c.run,
        inputs: c.inputs ?? [],
        timeout_s: seconds(c.timeout),
        limits: normaliseLimits(c.limits),
        ...(c.env === undefined ? {} : { env: env(undefined, c.env) }),
      };
    });
  return {
    setup: (input.setup ?? []).map((s) =>
      typeof s === "string" ? { run: s, key: [] } : { run: s.run, key: s.key ?? [] },
    ),
    shallow: tier("shallow"),
    middle: tier("middle"),
    deep: tier("deep"),
    ...(input.canary ? { canary: input.canary } : {}),
  };
}

function freshName(command: string, taken: ReadonlySet<string>): string {
  const short = command.trim().replace(/\s+/g, " ").slice(0, 60);
  for (let n = 2, name = short; ; n += 1) {
    if (!taken.has(name)) return name;
    name = `${short} (${n})`;
  }
}

function chooseAgent(input: TaskInput, plan: PlanHead, fault: Fault): TaskSpec["agent"] {
  const defaults: Defaults = plan.defaults ?? {};
  if (input.command !== undefined) {
    if (input.agent !== undefined)
      fault("agent", ["agent"], "both command and agent are given", "keep one of them");
    if (input.model !== undefined) fault("agent", ["model"], "a command has no model", "leave model out");
    return { use: "command", args: [] };
  }
  const written = input.agent ?? defaults.agent ?? plan.agent;
  if (written === undefined) {
    const hint = "add `command: ...`, or `agent: ...` here or in the plan";
    fault("agent", [], "neither command nor agent says who does the work", hint);
    return { use: "command", args: [] };
  }
  const agent = agentChoice(written);
  if (agent.use === "command")
    fault("agent", ["agent"], "the agent `command` needs a command line", "add `command: ...`");
  const model = input.model ?? agent.model ?? defaults.model;
  return model === undefined ? agent : { ...agent, model };
}

function agentChoice(input: AgentInput): TaskSpec["agent"] {
  if (typeof input === "string") return { use: input, args: [] };
  return {
    use: input.use,
    ...(input.model === undefined ? {} : { model: input.model }),
    args: input.args ?? [],
  };
}

function acceptance(item: string | Acceptance, path: (string | number)[], fault: Fault): Acceptance {
  const parts = typeof item === "string" ? acceptanceLine(item) : item;
  if (typeof parts === "string") {
    fault("bad_value", path, `this acceptance ${parts}`, "write {run: ..., text: ...}");
    return {};
  }
  if (parts.run === undefined && !parts.text?.trim())
    fault("bad_value", path, "this acceptance says nothing", "give run, text or both");
  return parts;
}

function seconds(value: string | number | undefined): number {
  return (value === undefined ? undefined : durationSeconds(value)) ?? DEFAULT_TIMEOUT_S;
}

function env(under: TaskInput["env"], over: TaskInput["env"]): EnvSpec {
  return {
    pass: both(under?.pass, over?.pass),
    set: { ...under?.set, ...over?.set },
    secret: both(under?.secret, over?.secret),
    ...(under?.secrets || over?.secrets ? { secrets: { ...under?.secrets, ...over?.secrets } } : {}),
  };
}

function both(first: readonly string[] = [], second: readonly string[] = []): string[] {
  return unique(first.length === 0 ? second : [...first, ...second]);
}

function unique(list: readonly string[] = []): string[] {
  return list.length < 2 ? [...list] : [...new Set(list)];
}
