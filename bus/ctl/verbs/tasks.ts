// `tasks`: the table, one task, or the audit log. Starts nothing; when the bus does not run that is said
// within 2 s with exit code 3 (case 62).

import type { Gap, RunSummary } from "../../../schemas/answers.ts";

import { byInterest, isLive, parseAddress, resolveRun, resolveTask } from "../address.ts";
import { ping } from "../connect.ts";
import { type Args, type Bus, type Ctx, say, sayJson, usage } from "../context.ts";
import { EXIT } from "../exit-codes.ts";
import { standingWord } from "../render/outcome.ts";
import { bar, countRows, countWords } from "../render/progress.ts";
import { rowOf, timeOf } from "../render/row.ts";
import { taskTable } from "../render/summary.ts";
import { taskJson } from "../render/task-json.ts";
import { taskScreen } from "../render/task-screen.ts";
import { displayWidth, hanging, oneLine, wrap } from "../render/width.ts";
import { unknownBranches, unknownBranchLines } from "../unknown-branches.ts";

const AUDIT_ONLY = ["method", "actor", "request-id", "since", "until", "limit", "newest"] as const;

export async function run(ctx: Ctx, args: Args): Promise<number> {
  if (!args.flag("audit")) {
    const stray = AUDIT_ONLY.find((name) => args.has(name));
    if (stray) throw usage(`--${stray} goes with --audit`);
  }
  const task = args.text("task");
  const address = task === undefined ? undefined : parseAddress(task);
  if (args.flag("audit")) return (await import("./tasks-audit.ts")).audit(ctx, args, address);
  if (args.flag("follow") && !address) return (await import("./tasks-follow.ts")).follow(ctx, args);
  const bus = await ctx.connect();
  try {
    if (address) {
      if (address.run === undefined && args.text("run") !== undefined) address.run = args.text("run") ?? "";
      await oneTask(ctx, bus, address);
      return EXIT.ok;
    }
    const { gaps = [], runs: known } = await bus.call("list_runs", {});
    const branches = await unknownBranches(ctx, known);
    await table(ctx, bus, await chosen(bus, args.text("run")), { gaps, branches });
    return EXIT.ok;
  } finally {
    bus.close();
  }
}

async function oneTask(ctx: Ctx, bus: Bus, address: ReturnType<typeof parseAddress>): Promise<void> {
  const { task, run } = await resolveTask(bus, address);
  if (ctx.json)
    await sayJson(ctx, { ...taskJson(task), spec: task.spec, attempts: task.attempts, base: run.spec.base });
  else await say(ctx, ...taskScreen(task, run, ctx.now(), ctx.p, Math.min(ctx.io.columns(), 120)));
}

/** The run asked for; `all`; else the live ones; else the newest. */
async function chosen(bus: Bus, name: string | undefined): Promise<RunSummary[]> {
  if (name !== undefined && name !== "all") return [await resolveRun(bus, name)];
  const ordered = byInterest((await bus.call("list_runs", {})).runs);
  if (name === "all") return ordered;
  const live = ordered.filter(isLive);
  return live.length > 0 ? live : ordered.slice(0, 1);
}

async function table(
  ctx: Ctx,
  bus: Bus,
  runs: readonly RunSummary[],
  { gaps, branches }: { gaps: readonly Gap[]; branches: readonly string[] },
): Promise<void> {
  const { degraded } = await ping(bus, 5_000);
  const all = [];
  for (const summary of runs) {
    const { tasks } = await bus.call("list_tasks", { run: summary.run });
    all.push({ summary, tasks });
  }
  if (ctx.json) {
    await sayJson(ctx, {
      degraded: degraded ?? null,
      runs: all.map(({ summary, tasks }) => ({ ...summary, tasks: tasks.map(taskJson) })),
      ...(gaps.length > 0 && { gaps }),
      ...(branches.length > 0 && { unknown_branches: branches }),
    });
    return;
  }
  if (degraded !== undefined) await say(ctx, ctx.p.red(`! ${degraded}; nothing new starts until it can`));
  for (const { from, to, at } of gaps) {
    const line = `records ${from} to ${to} of the audit log are lost, found on ${at.slice(0, 10)}; busctl verify says more`;
    await say(ctx, ...wrap(line, ctx.io.columns()).map((part) => ctx.p.yellow(part)));
  }
  await say(ctx, ...unknownBranchLines(ctx, branches));
  if (all.length === 0) await say(ctx, "no run yet; `busctl run plan.yaml` starts one");
  const now = ctx.now();
  for (const [i, { summary, tasks }] of all.entries()) {
    if (i > 0) await say(ctx, "");
    await say(ctx, ...headLines(ctx, summary, tasks.map(rowOf)));
    await say(ctx, ...taskTable(tasks, (row) => timeOf(row, now), ctx.p, ctx.io.columns()));
  }
}

/** One line, or two where that is too wide; one more says why the run is paused. */
function headLines(ctx: Ctx, summary: RunSummary, rows: readonly ReturnType<typeof rowOf>[]): string[] {
  const { p } = ctx;
  const words = countWords(countRows(rows), p);
  const tally = `${summary.merged}/${summary.total} merged`;
  const first = [p.bold(summary.run), bar(summary.merged, summary.total, 16, p), tally, words]
    .filter((part) => part !== "")
    .join("  ");
  const facts = `${standingWord(summary)}, base ${summary.base_name} ${summary.base.slice(0, 10)}, branch ${summary.branch}`;
  const fits = displayWidth(first) + 2 + displayWidth(facts) <= ctx.io.columns();
  const head = fits ? [`${first}  ${p.dim(facts)}`] : [first, ...hanging(facts, ctx.io.columns()).map(p.dim)];
  if (summary.paused_why === undefined) return head;
  const why = `paused: ${oneLine(summary.paused_why)}; then: busctl resume ${summary.run}`;
  return [...head, ...wrap(why, ctx.io.columns()).map((line) => p.yellow(line))];
}
