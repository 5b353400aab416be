import type { ListAnswer } from "../../../schemas/methods.ts";
import { parseAddress, resolveTask } from "../address.ts";
import { type Args, type Ctx, say, sayJson } from "../context.ts";
import { EXIT } from "../exit-codes.ts";
import { harmless } from "../render/width.ts";

export async function run(ctx: Ctx, args: Args): Promise<number> {
  const address = parseAddress(args.word(0) ?? "");
  const version = args.whole("version", 0);
  const bus = await ctx.connect();
  try {
    const { task } = await resolveTask(bus, address);
    const of = {
      run: task.run,
      task_id: task.spec.id,
      ...(address.path ? { prefix: address.path } : {}),
      ...(version === undefined ? {} : { version }),
    };
    const files: ListAnswer["files"] = [];
    let page = await bus.call("list_files", of);
    files.push(...page.files);
    // The version of the first page holds for all of them.
    while (page.next !== undefined) {
      page = await bus.call("list_files", { ...of, version: page.version, after: page.next });
      files.push(...page.files);
    }
    if (ctx.json) {
      const { version: at, commit } = page;
      await sayJson(ctx, { run: task.run, task: task.spec.id, version: at, commit, files });
    } else {
      // A name with a line end would read like two: in pipes too it is escaped.
      await say(
        ctx,
        ...files.map((f) => `${f.mode} ${f.oid.slice(0, 10)} ${harmless(f.path).replaceAll("\n", "\\n")}`),
      );
    }
    return EXIT.ok;
  } finally {
    bus.close();
  }
}
