// `repair`: for a bus that does not start because its journal is damaged. Says what would be lost, asks, keeps a copy.

import { createInterface } from "node:readline/promises";
import { commonDirOf } from "../connect.ts";
import { type Args, type Ctx, say, sayJson, usage } from "../context.ts";
import { EXIT } from "../exit-codes.ts";
import { oneShot } from "../one-shot.ts";
import { plural } from "../render/time.ts";
import { harmless } from "../render/width.ts";

/** What `busd --repair` prints. */
interface Answer {
  finding?: {
    damage: { kind: string; file: string; line: number; seq: number; why: string };
    end: { seq: number };
    to: number;
    lines: number;
    state: "checkpoint" | "replay";
  };
  copies?: string;
  former?: { why: string; runs: string[] };
  to?: number;
}

export async function run(ctx: Ctx, args: Args): Promise<number> {
  const words = ["--repo", await commonDirOf(ctx.dir), "--repair"];
  const { finding, former, to } = await oneShot<Answer>(
    ctx,
    "busd",
    [...words, "look"],
    "looking at the journal",
  );
  if (!finding && !former) {
    if (ctx.json) await sayJson(ctx, { repaired: false });
    else await say(ctx, "nothing to repair: `busctl up` starts with this journal");
    return EXIT.ok;
  }
  if (!ctx.json) await say(ctx, ...(finding ? lines(ctx, finding) : formerLines(ctx, former, to)));
  const question = finding ? "Take them out, keeping a copy? [y/N] " : "Go on without that state? [y/N] ";
  if (!args.flag("yes") && !(await confirmed(ctx, question))) {
    await say(ctx, "nothing was changed");
    return EXIT.refused;
  }
  const done = await oneShot<Answer>(ctx, "busd", [...words, "cut"], "repairing the journal");
  if (ctx.json) await sayJson(ctx, { repaired: true, ...done });
  else if (done.copies !== undefined)
    await say(ctx, `done; what was changed is kept in ${harmless(done.copies)}`, "  then: busctl up");
  else await say(ctx, "noted; the next start records the gap", "  then: busctl up");
  return EXIT.ok;
}

function formerLines({ p }: Ctx, former: Answer["former"], to: number | undefined): string[] {
  const { why = "", runs = [] } = former ?? {};
  return [
    `${p.yellow("another state")}: ${harmless(why)}`,
    "the journal that is here is not damaged, and nothing in the repository would be changed",
    `what would be recorded: records up to ${to} are lost, with ${runs.length > 0 ? plural(runs.length, "run") : "what they tell"}; \`verify\` says so from then on`,
    "their branches stay, and can be merged or deleted with git",
  ];
}

function lines(
  { p }: Ctx,
  { damage, end, to, lines: count, state }: NonNullable<Answer["finding"]>,
): string[] {
  const { kind, file, line, seq, why } = damage;
  const head = [
    `${p.red("damaged")}: record ${seq}: ${kind}: ${harmless(why)}`,
    `  in ${harmless(file)}, line ${line}`,
  ];
  if (kind === "replaced")
    return [...head, "the checkpoint would be put aside, and the state made from the journal"];
  const goes = `${plural(count, "line")} from there on would go (records up to ${to}); records 1 to ${end.seq} stay`;
  return [
    ...head,
    goes,
    state === "checkpoint"
      ? "the state is that of the checkpoint, which is newer: only the log of what led to it is lost"
      : `the state is that after record ${end.seq}: later changes are lost; what landed is in the branches`,
  ];
}

async function confirmed(ctx: Ctx, question: string): Promise<boolean> {
  if (ctx.json || !ctx.io.inTty) throw usage("repairing gives up records of the journal; that needs --yes");
  const ask = createInterface({ input: process.stdin, output: process.stderr });
  try {
    return /^y(es)?$/i.test((await ask.question(question)).trim());
  } finally {
    ask.close();
  }
}
