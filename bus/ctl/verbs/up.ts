import { inForceLine } from "../../../schemas/limit-plan.ts";
import type { SandboxFacts } from "../../../schemas/sandbox.ts";
import { VERSION } from "../../version.ts";
import { commonDirOf } from "../connect.ts";
import { type Args, type Ctx, say, sayJson } from "../context.ts";
import { ensureUp } from "../daemons.ts";
import { EXIT } from "../exit-codes.ts";
import { formerLines } from "../render/former.ts";
import { wrap } from "../render/width.ts";

/** Said here and in the JSON, so that nobody believes in a wall that is not there. */
function sandboxWords(facts: SandboxFacts | undefined): string {
  if (facts === undefined) return "not known: no scheduler runs";
  if (facts.works) return `${facts.said}: agents and checks are shut in, unless a plan says \`sandbox: off\``;
  return `none: ${facts.said}. Agents run as you. ${facts.cure ?? ""}`.trimEnd();
}

export async function run(ctx: Ctx, _args: Args): Promise<number> {
  const commonDir = await commonDirOf(ctx.dir);
  const up = await ensureUp(commonDir);
  const facts = {
    repo: commonDir,
    started: up.started,
    pid: up.ping.pid,
    worker: up.ping.worker,
    socket: up.endpoint.socket,
    state_dir: up.endpoint.state_dir,
    version: up.ping.version,
    busctl_version: VERSION,
    sandbox: up.ping.sandbox ?? null,
    limits_by: up.ping.limits === undefined ? null : inForceLine(up.ping.limits),
    live_tasks: up.ping.live_tasks,
    degraded: up.ping.degraded ?? null,
    former: up.ping.former ?? null,
  };
  if (ctx.json) {
    await sayJson(ctx, facts);
    return EXIT.ok;
  }
  const how = up.started.length > 0 ? `started ${up.started.join(" and ")}` : "already running";
  const other = up.ping.version === VERSION ? "" : ` (busctl is ${VERSION})`;
  await say(
    ctx,
    `${ctx.p.green("up")}: ${how}, pid ${up.ping.pid}, version ${up.ping.version}${other}`,
    `  repository  ${commonDir}`,
    `  socket      ${up.endpoint.socket}`,
    `  state       ${up.endpoint.state_dir}`,
    `  scheduler   ${up.ping.worker ?? "none"}`,
    ...fact(ctx, "sandbox", sandboxWords(up.ping.sandbox)),
    ...(facts.limits_by === null ? [] : fact(ctx, "limits", facts.limits_by)),
    ...formerLines(ctx.p, up.ping.former),
    ...(up.ping.degraded ? [ctx.p.red(`  degraded    ${up.ping.degraded}`)] : []),
  );
  return EXIT.ok;
}

function fact(ctx: Ctx, name: string, text: string): string[] {
  return wrap(text, ctx.io.columns() - 14).map((line, i) => `  ${(i === 0 ? name : "").padEnd(10)}  ${line}`);
}
