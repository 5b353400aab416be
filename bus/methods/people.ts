// Handlers for people: runs, tasks, decisions, the audit log.

import type { Config } from "../../schemas/config.ts";
import { BusbarError } from "../../schemas/errors.ts";
import { showId } from "../../schemas/ids.ts";
import { mustHold, stricter } from "../../schemas/limit-plan.ts";
import type { Result } from "../../schemas/methods.ts";
import { sandboxWish } from "../../schemas/sandbox.ts";
import { TIERS } from "../../schemas/shapes.ts";
import type { RunSpec, TaskSpec } from "../../schemas/task.ts";
import type { Handlers } from "../dispatch.ts";
import { approve, cancelTask, grantFiles, reject, retryTask } from "../state/decide-person.ts";
import { cancelRun, pause, planHash, resume, submit } from "../state/decide-run.ts";
import { runSummary } from "../state/status.ts";
import type { Store } from "../state/store.ts";
import type { Deps } from "./deps.ts";
import { metricsText } from "./metrics.ts";

export function peopleHandlers(deps: Deps): Handlers {
  const { store, random } = deps;
  return {
    submit_run: (ctx, p) => {
      const hash = planHash(p.spec);
      return store.change(ctx, (d) => {
        const answer = submit(d, p, ctx.actor, hash);
        if (!answer.attached) {
          mustKnowAgents(p.spec.tasks, deps.config);
          mustBeHeld(p.spec, deps);
          mustHaveSandbox(p.spec, deps);
        }
        return answer;
      });
    },
    list_runs: () => ({
      runs: [...store.view.runs()].map((run) => runSummary(run, store.view.tasks(run.run))),
      ...(store.gaps.length > 0 && { gaps: [...store.gaps] }),
    }),
    get_run: (_ctx, p) => getRun(store, p.run),
    list_tasks: (_ctx, p) => ({ tasks: listTasks(store, p.run, p.states) }),
    cancel: (ctx, p) =>
      store.change(ctx, (d) => {
        const one = p.task;
        return {
          cancelled:
            one === undefined ? cancelRun(d, p.run, ctx.actor) : cancelTask(d, p.run, one, ctx.actor),
        };
      }),
    retry_task: (ctx, p) => store.change(ctx, (d) => retryTask(d, p, ctx.actor)),
    approve: (ctx, p) => store.change(ctx, (d) => approve(d, p, ctx.actor)),
    reject: (ctx, p) => store.change(ctx, (d) => reject(d, p, ctx.actor, random)),
    grant_files: (ctx, p) => store.change(ctx, (d) => grantFiles(d, p, ctx.actor)),
    pause: (ctx, p) => store.change(ctx, (d) => pause(d, p.run, ctx.actor, p.why)),
    resume: (ctx, p) => store.change(ctx, (d) => resume(d, p.run, ctx.actor)),
    query_audit: (_ctx, p) => store.query(p),
    verify: () => store.verify(),
    metrics: () => ({ text: metricsText(deps) }),
  };
}

/** A profile may be younger than our configuration: better refused here than by every attempt. */
function mustKnowAgents(tasks: readonly TaskSpec[], { agents }: Config): void {
  for (const { id, agent } of tasks) {
    if (agent.use === "command" || Object.hasOwn(agents, agent.use)) continue;
    const known = ["command", ...Object.keys(agents)].join(", ");
    throw new BusbarError(
      "NO_SUCH_PROFILE",
      `task ${showId(id)} names the agent ${showId(agent.use)}, which the bus does not know (known: ${known})`,
      {
        task: id,
        profile: agent.use,
        help: "The bus read its configuration when it started: `busctl down`, `busctl up`, then again.",
      },
    );
  }
}

/** Better refused here than by every attempt. The scheduler asks again before it starts anything: it may be another one. */
function mustBeHeld({ tasks, gate }: Pick<RunSpec, "tasks" | "gate">, { config, workers }: Deps): void {
  const { limits: facts } = workers;
  if (facts === undefined) return;
  for (const { id, limits } of tasks) mustHold(stricter(limits, config.limits), facts, `task ${showId(id)}`);
  const checks = gate === "none" ? [] : TIERS.flatMap((tier) => gate[tier]);
  for (const { name, limits } of checks)
    mustHold(stricter(limits, config.limits), facts, `check ${showId(name)}`);
}

/** Asked before the run is there; what is lost later the scheduler finds at every start of a process. */
function mustHaveSandbox(spec: RunSpec, { config, workers }: Pick<Deps, "config" | "workers">): void {
  const { mode } = sandboxWish(spec.sandbox, config.sandbox);
  const facts = workers.sandbox;
  if (mode !== "required" || facts === undefined || facts.works) return;
  throw new BusbarError("SANDBOX_UNAVAILABLE", `a sandbox is required, and ${facts.said}`, {
    ...(facts.cure === undefined ? {} : { help: facts.cure }),
  });
}

function getRun(store: Store, id: string): Result<"get_run"> {
  const run = store.view.run(id);
  if (!run) throw new BusbarError("NO_SUCH_RUN", `there is no run ${showId(id)}`, { run: id });
  const tasks = [...store.view.tasks(id)];
  return { run, summary: runSummary(run, tasks), tasks, seq: store.seq };
}

function listTasks(
  store: Store,
  run: string | undefined,
  states: readonly string[] | undefined,
): Result<"list_tasks">["tasks"] {
  if (run !== undefined && !store.view.run(run)) {
    throw new BusbarError("NO_SUCH_RUN", `there is no run ${showId(run)}`, { run });
  }
  const runs = run === undefined ? [...store.view.runs()].map((r) => r.run) : [run];
  const all = runs.flatMap((id) => [...store.view.tasks(id)]);
  return states ? all.filter((task) => states.includes(task.state.name)) : all;
}
