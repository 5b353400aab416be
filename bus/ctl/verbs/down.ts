import { isCode } from "../../../schemas/errors.ts";
import { commonDirOf } from "../connect.ts";
import { type Args, type Ctx, say, sayJson } from "../context.ts";
import { bringDown, type Survivor } from "../daemons.ts";
import { EXIT } from "../exit-codes.ts";

export async function run(ctx: Ctx, args: Args): Promise<number> {
  const commonDir = await commonDirOf(ctx.dir);
  let survivors: Survivor[];
  try {
    survivors = await bringDown(commonDir, args.flag("leave-running"));
  } catch (error) {
    if (!isCode(error, "BUS_AWAY")) throw error;
    // What was wanted is so already.
    if (ctx.json) await sayJson(ctx, { down: true, was_running: false, survivors: [] });
    else await say(ctx, `not running: ${commonDir}`);
    return EXIT.ok;
  }
  if (ctx.json) await sayJson(ctx, { down: survivors.length === 0, was_running: true, survivors });
  else if (survivors.length === 0) await say(ctx, "down: bus and scheduler have ended");
  else {
    for (const { name, pid } of survivors) {
      await say(
        ctx,
        `${ctx.p.red("still there")}: ${name}, pid ${pid}`,
        `  -> look with \`ps -fp ${pid}\`, then \`kill ${pid}\``,
      );
    }
  }
  return survivors.length === 0 ? EXIT.ok : EXIT.infra;
}
