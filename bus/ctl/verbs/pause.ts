import { type Args, type Ctx, sayJson, tell } from "../context.ts";
import { EXIT } from "../exit-codes.ts";
import { oneLine } from "../render/width.ts";
import { mustNotBeOver, runToChange } from "./run-name.ts";

export async function run(ctx: Ctx, args: Args): Promise<number> {
  const bus = await ctx.connect();
  try {
    const summary = await runToChange(bus, args.word(0));
    const { run: name, paused_why: why } = summary;
    mustNotBeOver(summary, "pause");
    const { changed } = await bus.call("pause", { run: name });
    const already = `was paused already${why === undefined ? "" : `: ${oneLine(why)}`}`;
    const words = changed ? "paused; what runs goes on, nothing new starts" : already;
    if (ctx.json) await sayJson(ctx, { run: name, paused: true, changed });
    else await tell(ctx, `${name}: ${words} (busctl resume ${name})`);
    return EXIT.ok;
  } finally {
    bus.close();
  }
}
