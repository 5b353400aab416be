// `tasks --follow`: watch runs that exist, to their end. Starts nothing; a bus that goes away is waited for.
//
// With --run that one. Without: the newest live run, then every other that is live or has begun meanwhile, one after the
// other, until none is live; which one is followed, and which are still to come, is said. The exit code is the worst of theirs.

import type { RunSummary } from "../../../schemas/methods.ts";
import { byInterest, isLive, resolveRun } from "../address.ts";
import { attend } from "../attend.ts";
import type { Args, Bus, Ctx } from "../context.ts";
import { EXIT } from "../exit-codes.ts";

export async function follow(ctx: Ctx, args: Args): Promise<number> {
  const name = args.text("run");
  if (name !== undefined && name !== "all") {
    const { run } = await asked(ctx, (bus) => resolveRun(bus, name));
    return attendOne(ctx, run);
  }
  const seen = new Set<string>();
  let worst: number = EXIT.ok;
  for (;;) {
    const [next, ...others] = await liveRuns(ctx, seen);
    // None is live: the newest, as it ended.
    const run = next ?? (seen.size === 0 ? (await asked(ctx, (bus) => resolveRun(bus))).run : undefined);
    if (run === undefined) return worst;
    if (!ctx.json && (others.length > 0 || seen.size > 0))
      ctx.io.err(`${ctx.p.dim(followed(run, others))}\n`);
    seen.add(run);
    const code = await attendOne(ctx, run, async (bus) => waiting(await liveOf(bus, seen)));
    if (code === EXIT.detached || code === EXIT.infra) return code;
    worst = Math.max(worst, code);
  }
}

function attendOne(
  ctx: Ctx,
  run: string,
  others?: (bus: Bus) => Promise<string | undefined>,
): Promise<number> {
  const plain = { run, fresh: false, keepGoing: false, connect: ctx.connect, cancelOnTerm: false };
  return attend(ctx, others && !ctx.json ? { ...plain, others } : plain);
}

/** Ids shown of runs that wait for their turn. */
const SHOWN = 3;

function followed(run: string, others: readonly string[]): string {
  if (others.length === 0) return `following ${run}`;
  return `following ${run}, then ${listed(others)}; one alone: busctl tasks --follow --run NAME`;
}

function waiting(others: readonly string[]): string | undefined {
  return others.length === 0 ? undefined : `also live, followed next: ${listed(others)}`;
}

function listed(runs: readonly string[]): string {
  return `${runs.slice(0, SHOWN).join(", ")}${runs.length > SHOWN ? ` and ${runs.length - SHOWN} more` : ""}`;
}

async function liveOf(bus: Bus, seen: ReadonlySet<string>): Promise<string[]> {
  const { runs } = await bus.call("list_runs", {});
  return byInterest(runs)
    .filter((run: RunSummary) => isLive(run) && !seen.has(run.run))
    .map((run) => run.run);
}

function liveRuns(ctx: Ctx, seen: ReadonlySet<string>): Promise<string[]> {
  return asked(ctx, (bus) => liveOf(bus, seen));
}

async function asked<T>(ctx: Ctx, question: (bus: Bus) => Promise<T>): Promise<T> {
  const bus = await ctx.connect();
  try {
    return await question(bus);
  } finally {
    bus.close();
  }
}
