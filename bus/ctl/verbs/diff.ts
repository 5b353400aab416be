import { parseAddress, resolveTask } from "../address.ts";
import { changeOf, diffOf, filesOf } from "../changes.ts";
import { commonDirOf } from "../connect.ts";
import { type Args, type Ctx, sayJson } from "../context.ts";
import { EXIT } from "../exit-codes.ts";
import { harmless } from "../render/width.ts";

// biome-ignore lint/suspicious/noControlCharactersInRegex: git's own colours are let through
const COLOR = /(\x1b\[[0-9;]*m)/;

export async function run(ctx: Ctx, args: Args): Promise<number> {
  const address = parseAddress(args.word(0) ?? "");
  const attempt = args.whole("attempt", 1);
  const commonDir = await commonDirOf(ctx.dir);
  const bus = await ctx.connect();
  try {
    const { task } = await resolveTask(bus, address);
    const change = changeOf(task, attempt);
    if (ctx.json) {
      const files = await filesOf(commonDir, change);
      await sayJson(ctx, { run: task.run, task: task.spec.id, ...change, files });
      return EXIT.ok;
    }
    const options = args.flag("stat") ? ["--stat"] : [];
    if (ctx.p.color) options.push("--color=always");
    const diff = await diffOf(commonDir, change, options);
    await ctx.io.out(ctx.io.outTty ? tamed(diff.toString("utf8")) : diff);
    return EXIT.ok;
  } finally {
    bus.close();
  }
}

/** Everything but git's colours is made harmless for the terminal. */
function tamed(text: string): string {
  return text
    .split(COLOR)
    .map((part, i) => (i % 2 === 1 ? part : harmless(part)))
    .join("");
}
