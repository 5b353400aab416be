// `cancel` for a run or a task. A word without a slash is a run if there is one of that name, else a task.
// A whole run is only cancelled after a yes, where there is somebody to ask.

import { createInterface } from "node:readline/promises";
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
    const { cancelled } = await bus.call("cancel", target);
    if (ctx.json) await sayJson(ctx, { run: target.run, cancelled });
    else await say(ctx, `${target.run}: ${plural(cancelled.length, "task")} cancelled`);
    return EXIT.ok;
  } finally {
    bus.close();
  }
}

async function findTarget(bus: Bus, word: string | undefined): Promise<{ run: string; task?: string }> {
  if (word !== undefined && !word.includes("/")) {
    checkId("run", word);
    const { runs } = await bus.call("list_runs", {});
    if (!runs.some((one) => one.run === word)) {
      const { task } = await resolveTask(bus, parseAddress(word));
      return { run: task.run, task: task.spec.id };
    }
  }
  if (word?.includes("/")) {
    const { task } = await resolveTask(bus, parseAddress(word));
    return { run: task.run, task: task.spec.id };
  }
  return { run: (await runToChange(bus, word)).run };
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
