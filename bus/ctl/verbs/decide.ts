// What the verbs by which a person decides about one task have in common: find the task, ask the bus, say
// what follows.

import type { Task } from "../../../schemas/task.ts";
import { parseAddress, resolveTask } from "../address.ts";
import { type Args, type Bus, type Ctx, say, sayJson, usage } from "../context.ts";
import { EXIT } from "../exit-codes.ts";

export interface Decision {
  /** Asks the bus; gives back what is said to the person, as one sentence without a full stop. */
  ask(bus: Bus, task: Task): Promise<{ words: string; facts?: Record<string, unknown> }>;
}

export async function decide(ctx: Ctx, args: Args, decision: Decision): Promise<number> {
  const address = parseAddress(args.word(0) ?? "");
  if (address.path !== undefined) throw usage("a task is named as TASK or RUN/TASK, without a path");
  const bus = await ctx.connect();
  try {
    const { task } = await resolveTask(bus, address);
    const { words, facts = {} } = await decision.ask(bus, task);
    const name = `${task.run}/${task.spec.id}`;
    if (ctx.json) await sayJson(ctx, { run: task.run, task: task.spec.id, ...facts });
    else await say(ctx, `${name}: ${words}`);
    return EXIT.ok;
  } finally {
    bus.close();
  }
}
