import { diffOf, onChange } from "../changes.ts";
import { type Args, type Ctx, sayJson } from "../context.ts";
import { plural } from "../render/time.ts";

/** Paths are those of the top of the repository, wherever this is called (case 10). */
export function run(ctx: Ctx, args: Args): Promise<number> {
  return onChange(ctx, args, async ({ commonDir, task, change, outside }) => {
    const patch = await diffOf(commonDir, change, ["--binary", "--full-index"]);
    const n = outside.paths.length;
    if (n > 0 && !ctx.json)
      ctx.io.err(
        `${plural(n, "file")} out of scope ${n === 1 ? "is" : "are"} not in the patch; busctl diff shows ${n === 1 ? "it" : "them"}\n`,
      );
    if (!ctx.json) return await ctx.io.out(patch);
    const named = { run: task.run, task: task.spec.id, ...change };
    await sayJson(ctx, { ...named, encoding: "base64", patch: patch.toString("base64") });
  });
}
