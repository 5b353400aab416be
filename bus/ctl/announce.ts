// The first words about a run that a plan was submitted to: what the bus made of it, which may be another run than the
// plan names (its name is taken by one that has ended), or one with facts of its own (`--add-to`).

import { inForceLine, type LimitFacts } from "../../schemas/limit-plan.ts";
import type { Result } from "../../schemas/methods.ts";
import type { SandboxInForce } from "../../schemas/sandbox.ts";
import type { RunSpec } from "../../schemas/task.ts";
import { type Bus, type Ctx, say, tell } from "./context.ts";
import { plural } from "./render/time.ts";
import { wrap } from "./render/width.ts";

type RunFacts = Pick<RunSpec, "base" | "base_name" | "workers" | "gate" | "sandbox">;

export interface Told {
  answer: Result<"submit_run">;
  /** Of the run that the tasks are in. */
  facts: RunFacts;
  addedTo: boolean;
  /** The run of that name that has ended; the tasks are in a new one. */
  former: { run: string; merged: number; total: number } | undefined;
}

/** Where the plan alone does not say it, the bus is asked. */
export async function toldOf(
  connect: () => Promise<Bus>,
  spec: RunSpec,
  answer: Result<"submit_run">,
  addTo: string | undefined,
): Promise<Told> {
  const told: Told = { answer, facts: spec, addedTo: addTo !== undefined, former: undefined };
  if (addTo === undefined && answer.run === spec.run) return told;
  const bus = await connect();
  try {
    const { run, summary } = await bus.call("get_run", { run: addTo ?? spec.run });
    return addTo === undefined ? { ...told, former: summary } : { ...told, facts: run.spec };
  } finally {
    bus.close();
  }
}

interface Around {
  detach: boolean;
  /** SIGTERM cancels it. */
  own: boolean;
  limits: LimitFacts | undefined;
  sandbox: SandboxInForce;
}

export async function announce(ctx: Ctx, told: Told & Around): Promise<void> {
  const { facts, former, detach, own, limits, sandbox } = told;
  const { run } = told.answer;
  const held = limits && inForceLine(limits);
  if (ctx.json) {
    const { base, base_name } = facts;
    const more = { base, base_name, limits_by: held ?? null, sandbox, ended_before: former?.run ?? null };
    await ctx.io.out(`${JSON.stringify({ type: "submitted", ...told.answer, ...more })}\n`);
    return;
  }
  if (former) await sayFormer(ctx, former, run);
  await say(
    ctx,
    `${ctx.p.bold(run)}: ${whatOf(told)}, base ${facts.base_name} ${facts.base.slice(0, 12)}, ${facts.workers} at once`,
  );
  if (held !== undefined)
    await say(ctx, ...wrap(`limits: ${held}`, ctx.io.columns() - 4).map((line) => ctx.p.dim(`  ${line}`)));
  if (facts.gate === "none")
    await tell(ctx, "gate: none - only each task's own acceptance is proof", ctx.p.yellow);
  await tell(ctx, `sandbox: ${sandbox.said}`, sandbox.shut ? undefined : ctx.p.yellow);
  if (!detach && !own)
    await say(ctx, `  Ctrl-C and SIGTERM only leave it; to cancel it:  busctl cancel ${run}`);
  if (detach)
    await say(ctx, `  watch it:   busctl tasks --follow --run ${run}`, `  cancel it:  busctl cancel ${run}`);
}

function whatOf({ answer, addedTo }: Told): string {
  if (addedTo) return answer.attached ? "holds these tasks already" : `${plural(answer.tasks, "task")} added`;
  return answer.attached
    ? "runs already with exactly this plan; attached to it"
    : `${plural(answer.tasks, "task")} submitted`;
}

async function sayFormer(
  ctx: Ctx,
  { run, merged, total }: NonNullable<Told["former"]>,
  now: string,
): Promise<void> {
  await tell(
    ctx,
    `${run} has ended, ${merged} of ${plural(total, "task")} landed; the plan runs anew, from its base, as ${now}`,
    ctx.p.yellow,
  );
  await say(
    ctx,
    `  look at the first:  busctl tasks --run ${run}`,
    `  add tasks to it:    busctl run PLAN --add-to ${run}`,
  );
}
