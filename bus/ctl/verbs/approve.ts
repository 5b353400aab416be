import type { Args, Ctx } from "../context.ts";
import { decide } from "./decide.ts";

export function run(ctx: Ctx, args: Args): Promise<number> {
  return decide(ctx, args, {
    async ask(bus, task) {
      const facts = await bus.call("approve", { run: task.run, task: task.spec.id });
      return { words: "approved; it goes on to land", facts };
    },
  });
}
