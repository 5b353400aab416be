import type { Run, Task } from "../../../schemas/task.ts";
import type { Args, Ctx } from "../context.ts";
import { decide } from "./decide.ts";

export function run(ctx: Ctx, args: Args): Promise<number> {
  const feedback = args.text("feedback");
  return decide(ctx, args, {
    async ask(bus, { run, spec: { id } }) {
      const more = feedback === undefined ? {} : { feedback };
      const facts = await bus.call("retry_task", { run, task: id, ...more });
      const now = await bus.call("get_run", { run });
      const task = now.tasks.find(({ spec }) => spec.id === id);
      return { words: task ? whatFollows(task, now.run) : "will be tried again", facts };
    },
  });
}

/** Its tries are all there again; something else may hold it still. */
function whatFollows({ state }: Task, { run, paused }: Run): string {
  const again = `will be tried again`;
  if (state.name === "blocked" && state.needs.kind === "upstream") {
    const { root, state: of } = state.needs;
    return `${again}, but not before ${root}, which is ${of}: busctl retry ${run}/${root}`;
  }
  if (paused) return `${again} once its run goes on: busctl resume ${run}`;
  if (state.name === "pending" && state.waits_for.length > 0)
    return `${again} when ${state.waits_for.join(", ")} landed`;
  return again;
}
