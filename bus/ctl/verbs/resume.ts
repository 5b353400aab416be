import { type Args, type Ctx, say, sayJson } from "../context.ts";
import { EXIT } from "../exit-codes.ts";
import { outcomeWords } from "../render/outcome.ts";
import { mustNotBeOver, runToChange } from "./run-name.ts";

export async function run(ctx: Ctx, args: Args): Promise<number> {
  const bus = await ctx.connect();
  try {
    const summary = await runToChange(bus, args.word(0));
    const { run: name } = summary;
    mustNotBeOver(summary, "resume");
    const { changed } = await bus.call("resume", { run: name });
    const words = changed ? "goes on" : `was not paused; it is ${outcomeWords(summary)}`;
    if (ctx.json) await sayJson(ctx, { run: name, paused: false, changed });
    else await say(ctx, `${name}: ${words}`);
    return EXIT.ok;
  } finally {
    bus.close();
  }
}
