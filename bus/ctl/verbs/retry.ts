import type { Args, Ctx } from "../context.ts";
import { decide } from "./decide.ts";

export function run(ctx: Ctx, args: Args): Promise<number> {
  const feedback = args.text("feedback");
  return decide(ctx, args, {
    async ask(bus, task) {
      const more = feedback === undefined ? {} : { feedback };
      const facts = await bus.call("retry_task", { run: task.run, task: task.spec.id, ...more });
      return { words: "will be tried again", facts };
    },
  });
}
