import { type Args, type Ctx, say, sayJson } from "../context.ts";
import { EXIT } from "../exit-codes.ts";
import { runToChange } from "./run-name.ts";

export async function run(ctx: Ctx, args: Args): Promise<number> {
  const bus = await ctx.connect();
  try {
    const { run: name } = await runToChange(bus, args.word(0));
    await bus.call("resume", { run: name });
    if (ctx.json) await sayJson(ctx, { run: name, paused: false });
    else await say(ctx, `${name}: goes on`);
    return EXIT.ok;
  } finally {
    bus.close();
  }
}
