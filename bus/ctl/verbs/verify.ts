import type { VerifyAnswer } from "../../../schemas/answers.ts";
import { type Args, type Ctx, say, sayJson } from "../context.ts";
import { EXIT } from "../exit-codes.ts";
import { plural } from "../render/time.ts";
import { displayWidth, wrap } from "../render/width.ts";
import { unknownBranches, unknownBranchLines } from "../unknown-branches.ts";

export async function run(ctx: Ctx, _args: Args): Promise<number> {
  const bus = await ctx.connect();
  try {
    const answer = await bus.call("verify", {}, { timeoutMs: VERIFY_TIMEOUT_MS });
    const branches = await unknownBranches(ctx, (await bus.call("list_runs", {})).runs);
    if (ctx.json)
      await sayJson(ctx, { ...answer, ...(branches.length > 0 && { unknown_branches: branches }) });
    else {
      const said = lines(ctx, answer).flatMap((line) => wrapped(line, ctx.io.columns()));
      await say(ctx, ...said, ...unknownBranchLines(ctx, branches));
    }
    return answer.ok ? EXIT.ok : EXIT.unfinished;
  } finally {
    bus.close();
  }
}

/** What goes on in a further line stands as deep as the first. */
function wrapped(line: string, width: number): string[] {
  // A line with colours of its own is left to the terminal.
  if (displayWidth(line) <= width || line.includes("\x1b")) return [line];
  const deep = /^ */.exec(line)?.[0] ?? "";
  return wrap(line.slice(deep.length), width - deep.length - 2).map(
    (part, i) => `${deep}${i > 0 ? "  " : ""}${part}`,
  );
}

/** Every record is proven and replayed: a million of them take some ten seconds. */
const VERIFY_TIMEOUT_MS = 30 * 60_000;

function lines(
  { p }: Ctx,
  { records, first_bad: bad, gaps, removed, anchors, replay }: VerifyAnswer,
): string[] {
  const said: string[] = [];
  if (bad) {
    said.push(
      `${p.red("damaged")}: record ${bad.seq}: ${bad.kind}: ${bad.why}`,
      `  in ${bad.file}, line ${bad.line}`,
      "  -> keep a copy of the state directory; what stands behind this record is not proven",
    );
  } else if (!gaps) said.push(`${p.green("whole")}: the chain of ${plural(records, "record")} holds`);
  else
    said.push(
      `${p.yellow("not whole")}: the chain of ${plural(records, "record")} holds, but some are lost for ever:`,
    );
  for (const { from, to, at, why } of gaps ?? [])
    said.push(`  records ${from} to ${to}, found missing on ${at}: ${why}`);
  if (removed) {
    const { to, at, rule } = removed;
    said.push(
      `  records 1 to ${to} were removed by retention on ${at} (${rule}); what is proven begins with record ${to + 1}`,
    );
  }
  if (anchors?.newest)
    said.push(
      `  ${plural(anchors.held, "anchor")} in the repository found in it, the newest at record ${anchors.newest.seq} of ${anchors.newest.at}`,
    );
  if (replay?.same) said.push("  replayed, it leads to the state as it is");
  else if (replay)
    said.push(`${p.red("differs")}: replayed, it does not lead to this state: ${replay.differs}`);
  return said;
}
