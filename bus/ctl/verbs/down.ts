import { bringDown, type Down, NOTHING } from "../bring-down.ts";
import { commonDirOf, stateAndRemedy } from "../connect.ts";
import { type Args, type Ctx, say, sayJson } from "../context.ts";
import { EXIT } from "../exit-codes.ts";
import { plural } from "../render/time.ts";

/** Names in one line. */
const SHOWN = 6;

export async function run(ctx: Ctx, args: Args): Promise<number> {
  const commonDir = await commonDirOf(ctx.dir);
  const down = await bringDown(commonDir, args.flag("leave-running"));
  if (!down) {
    // What was wanted is so already.
    if (ctx.json) await sayJson(ctx, { down: true, was_running: false, ...NOTHING, bus_was_dead: false });
    else await say(ctx, `not running: ${commonDir}`);
    return EXIT.ok;
  }
  const whole = down.survivors.length === 0;
  if (ctx.json) await sayJson(ctx, { down: whole, was_running: true, ...down });
  else await say(ctx, ...downLines(ctx, down));
  return whole ? EXIT.ok : EXIT.infra;
}

function downLines({ p }: Ctx, down: Down): string[] {
  const { ended, cancelled, landing, left_running, survivors } = down;
  const lines: string[] = [];
  if (down.bus_was_dead && ended.length > 0)
    lines.push("The bus had died; what lived without it was found by its process files.");
  const nothing = survivors.length === 0 ? "bus and scheduler had died before" : "ended nothing";
  const what = ended.length === 0 ? nothing : `ended ${ended.join(" and ")}`;
  lines.push(`${survivors.length === 0 ? p.green("down") : p.yellow("not down")}: ${what}`);
  if (cancelled.length > 0)
    lines.push(
      `  cancelled ${plural(cancelled.length, "attempt")}: ${some(cancelled)}`,
      `  try one again after \`busctl up\`: busctl retry ${cancelled[0]?.replace(/#.*/, "")}`,
    );
  if (landing.length > 0)
    lines.push(
      `  ${plural(landing.length, "landing goes", "landings go")} on after \`busctl up\`: ${some(landing)}`,
    );
  if (left_running.length > 0)
    lines.push(
      `  ${plural(left_running.length, "attempt goes", "attempts go")} on without us: ${some(left_running)}`,
      "  their results are taken over by the next `busctl up`",
    );
  for (const { name, pid } of survivors) {
    const { state, remedy } = stateAndRemedy(pid);
    lines.push(`${p.red("still there")}: ${name}, pid ${pid} ${state}`, `  -> ${remedy}`);
  }
  return lines;
}

function some(names: readonly string[]): string {
  const more = names.length - SHOWN;
  return names.slice(0, SHOWN).join(", ") + (more > 0 ? ` and ${more} more` : "");
}
