import type { Args, Ctx } from "../context.ts";
import { oneLine } from "../render/width.ts";
import { decide } from "./decide.ts";

export function run(ctx: Ctx, args: Args): Promise<number> {
  const paths = args.words.slice(1);
  return decide(ctx, args, {
    async ask(bus, task) {
      const more = paths.length > 0 ? { paths } : {};
      const facts = await bus.call("grant_files", { run: task.run, task: task.spec.id, ...more });
      const words = `may also change ${facts.granted.map(oneLine).join(", ")}`;
      // It comes back by itself only where it waited for just this.
      const stays = task.state.name === "blocked" && task.state.needs.kind !== "files";
      return {
        words: stays ? `${words}; try again with busctl retry ${task.run}/${task.spec.id}` : words,
        facts,
      };
    },
  });
}
