// What the verbs by which a person decides about one task have in common: find the task, ask the bus, say
// what follows.

import { BusbarError, isCode } from "../../../schemas/errors.ts";
import type { Task } from "../../../schemas/task.ts";
import { parseAddress, resolveTask } from "../address.ts";
import { type Args, type Bus, type Ctx, sayJson, tell, usage } from "../context.ts";
import { EXIT } from "../exit-codes.ts";

export interface Decision {
  /** Asks the bus; gives back what is said to the person, as one sentence without a full stop. */
  ask(bus: Bus, task: Task): Promise<{ words: string; facts?: Record<string, unknown> }>;
}

/** What people decide about a task, as it is told. */
const DECIDED: ReadonlyMap<string, string> = new Map([
  ["task.retry_asked", "retried"],
  ["task.approved", "approved"],
  ["task.rejected", "rejected"],
  ["task.cancelled", "cancelled"],
  ["task.files_granted", "granted further files"],
]);
/** So many events back a decision is still news. */
const LOOK_BACK = 50;

/** Of two people who decide the same at the same moment one is too late: he is told what was decided, and when. */
async function withLastDecision(bus: Bus, task: Task, error: BusbarError): Promise<BusbarError> {
  // The bus says better what to do where it has more than the catalogue.
  if (error.data.help !== undefined && error.data.help !== error.help) return error;
  const of = { run: task.run, task: task.spec.id };
  const query = { ...of, kind: "event", newest: true, limit: LOOK_BACK } as const;
  const { records } = await bus.call("query_audit", query).catch(() => ({ records: [] }));
  const last = records.find((record) => DECIDED.has(record.event?.type ?? ""));
  if (!last) return error;
  const what = `It was ${DECIDED.get(last.event?.type ?? "")} by ${last.actor} at ${last.ts}`;
  const help = `${what}; look at it with \`busctl tasks --task ${task.run}/${task.spec.id}\`.`;
  return new BusbarError("ILLEGAL_MOVE", error.message, { ...error.data, help });
}

export async function decide(ctx: Ctx, args: Args, decision: Decision): Promise<number> {
  const address = parseAddress(args.word(0) ?? "");
  if (address.path !== undefined) throw usage("a task is named as TASK or RUN/TASK, without a path");
  const bus = await ctx.connect();
  try {
    const { task } = await resolveTask(bus, address);
    const { words, facts = {} } = await decision.ask(bus, task).catch(async (error: unknown) => {
      throw isCode(error, "ILLEGAL_MOVE") ? await withLastDecision(bus, task, error) : error;
    });
    const name = `${task.run}/${task.spec.id}`;
    if (ctx.json) await sayJson(ctx, { run: task.run, task: task.spec.id, ...facts });
    else await tell(ctx, `${name}: ${words}`);
    return EXIT.ok;
  } finally {
    bus.close();
  }
}
