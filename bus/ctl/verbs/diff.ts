import { diffOf, filesOf, onChange } from "../changes.ts";
import { type Args, type Ctx, sayJson } from "../context.ts";
import { harmless } from "../render/width.ts";

// biome-ignore lint/suspicious/noControlCharactersInRegex: git's own colours are let through
const COLOR = /(\x1b\[[0-9;]*m)/;

export function run(ctx: Ctx, args: Args): Promise<number> {
  return onChange(ctx, args, async ({ commonDir, task, change }) => {
    if (ctx.json) {
      const files = await filesOf(commonDir, change);
      return await sayJson(ctx, { run: task.run, task: task.spec.id, ...change, files });
    }
    const options = args.flag("stat") ? ["--stat"] : [];
    if (ctx.p.color) options.push("--color=always");
    const diff = await diffOf(commonDir, change, options);
    await ctx.io.out(ctx.io.outTty ? tamed(diff.toString("utf8")) : diff);
  });
}

/** Everything but git's colours is made harmless for the terminal. */
function tamed(text: string): string {
  return text
    .split(COLOR)
    .map((part, i) => (i % 2 === 1 ? part : harmless(part)))
    .join("");
}
