// `diff`: the whole change of an attempt. What broke the scope is in no commit; it follows, marked, from the files left.

import { type Change, diffOf, filesOf, onChange } from "../changes.ts";
import { type Args, type Ctx, sayJson } from "../context.ts";
import { grantLines, type Outside, outsideDiff } from "../outside.ts";
import { harmless, oneLine } from "../render/width.ts";

// biome-ignore lint/suspicious/noControlCharactersInRegex: git's own colours are let through
const COLOR = /(\x1b\[[0-9;]*m)/;

export function run(ctx: Ctx, args: Args): Promise<number> {
  return onChange(ctx, args, async ({ commonDir, run, task, change, outside }) => {
    if (ctx.json) {
      const files = await filesOf(commonDir, change);
      const named = { run: task.run, task: task.spec.id, ...change, files, out_of_scope: outside.paths };
      return await sayJson(ctx, named);
    }
    const options = args.flag("stat") ? ["--stat"] : [];
    if (ctx.p.color) options.push("--color=always");
    await show(ctx, await diffOf(commonDir, change, options));
    if (outside.paths.length > 0)
      await showOutside(ctx, { commonDir, change, outside, options, advice: grantLines(run, task, outside) });
  });
}

async function showOutside(
  ctx: Ctx,
  at: { commonDir: string; change: Change; outside: Outside; options: string[]; advice: string[] },
): Promise<void> {
  const { diff, unseen } = await outsideDiff(at.commonDir, at.change.base, at.outside, at.options);
  const head = [
    `# Out of scope, so in no commit: ${at.outside.paths.map(oneLine).join(", ")}`,
    ...at.advice.map((line) => `# ${line}`),
    ...unseen.map(({ path, why }) => `# ${oneLine(path)} cannot be shown: ${why}`),
  ];
  await ctx.io.out(`${head.map((line) => ctx.p.yellow(line)).join("\n")}\n`);
  await show(ctx, diff);
}

async function show(ctx: Ctx, diff: Buffer): Promise<void> {
  if (diff.length > 0) await ctx.io.out(ctx.io.outTty ? tamed(diff.toString("utf8")) : diff);
}

/** Everything but git's colours is made harmless for the terminal. */
function tamed(text: string): string {
  return text
    .split(COLOR)
    .map((part, i) => (i % 2 === 1 ? part : harmless(part)))
    .join("");
}
