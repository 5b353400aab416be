// Watching a run for a person or a CI job: shows it, obeys the signals, says the end. Used by `run` and
// `tasks --follow`.
//
//   Ctrl-C   detach: say how to come back, exit 130; a second one ends busctl at once
//   SIGTERM  with the `run` that began it: cancel the run and wait for its end; else detach (`run` that attached, or added
//            tasks; `tasks --follow`)
//   SIGHUP   detach (the terminal is gone)
//
// A cancel that the bus cannot take (its disk is full) is a wish that stays: asked again until it is taken or the watch
// ends, and said once. A run that the scheduler has paused ends the watch of a CI job, which nobody would see wait, with exit 4.
//
// A bus that was ended on purpose (busctl down, a signal) ends the watch with exit 3; one that crashed is waited for.

import { ping } from "./connect.ts";
import type { Bus, Ctx } from "./context.ts";
import { say } from "./context.ts";
import { pause } from "./daemons.ts";
import { EXIT, exitCodeOf } from "./exit-codes.ts";
import { takeOver } from "./render/advice.ts";
import { intoOutcome } from "./render/into-outcome.ts";
import { endLines } from "./render/summary.ts";
import { taskJson } from "./render/task-json.ts";
import { oneLine } from "./render/width.ts";
import { sinkFor } from "./sinks.ts";
import { type RunState, type Standing, type Stopped, type WatchEnd, watchRun } from "./watch.ts";

export interface AttendOptions {
  run: string;
  /** Submitted just now. */
  fresh: boolean;
  keepGoing: boolean;
  /** A run that the scheduler paused ends the watch when nothing of it moves for so long; undefined: it waits. */
  stillMs?: number | undefined;
  connect(): Promise<Bus>;
  cancelOnTerm: boolean;
  /** The first words; what they say of signals holds from the first of them on. */
  announce?(): Promise<void>;
  /** Called when no scheduler is registered; fulfilled with what to show. */
  revive?(): Promise<string | undefined>;
  /** What is to be said of other runs; asked now and then. */
  others?(bus: Bus): Promise<string | undefined>;
}

export async function attend(ctx: Ctx, options: AttendOptions): Promise<number> {
  const sink = sinkFor(ctx, options.fresh);
  let leave: (why: "left") => void = () => {};
  const left = new Promise<"left">((resolve) => {
    leave = resolve;
  });
  let interrupted = false;
  let wished = false;
  const over = new AbortController();
  const offs = [
    ctx.onSignal("SIGINT", () => {
      if (interrupted) process.exit(EXIT.detached);
      interrupted = true;
      leave("left");
    }),
    ctx.onSignal("SIGHUP", () => leave("left")),
    ctx.onSignal("SIGTERM", () => {
      if (!options.cancelOnTerm) return leave("left");
      if (!wished) void cancelRun(ctx, options, over.signal);
      wished = true;
    }),
  ];
  let end: WatchEnd;
  try {
    await options.announce?.();
    const look = (bus: Bus) => lookAt(bus, options);
    end = await watchRun({ ...options, sink, look, left });
  } finally {
    over.abort();
    sink.end();
    for (const off of offs) off();
  }
  if (end === "left") return detached(ctx, options.run);
  if ("standing" in end) return standing(ctx, options.run, end);
  return "stopped" in end ? stopped(ctx, options.run, end) : ended(ctx, end);
}

async function lookAt(bus: Bus, options: AttendOptions): Promise<string | undefined> {
  const answer = await ping(bus, 4_000);
  if (answer.degraded) return answer.degraded;
  if (answer.worker !== null) return options.others?.(bus);
  return options.revive ? options.revive() : "no scheduler is running; nothing new starts (busctl up)";
}

/** Of a full disk: as often as somebody may make room. */
const CANCEL_AGAIN_MS = 1_000;

/** Never rejects. What says more than that bus or machine is in trouble (the run is over) ends it. */
async function cancelRun(ctx: Ctx, options: AttendOptions, over: AbortSignal): Promise<void> {
  for (let said = false; !over.aborted; said = true) {
    try {
      const bus = await options.connect();
      await bus.call("cancel", { run: options.run }).finally(() => bus.close());
      if (said) ctx.io.err(`busctl: ${options.run} is cancelled now\n`);
      return;
    } catch (error) {
      const why = error instanceof Error ? error.message : String(error);
      const again = exitCodeOf(error) === EXIT.infra;
      const then = again ? "; not cancelled yet, asked again until it is" : "";
      if (!said) ctx.io.err(`busctl: cancelling ${options.run}: ${why}${then}\n`);
      if (!again) return;
      await pause(CANCEL_AGAIN_MS);
    }
  }
}

async function standing(ctx: Ctx, run: string, { standing: { why } }: Standing): Promise<number> {
  if (ctx.json) await ctx.io.out(`${JSON.stringify({ type: "paused", run, why, exit: EXIT.paused })}\n`);
  else {
    await say(
      ctx,
      ctx.p.yellow(`Paused: ${run} is not through, and goes on only when a person says so: ${oneLine(why)}`),
      `  go on and watch:  busctl resume ${run}; busctl tasks --follow --run ${run}`,
      `  give it up:       busctl cancel ${run}`,
    );
  }
  return EXIT.paused;
}

async function detached(ctx: Ctx, run: string): Promise<number> {
  if (ctx.json) await ctx.io.out(`${JSON.stringify({ type: "detached", run, exit: EXIT.detached })}\n`);
  else {
    await say(
      ctx,
      `Detached; ${run} goes on.`,
      `  come back:  busctl tasks --follow --run ${run}`,
      `  cancel it:  busctl cancel ${run}`,
    );
  }
  return EXIT.detached;
}

async function stopped(ctx: Ctx, run: string, { stopped }: Stopped): Promise<number> {
  const { by, leave_running } = stopped;
  if (ctx.json) {
    await ctx.io.out(`${JSON.stringify({ type: "stopped", run, ...stopped, exit: EXIT.infra })}\n`);
    return EXIT.infra;
  }
  const who = by.startsWith("SIG") ? `by ${by}` : "by a person (busctl down)";
  await say(
    ctx,
    ctx.p.yellow(`Stopped: the bus was ended ${who}; ${run} is not through.`),
    ...(leave_running ? [] : [`  what ran was cancelled:  busctl up; busctl retry ${run}/TASK`]),
    `  go on and watch:         busctl up; busctl tasks --follow --run ${run}`,
  );
  return EXIT.infra;
}

async function ended(ctx: Ctx, end: RunState): Promise<number> {
  const { summary } = end;
  const { into } = end.run.spec;
  const brought = intoOutcome(end.run, summary);
  const whole = summary.merged === summary.total;
  const code = whole && brought?.moved !== false ? EXIT.ok : EXIT.unfinished;
  if (ctx.json) {
    const value = {
      type: "end",
      exit: code,
      run: summary,
      take_over: takeOver(summary) ?? null,
      into:
        into === undefined
          ? null
          : { branch: into, moved: brought?.moved ?? false, why_not: brought?.why || null },
      tasks: end.tasks.map(taskJson),
    };
    await ctx.io.out(`${JSON.stringify(value)}\n`);
  } else await say(ctx, ...endLines(end, ctx.now(), ctx.p, ctx.io.columns()));
  return code;
}
