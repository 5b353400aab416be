import type { Args, Ctx } from "../context.ts";
import { runPlan } from "./run.ts";

/** The same as `run --detach`. */
export function run(ctx: Ctx, args: Args): Promise<number> {
  return runPlan(ctx, args, true);
}
