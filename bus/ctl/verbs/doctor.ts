// `doctor`: what holds and works here. Isolation and limits are tried by the scheduler's program in a mode that does only
// this (scheduler/doctor.ts); host, repository and state are looked at here. It starts no bus, and changes nothing.

import type { Finding } from "../../../schemas/finding.ts";
import { sandboxWish } from "../../../schemas/sandbox.ts";
import { type Args, type Ctx, say, sayJson } from "../context.ts";
import { examineHost } from "../examine-host.ts";
import { examineState } from "../examine-state.ts";
import { EXIT } from "../exit-codes.ts";
import { oneShot } from "../one-shot.ts";
import { configOf } from "../plan-check.ts";
import { doctorLines } from "../render/doctor.ts";

export async function run(ctx: Ctx, _args: Args): Promise<number> {
  const config = configOf(ctx);
  const state = await examineState(ctx, config);
  const asked = { limits: config.limits, sandbox: sandboxWish("auto", config.sandbox).mode };
  const words = ["--doctor", "--json", "--dir", state.dir, "--asked", JSON.stringify(asked)];
  const trying = oneShot<{ findings: Finding[] }>(
    ctx,
    "scheduler",
    words,
    "trying what holds processes here",
  );
  const findings = [...(await trying).findings, ...examineHost(ctx, config, state.dir), ...state.findings];
  const ok = findings.every((one) => one.state !== "bad");
  if (ctx.json) await sayJson(ctx, { ok, findings });
  else await say(ctx, ...doctorLines(findings, ctx.p, Math.min(ctx.io.columns(), MAX_COLUMNS)));
  return ok ? EXIT.ok : EXIT.unfinished;
}

/** Sentences longer than this are hard to read. */
const MAX_COLUMNS = 120;
