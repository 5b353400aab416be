import { type Args, type Ctx, say, sayJson } from "../context.ts";
import { EXIT } from "../exit-codes.ts";

export async function run(ctx: Ctx, _args: Args): Promise<number> {
  const bus = await ctx.connect();
  try {
    const answer = await bus.call("verify", {});
    if (ctx.json) await sayJson(ctx, answer);
    else if (answer.ok) {
      await say(ctx, `${ctx.p.green("whole")}: the chain of ${answer.records} records holds`);
    } else {
      const bad = answer.first_bad;
      const where = bad ? `record ${bad.seq}, ${bad.file}:${bad.line}: ${bad.why}` : "place unknown";
      await say(
        ctx,
        `${ctx.p.red("damaged")}: ${where}`,
        "  -> keep a copy of the state directory; what stands behind this record is not proven",
      );
    }
    return answer.ok ? EXIT.ok : EXIT.unfinished;
  } finally {
    bus.close();
  }
}
