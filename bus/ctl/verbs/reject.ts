import { type Args, type Ctx, usage } from "../context.ts";
import { decide } from "./decide.ts";

export function run(ctx: Ctx, args: Args): Promise<number> {
  const reason = args.text("reason");
  if (reason === undefined)
    throw usage('a rejection needs a reason: --reason "what the next attempt shall mend"');
  return decide(ctx, args, {
    async ask(bus, task) {
      const facts = await bus.call("reject", { run: task.run, task: task.spec.id, reason });
      return { words: "rejected; the next attempt is told why", facts };
    },
  });
}
