// What must be true when a plan has come to its end, whatever was killed on the way.

import { readFileSync } from "node:fs";
import { join } from "node:path";
import type { JournalRecord } from "../../schemas/events.ts";
import type { AttemptRecord, Run, Task } from "../../schemas/task.ts";
import { assertInvariants, type Checkout } from "../../test/helpers/invariants.ts";
import type { World } from "../../test/helpers/world.ts";
import type { Ack, Person } from "./person.ts";
import type { PlannedTask } from "./plan.ts";

export interface Ended {
  world: World;
  person: Person;
  run: Run;
  tasks: readonly Task[];
  planned: readonly PlannedTask[];
  before: Checkout;
  /** Tasks whose agents, checks or workspaces were hit directly. */
  hurt: ReadonlySet<string>;
  /** How often a shim of a check may have been killed. */
  shimKills: number;
}

/** A check that is lost so often in a row counts against its task (scheduler/gate-runner.ts): it may end its own shim. */
const LOSSES_THAT_COUNT = 3;

/** Sentences, one per violation. */
export async function violationsOf(ended: Ended): Promise<string[]> {
  const { world, person, run, planned } = ended;
  const records = await auditOf(person, run.run);
  const faults = [
    ...planned.flatMap((task) => endFaults(ended, task)),
    ...landingFaults(ended),
    ...onceFaults(records),
    ...(await ackFaults(person, run.run, records)),
    ...traceFaults(ended, records),
    ...person.faults.splice(0),
  ];
  await assertInvariants(world, run.run, ended.before).catch((error: Error) => faults.push(error.message));
  const chain = await person.ask("verify", {});
  if (!chain?.ok) faults.push(`the journal does not verify: ${JSON.stringify(chain)}`);
  return faults;
}

/** Rightful end, and no try used up by what was not the agent's doing. */
function endFaults({ tasks, hurt, shimKills }: Ended, { spec, end, failures }: PlannedTask): string[] {
  const task = tasks.find((one) => one.spec.id === spec.id);
  if (!task) return [`task ${spec.id} is gone`];
  const faults: string[] = [];
  const is = endOf(task);
  if (is !== end)
    faults.push(`${spec.id} ended as ${is}, not as ${end}: ${JSON.stringify(task.state).slice(0, 400)}`);
  const bad = task.attempts.filter(
    (one) =>
      one.result !== undefined &&
      !isInnocent(one.result) &&
      !(shimKills >= LOSSES_THAT_COUNT && isUnseenCheck(one)),
  );
  if (!hurt.has(spec.id) && bad.length !== failures)
    faults.push(
      `${spec.id} has ${bad.length} failures for bad work, not ${failures}: ${results(task.attempts)}`,
    );
  const numbers = task.attempts.map(({ attempt }) => attempt);
  if (numbers.some((number, i) => number !== i + 1))
    faults.push(`${spec.id}: attempts ${numbers.join(", ")}`);
  return faults;
}

/** Failed by a check of which nobody saw a red end. */
function isUnseenCheck({ result, verdicts }: AttemptRecord): boolean {
  const byCheck = result === "check" || result === "check_after_merge";
  return byCheck && verdicts.every(({ verdict }) => verdict !== "fail");
}

function isInnocent(result: string): boolean {
  return ["passed", "needs_files", "cancelled", "lost", "infra"].includes(result);
}

function results(attempts: readonly AttemptRecord[]): string {
  return attempts.map(({ result, evidence }) => `${result} (${evidence?.summary ?? ""})`).join("; ");
}

export function endOf({ state }: Task): string {
  if (state.name === "passed") return state.merged ? "merged" : "passed";
  return state.name === "blocked" ? state.needs.kind : state.name;
}

/** Each landing once, in the order of dependencies, and the branch holds exactly them. */
function landingFaults({ world, run, tasks, planned }: Ended): string[] {
  const faults: string[] = [];
  const order = run.landed.map(({ task }) => task);
  const wanted = planned.filter(({ end }) => end === "merged").map(({ spec }) => spec.id);
  if ([...order].sort().join() !== [...wanted].sort().join())
    faults.push(`landed: ${order.join(", ")}; to land: ${wanted.join(", ")}`);
  for (const { spec } of tasks)
    for (const up of spec.depends_on)
      if (order.includes(spec.id) && order.indexOf(up) > order.indexOf(spec.id))
        faults.push(`${spec.id} landed before ${up}`);
  const format = "--format=%(trailers:key=Busbar-Task,valueonly,separator=%x2C)";
  const log = world.git("log", "--reverse", format, `${run.spec.base}..busbar/${run.run}`).split("\n");
  if (log.filter((line) => line !== "").join() !== order.join())
    faults.push(`the branch holds ${log.join(", ")}; the bus says ${order.join(", ")}`);
  return faults;
}

/** What may happen once per attempt happened once. */
function onceFaults(records: readonly JournalRecord[]): string[] {
  const seen = new Map<string, number>();
  const landed = new Map<string, number>();
  for (const { event, task, attempt } of records) {
    if (event === undefined) continue;
    const once = ["task.claimed", "task.passed", "task.failed", "run.submitted"].includes(event.type);
    const proc = event.type === "proc.completed" ? ` ${event.outcome.kind} ${event.outcome.name}` : "";
    if (once || proc !== "") count(seen, `${event.type}${proc} ${task ?? ""}#${attempt ?? ""}`);
    if (event.type === "task.landed") count(landed, `task.landed ${task}`);
  }
  return [...seen, ...landed].filter(([, n]) => n > 1).map(([what, n]) => `${what}: ${n} times`);
}

function count(map: Map<string, number>, key: string): void {
  map.set(key, (map.get(key) ?? 0) + 1);
}

const EVENT_OF: Readonly<Record<string, string>> = {
  submit: "run.submitted",
  approve: "task.approved",
  grant_files: "task.files_granted",
  retry_task: "task.retry_asked",
  cancel: "task.cancelled",
};

/** Nothing that was answered is missing. */
async function ackFaults(person: Person, run: string, records: readonly JournalRecord[]): Promise<string[]> {
  const isThere = ({ what, task, requestId }: Ack) =>
    requestId === undefined
      ? records.some((one) => one.event?.type === EVENT_OF[what] && one.task === task)
      : records.some((one) => one.request_id === requestId);
  return person.acks
    .filter((ack) => ack.run === run && !isThere(ack))
    .map((ack) => `acknowledged and not in the journal: ${JSON.stringify(ack)}`);
}

/** The agents' own words: no two of one task at a time, nothing missing that an upstream made, no version lost. */
function traceFaults({ world, run: { run }, hurt }: Ended, records: readonly JournalRecord[]): string[] {
  const faults: string[] = [];
  const starts = new Map<string, number>();
  const text = readFileSync(join(world.W, "trace"), "utf8");
  for (const line of text.split("\n")) {
    const [what = "", ofRun, task = "", attempt = "", , , ...rest] = line.split(" ");
    if (ofRun !== run) continue;
    // In a workspace that was removed by hand under the agent, much is missing.
    if (what === "overlap" || (what === "missing" && !hurt.has(task)))
      faults.push(`${task}#${attempt}: ${what} ${rest.join(" ")}`);
    if (what === "start") count(starts, `${task}#${attempt}`);
    if (what === "published" && !isPublished(records, task, Number(attempt), rest.join(" ")))
      faults.push(`${task}#${attempt}: ${rest.join(" ")} was answered and is not in the journal`);
  }
  for (const [key, n] of starts) if (n > 1) faults.push(`the agent of ${key} was started ${n} times`);
  return faults;
}

function isPublished(
  records: readonly JournalRecord[],
  task: string,
  attempt: number,
  words: string,
): boolean {
  const version = Number(/\d+/.exec(words)?.[0]);
  return records.some(
    ({ event, ...of }) =>
      event?.type === "task.snapshot" &&
      of.task === task &&
      of.attempt === attempt &&
      event.snapshot.version === version,
  );
}

async function auditOf(person: Person, run: string): Promise<JournalRecord[]> {
  const all: JournalRecord[] = [];
  for (let after = 0; ; ) {
    const page = await person.ask("query_audit", { run, after_seq: after, limit: 10_000 });
    if (!page) throw new Error("the bus went away although nobody killed it");
    all.push(...page.records);
    if (page.next === undefined || page.records.length === 0) return all;
    after = page.records.at(-1)?.seq ?? page.next;
  }
}
