// `cat`: the bytes of a file of a snapshot, exactly. A link is not followed: its target goes to standard
// output, and a word about it to standard error.

import { BusbarError } from "../../../schemas/errors.ts";
import { showId } from "../../../schemas/ids.ts";
import { pathFault } from "../../../schemas/repo-path.ts";
import { parseAddress, resolveTask } from "../address.ts";
import { type Args, type Ctx, sayJson, usage } from "../context.ts";
import { EXIT } from "../exit-codes.ts";
import { harmless } from "../render/width.ts";

export async function run(ctx: Ctx, args: Args): Promise<number> {
  const address = parseAddress(args.word(0) ?? "");
  const { path } = address;
  if (!path) throw usage("say which file: busctl cat [RUN/]TASK:PATH");
  const fault = pathFault(path);
  if (fault) throw new BusbarError("BAD_PATH", `path ${showId(path)} ${fault}`);
  const version = args.whole("version", 0);
  const bus = await ctx.connect();
  try {
    const { task } = await resolveTask(bus, address);
    const file = await bus.call("get_file", {
      run: task.run,
      task_id: task.spec.id,
      path,
      ...(version === undefined ? {} : { version }),
    });
    if (ctx.json) {
      await sayJson(ctx, { run: task.run, task: task.spec.id, path, ...file });
      return EXIT.ok;
    }
    const content = Buffer.from(file.content, file.encoding === "base64" ? "base64" : "utf8");
    if (file.mode === "120000") {
      ctx.io.err(`busctl: ${harmless(path)} is a symbolic link; this is its target\n`);
      await ctx.io.out(`${content.toString("utf8")}\n`);
    } else if (ctx.io.outTty) await ctx.io.out(harmlessBytes(content));
    else await ctx.io.out(content);
    return EXIT.ok;
  } finally {
    bus.close();
  }
}

/** A terminal is not given escape sequences; a pipe gets every byte. */
function harmlessBytes(content: Buffer): string {
  const text = harmless(content.toString("utf8"));
  return text === "" || text.endsWith("\n") ? text : `${text}\n`;
}
