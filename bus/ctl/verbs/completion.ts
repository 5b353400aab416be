import { completionScript, type Shell } from "../completion.ts";
import { type Args, type Ctx, usage } from "../context.ts";
import { EXIT } from "../exit-codes.ts";
import { VERBS } from "../verb-table.ts";

const SHELLS: readonly string[] = ["bash", "zsh", "fish"];

export async function run(ctx: Ctx, args: Args): Promise<number> {
  const shell = args.word(0) ?? "";
  if (!SHELLS.includes(shell)) throw usage(`there are completions for ${SHELLS.join(", ")}`);
  await ctx.io.out(completionScript(shell as Shell, VERBS));
  return EXIT.ok;
}
