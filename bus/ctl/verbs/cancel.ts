// `cancel` for a run or a task. A word without a slash is a run if there is one of that name, else a task.
// A whole run is only cancelled after a yes, where there is somebody to ask.

import { createInterface } from "node:readline/promises";
import { BusbarError, isCode } from "../../../schemas/errors.ts";
import { showId } from "../../../schemas/ids.ts";
import { nearest } from "../../../schemas/plan/nearest.ts";
import { checkId, parseAddress, resolveTask } from "../address.ts";
import { type Args, type Bus, type Ctx, say, sayJson, usage } from "../context.ts";
import { EXIT } from "../exit-codes.ts";
import { plural } from "../render/time.ts";
import { runToChange } from "./run-name.ts";

export async function run(ctx: Ctx, args: Args): Promise<number> {
  const word = args.word(0);
  const bus = await ctx.connect();
  try {
    const target = await findTarget(bus, word);
    if (target.task === undefined && !args.flag("yes") && !(await confirmed(ctx, target.run))) {
      await say(ctx, "nothing was cancelled");
      return EXIT.refused;
    }
    const { before, ...of } = target;
    const { cancelled } = await bus.call("cancel", of);
    if (ctx.json) await sayJson(ctx, { run: target.run, cancelled });
    else if (before === "cancelled") await say(ctx, `${target.run}/${target.task}: was cancelled before`);
    else if (target.task !== undefined) await say(ctx, `${target.run}/${target.task}: cancelled`);
    else await say(ctx, `${target.run}: ${plural(cancelled.length, "task")} cancelled`);
    return EXIT.ok;
  } finally {
    bus.close();
  }
}

interface Target {
  run: string;
  task?: string;
  /** State of the task before. */
  before?: string;
}

async function findTarget(bus: Bus, word: string | undefined): Promise<Target> {
  if (word === undefined) return { run: (await runToChange(bus, word)).run };
  if (!word.includes("/")) {
    checkId("run", word);
    const { runs } = await bus.call("list_runs", {});
    if (runs.some((one) => one.run === word)) return { run: word };
    const near = nearest(
      word,
      runs.map((one) => one.run),
    );
    try {
      return await taskNamed(bus, word);
    } catch (error) {
      if (!isCode(error, "NO_SUCH_TASK")) throw error;
      const hint = near ? `; did you mean the run ${near}?` : (error.data.near as string | undefined);
      throw new BusbarError(error.code, `there is no run and no task ${showId(word)}${hint ?? ""}`, {
        help: "`busctl tasks --run all` lists the runs and their tasks.",
      });
    }
  }
  return taskNamed(bus, word);
}

async function taskNamed(bus: Bus, word: string): Promise<Target> {
  const { task } = await resolveTask(bus, parseAddress(word));
  return { run: task.run, task: task.spec.id, before: task.state.name };
}

async function confirmed(ctx: Ctx, run: string): Promise<boolean> {
  if (!ctx.io.inTty || !ctx.io.outTty) {
    throw usage(`cancelling the whole run ${run} needs --yes where nobody can be asked`);
  }
  const ask = createInterface({ input: process.stdin, output: process.stderr });
  try {
    return /^y(es)?$/i.test((await ask.question(`Cancel the whole run ${run}? [y/N] `)).trim());
  } finally {
    ask.close();
  }
}
