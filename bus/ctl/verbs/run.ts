// `run`: from a plan to its end.
//
// 1. Plan and repository are checked; refused here means that nothing was started and nothing changed.
// 2. Bus and scheduler are started, as far as they are missing; they end by themselves when idle.
// 3. The plan is submitted. The same plan again is the same run: it is attached to, and that is said. Only the `run` that
//    began it cancels it at SIGTERM; one that attached, or added tasks, only leaves.
// 4. The run is watched to its end; the bus or scheduler is started again when it was killed meanwhile.

import { BusbarError, isCode } from "../../../schemas/errors.ts";
import { IDLE_EXIT_MS } from "../../../schemas/limits.ts";
import type { Params, Result } from "../../../schemas/methods.ts";
import { toRunSpec } from "../../../schemas/plan/draft.ts";
import { sandboxInForce, sandboxWish } from "../../../schemas/sandbox.ts";
import type { RunSpec } from "../../../schemas/task.ts";
import { preflight } from "../../git/probe.ts";
import { checkId } from "../address.ts";
import { announce, toldOf } from "../announce.ts";
import { attend } from "../attend.ts";
import { openBus } from "../connect.ts";
import { type Args, type Bus, type Ctx, sayJson, tell } from "../context.ts";
import { ensureUp } from "../daemons.ts";
import { EXIT } from "../exit-codes.ts";
import { checkInto } from "../into.ts";
import { thisHost } from "../launch.ts";
import { type CheckedPlan, defaultWorkers, readPlan } from "../plan-check.ts";
import { badPlan, hasErrors, planJson, problemsText, reportText } from "../plan-said.ts";
import { formerLines } from "../render/former.ts";
import { millis, plural } from "../render/time.ts";
import { hanging } from "../render/width.ts";
import { uncommittedFiles, uncommittedNote } from "../uncommitted.ts";
import { unmergedBranches, unmergedNote } from "../unmerged.ts";

const SUBMIT_TRIES = 3;
/** Longer than the scheduler is silent between two steps of what it lets go on beside a pause; a check alone may take longer. */
const STILL_MS = 20_000;

export function run(ctx: Ctx, args: Args): Promise<number> {
  return runPlan(ctx, args, args.flag("detach"));
}

export async function runPlan(ctx: Ctx, args: Args, detach: boolean): Promise<number> {
  const addTo = args.text("add-to");
  if (addTo !== undefined) checkId("run", addTo);
  const known = addTo === undefined ? undefined : idsOf(addTo, !args.flag("dry-run"));
  const checked = await readPlan(ctx, { ...wishesOf(args), ...(known ? { known } : {}) });
  if (!ctx.json) ctx.io.err(problemsText(checked, ctx));
  if (hasErrors(checked.problems) || !checked.draft || !checked.repo) throw badPlan(checked);
  const spec = specOf(args, checked);
  const warnings = await warningsOf(checked, spec, addTo);
  if (!ctx.json) for (const warning of warnings) ctx.io.err(warningText(ctx, warning));
  if (args.flag("dry-run")) return dryRun(ctx, checked, spec, warnings);

  const { commonDir } = checked.repo.facts;
  const up = await ensureUp(commonDir, thisHost(), checked.config.idle_exit_ms);
  if (up.started.length > 0 && !ctx.json)
    ctx.io.err(ctx.p.dim(`started ${up.started.join(" and ")}, pid ${up.ping.pid}\n`));
  if (!ctx.json) for (const line of formerLines(ctx.p, up.ping.former)) ctx.io.err(`${line}\n`);
  const connect = async (): Promise<Bus> => {
    await ensureUp(commonDir, thisHost(), checked.config.idle_exit_ms);
    return openBus(commonDir);
  };
  const answer = await submit(ctx, connect, { spec, ...(addTo === undefined ? {} : { add_to: addTo }) });
  const own = !answer.attached && addTo === undefined;
  const words = async () => {
    const told = await toldOf(connect, spec, answer, addTo);
    const wish = sandboxWish(told.facts.sandbox, checked.config.sandbox);
    const inForce = { sandbox: sandboxInForce(wish, up.ping.sandbox), limits: up.ping.limits };
    await announce(ctx, { ...told, ...inForce, detach, own });
  };
  if (detach) {
    await words();
    return EXIT.ok;
  }
  return attend(ctx, {
    run: answer.run,
    fresh: !answer.attached,
    keepGoing: args.flag("keep-going"),
    // A person sees that it waits; a CI job would hang.
    stillMs: ctx.io.outTty || args.flag("keep-going") ? undefined : STILL_MS,
    connect,
    cancelOnTerm: own,
    announce: words,
    revive: async () => {
      const again = await ensureUp(commonDir, thisHost(), checked.config.idle_exit_ms);
      return again.started.length > 0 ? `started ${again.started.join(" and ")} again` : undefined;
    },
  });
}

function warningText({ io, p }: Ctx, warning: string): string {
  const [first = "", ...more] = hanging(`warning: ${warning}`, io.columns());
  return `${[p.yellow("warning:") + first.slice("warning:".length), ...more].join("\n")}\n`;
}

/** What is told before anything starts, and stops nothing. */
async function warningsOf(
  { repo, files }: CheckedPlan,
  spec: RunSpec,
  addTo: string | undefined,
): Promise<string[]> {
  if (!repo) return [];
  const run = addTo ?? spec.run;
  const { warnings } = await preflight(repo.facts, spec.base, run);
  const stuck = spec.into === undefined ? undefined : await checkInto(spec.repo, spec.into, spec.base);
  const unmerged = addTo === undefined ? await unmergedBranches(spec.repo, spec.base, run) : [];
  const beside = await uncommittedFiles(repo.facts, files);
  const notes = [stuck, unmergedNote(unmerged, spec.base_name), uncommittedNote(beside, spec.base_name)];
  return [...warnings, ...notes.filter((note) => note !== undefined)];
}

/**
 * A bus that is killed just then is started again: the same plan a second time is the same run, and still the one that we
 * began when it was taken by a call of ours whose answer was lost.
 */
async function submit(
  ctx: Ctx,
  connect: () => Promise<Bus>,
  params: Params<"submit_run">,
): Promise<Result<"submit_run">> {
  const began = ctx.now();
  for (let tries = 1; ; tries++) {
    let bus: Bus | undefined;
    try {
      bus = await connect();
      const answer = await bus.call("submit_run", params);
      if (!answer.attached || tries === 1) return answer;
      const { summary } = await bus.call("get_run", { run: answer.run });
      return { ...answer, attached: millis(summary.created) < began };
    } catch (error) {
      if (isCode(error, "RUN_EXISTS")) throw lostTo(error, params.spec.run);
      if (!isCode(error, "BUS_AWAY") || tries >= SUBMIT_TRIES) throw error;
    } finally {
      bus?.close();
    }
  }
}

function lostTo(error: BusbarError, run: string): BusbarError {
  const help = `Watch that one with \`busctl tasks --follow --run ${run}\`, cancel it with \`busctl cancel ${run}\`, or name this one with --name.`;
  return new BusbarError("RUN_EXISTS", error.message, { ...error.data, help });
}

/** The tasks of the run that is added to; only the bus knows them. */
function idsOf(run: string, mayStart: boolean) {
  return async (commonDir: string): Promise<ReadonlySet<string>> => {
    if (mayStart) await ensureUp(commonDir, thisHost(), IDLE_EXIT_MS);
    const bus = await openBus(commonDir);
    try {
      const { tasks } = await bus.call("list_tasks", { run });
      return new Set(tasks.map((task) => task.spec.id));
    } finally {
      bus.close();
    }
  };
}

function wishesOf(args: Args) {
  const name = args.text("name");
  return {
    path: args.word(0) ?? "",
    repoGiven: args.has("repo"),
    name: name === undefined ? undefined : checkId("run", name),
    base: args.text("base"),
    needRepo: true,
  };
}

function specOf(args: Args, { draft, repo, config }: CheckedPlan): RunSpec {
  if (!draft || !repo) throw new BusbarError("BAD_PLAN", "the plan could not be read");
  const into = args.text("into");
  const workers = args.whole("workers", 1);
  const spec = toRunSpec(draft, {
    repo: repo.facts.commonDir,
    base: repo.base.commit,
    base_name: repo.base.name,
    workers: defaultWorkers(config),
  });
  return { ...spec, ...(into === undefined ? {} : { into }), ...(workers === undefined ? {} : { workers }) };
}

async function dryRun(ctx: Ctx, checked: CheckedPlan, spec: RunSpec, warnings: string[]): Promise<number> {
  if (ctx.json) {
    await sayJson(ctx, {
      ...planJson(checked),
      dry_run: true,
      workers: spec.workers,
      into: spec.into ?? null,
      warnings,
    });
    return EXIT.ok;
  }
  if (checked.report) await ctx.io.out(reportText(checked.report, ctx));
  await tell(
    ctx,
    `would run ${plural(spec.tasks.length, "task")} as ${spec.run} on ${spec.base_name} ${spec.base.slice(0, 12)}, ${spec.workers} at once; nothing was started`,
  );
  return EXIT.ok;
}
