// `gc`: the archive is the scheduler's. It is started once, in a mode that does only this and prints what it
// did as one JSON object. The bus alone knows what is in use: it is started too, and ends by itself when idle.

import { commonDirOf } from "../connect.ts";
import { type Args, type Ctx, say, sayJson, usage } from "../context.ts";
import { ensureBus } from "../daemons.ts";
import { EXIT } from "../exit-codes.ts";
import { thisHost } from "../launch.ts";
import { oneShot } from "../one-shot.ts";
import { whileWaiting } from "../patience.ts";
import { configOf } from "../plan-check.ts";
import { type GcAnswer, gcLines } from "../render/gc.ts";

export async function run(ctx: Ctx, args: Args): Promise<number> {
  const idle = args.flag("all") ? 0 : idleSeconds(args.text("idle"));
  const dry = args.flag("dry-run");
  const commonDir = await commonDirOf(ctx.dir);
  const words = ["--repo", commonDir, "--gc", "--json"];
  if (dry) words.push("--dry-run");
  if (idle !== undefined) words.push("--idle-s", String(idle));
  const config = configOf(ctx);
  await ensureBus(commonDir, thisHost(), config.idle_exit_ms);
  const work = oneShot<GcAnswer>(ctx, "scheduler", words, "archiving workspaces");
  const answer = await whileWaiting(work, (seconds) => {
    if (!ctx.json) ctx.io.err(ctx.p.dim(`looking through the workspaces, ${seconds} s so far ...\n`));
  });
  if (ctx.json) await sayJson(ctx, { dry_run: dry, ...answer });
  else {
    const settings = { dry, idleS: idle ?? config.gc_idle_s };
    await say(ctx, ...gcLines(answer, settings, ctx.p, ctx.io.columns()));
  }
  return EXIT.ok;
}

/** `30m`, `2h`, `90s`, `1d`; seconds. */
function idleSeconds(text: string | undefined): number | undefined {
  if (text === undefined) return undefined;
  const [, n, unit = "s"] = /^(\d+)([smhd]?)$/.exec(text) ?? [];
  if (n === undefined)
    throw usage(`--idle must be a time like 90s, 30m, 2h or 1d, not ${JSON.stringify(text)}`);
  return Number(n) * ({ s: 1, m: 60, h: 3600, d: 86_400 }[unit] ?? 1);
}
