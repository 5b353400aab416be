import { setTimeout as after } from "node:timers/promises";
import { completionScript, type Shell } from "../completion.ts";
import { type Args, type Ctx, usage } from "../context.ts";
import { EXIT } from "../exit-codes.ts";
import { NAME_KINDS, type NameKind, namesLike } from "../names.ts";
import { VERBS } from "../verb-table.ts";

const SHELLS: readonly string[] = ["bash", "zsh", "fish"];
/** Whoever presses the tabulator does not wait longer. */
const NAMES_MS = 1_500;

export async function run(ctx: Ctx, args: Args): Promise<number> {
  const what = args.word(0) ?? "";
  const kind = NAME_KINDS.find((one) => one === what);
  if (kind !== undefined) return names(ctx, kind, args.word(1) ?? "");
  if (!SHELLS.includes(what)) throw usage(`there are completions for ${SHELLS.join(", ")}`);
  if (args.word(1) !== undefined) throw usage("a script is for one shell");
  await ctx.io.out(completionScript(what as Shell, VERBS));
  return EXIT.ok;
}

async function names(ctx: Ctx, kind: NameKind, prefix: string): Promise<number> {
  const ask = ctx.connect().then((bus) => namesLike(bus, kind, prefix).finally(() => bus.close()));
  const late = after(NAMES_MS, [] as string[], { ref: false });
  const found = await Promise.race([ask, late]).catch(() => []);
  if (found.length > 0) await ctx.io.out(`${found.join("\n")}\n`);
  return EXIT.ok;
}
