import { parseAddress, resolveTask } from "../address.ts";
import { changeOf, diffOf } from "../changes.ts";
import { commonDirOf } from "../connect.ts";
import { type Args, type Ctx, sayJson } from "../context.ts";
import { EXIT } from "../exit-codes.ts";

/** Paths are those of the top of the repository, wherever this is called (case 10). */
export async function run(ctx: Ctx, args: Args): Promise<number> {
  const address = parseAddress(args.word(0) ?? "");
  const attempt = args.whole("attempt", 1);
  const commonDir = await commonDirOf(ctx.dir);
  const bus = await ctx.connect();
  try {
    const { task } = await resolveTask(bus, address);
    const change = changeOf(task, attempt);
    const patch = await diffOf(commonDir, change, ["--binary", "--full-index"]);
    if (ctx.json) {
      await sayJson(ctx, {
        run: task.run,
        task: task.spec.id,
        ...change,
        encoding: "base64",
        patch: patch.toString("base64"),
      });
    } else await ctx.io.out(patch);
    return EXIT.ok;
  } finally {
    bus.close();
  }
}
