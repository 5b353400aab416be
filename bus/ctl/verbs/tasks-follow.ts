// `tasks --follow`: watch a run that exists, to its end. Starts nothing; a bus that goes away is waited for.

import { resolveRun } from "../address.ts";
import { attend } from "../attend.ts";
import type { Args, Ctx } from "../context.ts";

export async function follow(ctx: Ctx, args: Args): Promise<number> {
  const bus = await ctx.connect();
  let run: string;
  try {
    run = (await resolveRun(bus, args.text("run"))).run;
  } finally {
    bus.close();
  }
  return attend(ctx, { run, fresh: false, keepGoing: false, connect: ctx.connect, cancelOnTerm: false });
}
