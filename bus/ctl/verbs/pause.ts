import { type Args, type Ctx, sayJson, tell } from "../context.ts";
import { EXIT } from "../exit-codes.ts";
import { runToChange } from "./run-name.ts";

export async function run(ctx: Ctx, args: Args): Promise<number> {
  const bus = await ctx.connect();
  try {
    const { run: name } = await runToChange(bus, args.word(0));
    await bus.call("pause", { run: name });
    if (ctx.json) await sayJson(ctx, { run: name, paused: true });
    else await tell(ctx, `${name}: paused; what runs goes on, nothing new starts (busctl resume ${name})`);
    return EXIT.ok;
  } finally {
    bus.close();
  }
}
