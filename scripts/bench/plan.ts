// A run for benches: N tasks without dependencies, as the bus takes it.

import { RunSpec, TaskSpec } from "../../schemas/task.ts";

export function benchRun(order: { run: string; repo: string; base: string; tasks: number }): RunSpec {
  return RunSpec.parse({
    run: order.run,
    repo: order.repo,
    base: order.base,
    base_name: "main",
    workers: 20,
    gate: "none",
    tasks: Array.from({ length: order.tasks }, (_, i) => benchTask(`task_${i}`)),
  });
}

function benchTask(id: string): TaskSpec {
  return TaskSpec.parse({
    id,
    goal: "Say in docs/index.md what the part does, with an example that a person can copy, and link it from the page above.",
    command: "true",
    agent: { use: "command" },
    allowed_files: [`docs/${id}.md`],
    acceptance: [{ run: "true" }],
    timeout_s: 60,
    retries: 3,
  });
}
