// Questions to the audit log over a million records in several files, all but the newest packed.

import { randomBytes } from "node:crypto";
import { readdirSync, statSync } from "node:fs";
import { join } from "node:path";
import { monitorEventLoopDelay } from "node:perf_hooks";
import { systemDisk } from "../../bus/state/disk.ts";
import { FileJournal } from "../../bus/state/file-journal.ts";
import type { Unplaced } from "../../bus/state/journal.ts";
import { type AuditFilter, queryAudit } from "../../bus/state/query.ts";
import { systemClock } from "../../schemas/ports.ts";
import { type Bench, type BenchContext, median, type Row, timed } from "./bench.ts";

const RECORDS = 1_000_000;
const QUICK_RECORDS = 100_000;
const TASKS = 2_000;
const RUNS = 20;
/** A record a millisecond and a half: some twenty-five minutes of a busy bus. */
const STEP_MS = 1.5;
const BEGAN = Date.UTC(2030, 0, 1);
const BATCH = 2_000;
const ROUNDS = 3;

const quiet = { info: () => {}, warn: (text: string) => console.error(text), error: console.error };

export const audit: Bench = {
  name: "audit",
  about: "query_audit over 1,000,000 records, one filter at a time",
  run,
};

async function run({ dir, quick, say }: BenchContext): Promise<Row[]> {
  const count = quick ? QUICK_RECORDS : RECORDS;
  const journal = await FileJournal.open(
    {
      disk: systemDisk,
      dir,
      key: randomBytes(32),
      log: quiet,
      monotonic: systemClock.monotonic,
      ...(quick && { segmentBytes: 6 * 1024 * 1024 }),
    },
    undefined,
    () => {},
  );
  const wrote = await timed(() => fill(journal, count));
  const size = (end: string) => bytesOf(dir, end);
  const plain = size(".jsonl");
  say(`  ${count} records, ${mb(plain)} MB written in ${Math.round(wrote)} ms`);
  const delay = monitorEventLoopDelay({ resolution: 1 });
  delay.enable();
  const packing = await timed(() => journal.tidy(journal.position));
  delay.disable();
  say(
    `  packed to ${mb(size(".gz"))} MB and ${mb(size(".idx"))} MB of indexes, ${mb(size(".jsonl"))} MB left plain`,
  );
  const rows: Row[] = [
    {
      measure: "packing all closed files",
      unit: "ms",
      ours: packing,
      note: `longest hold of the loop ${held(delay)} ms`,
    },
  ];
  for (const [name, filter] of Object.entries(filters(count))) rows.push(await ask(journal, name, filter));
  rows.push({ measure: "verify: every record", unit: "ms", ours: await timed(() => journal.verify()) });
  await journal.close();
  return rows;
}

async function ask(journal: FileJournal, name: string, filter: AuditFilter): Promise<Row> {
  const delay = monitorEventLoopDelay({ resolution: 1 });
  const times: number[] = [];
  let found = 0;
  const cpu: number[] = [];
  for (let round = 0; round < ROUNDS; round++) {
    const before = process.cpuUsage();
    delay.enable();
    times.push(await timed(async () => (found = (await queryAudit(journal, filter)).records.length)));
    delay.disable();
    const { user, system } = process.cpuUsage(before);
    cpu.push((user + system) / 1_000);
  }
  const note = `${found} found; CPU ${Math.round(median(cpu))} ms of all threads; the first time ${Math.round(times[0] ?? 0)} ms; longest hold of the loop ${held(delay)} ms`;
  return { measure: name, unit: "ms", ours: median(times), target: 1_000, note };
}

function filters(count: number): Record<string, AuditFilter> {
  const at = (share: number) => new Date(BEGAN + count * share * STEP_MS).toISOString();
  const middle = Math.floor(count / 2);
  return {
    "a run": { run: "run_7" },
    "a task": { task: "task_1234" },
    "a task, newest first": { task: "task_1234", newest: true },
    "a method": { method: "get_file" },
    "a method that is rare everywhere": { method: "metrics", limit: 10_000 },
    "an actor": { actor: "agent:run_7/task_7#1" },
    "an actor that is rare everywhere": { actor: "person", limit: 10_000 },
    "events only": { kind: "event", limit: 10_000 },
    "since, near the end": { since: at(0.999) },
    "since, in the middle": { since: at(0.5) },
    "until, near the start, newest first": { until: at(0.001), newest: true },
    "a minute in the middle": {
      since: at(0.5),
      until: new Date(BEGAN + middle * STEP_MS + 60_000).toISOString(),
      limit: 10_000,
    },
    "a request id": { request_id: requestId(middle) },
    "a request id that is nowhere": { request_id: "nowhere-1" },
    "a task that is nowhere": { task: "nowhere" },
    "words that never meet": { run: "run_7", method: "metrics" },
    "the newest thousand": { newest: true },
  };
}

async function fill(journal: FileJournal, count: number): Promise<void> {
  for (let n = 0; n < count; n += BATCH) {
    const records = Array.from({ length: Math.min(BATCH, count - n) }, (_, i) => recordOf(n + i));
    await new Promise<unknown>((written, failed) =>
      journal.append({ records, durable: false, written, failed, noted: (error) => error && failed(error) }),
    );
  }
}

const METHODS = ["get_file", "get_file", "get_file", "list_files", "get_task", "heartbeat"];
const requestId = (n: number) => `${((n * 2_654_435_761) >>> 0).toString(16)}-${n}`;

/** Mostly reads of agents at work, twenty tasks at a time; every twentieth an event; now and then a person. */
function recordOf(n: number): Unplaced {
  const ts = new Date(BEGAN + n * STEP_MS).toISOString();
  // Twenty run at a time, each for a while.
  const task = (Math.floor(n / 10_000) * 20 + ((n * 7_919) % 20)) % TASKS;
  const [run, id] = [`run_${task % RUNS}`, `task_${task}`];
  const of = { run, task: id, attempt: 1, request_id: requestId(n) };
  if (n % 400 === 17)
    return {
      ts,
      kind: "access",
      actor: "person",
      method: "metrics",
      request_id: of.request_id,
      response_time_ms: 0.4,
      access: {},
    };
  if (n % 20 === 3)
    return {
      ts,
      kind: "event",
      actor: `agent:${run}/${id}#1`,
      method: "task_status_update",
      ...of,
      event: { type: "task.progress", attempt: 1, status: "working", message: `step ${n % 1_000} of many` },
      state_version: n % 90,
    };
  const hash = ((n * 40_503) >>> 0).toString(16).padStart(8, "0");
  return {
    ts,
    kind: "access",
    actor: `agent:${run}/${id}#1`,
    method: METHODS[n % METHODS.length] as string,
    response_time_ms: (n % 977) / 1_000,
    access: { path: `src/part_${n % 331}/file_${n % 1_009}.ts`, oid: hash.repeat(5), version: n % 3 },
    ...of,
  };
}

function bytesOf(dir: string, end: string): number {
  return readdirSync(dir)
    .filter((name) => name.endsWith(end))
    .reduce((sum, name) => sum + statSync(join(dir, name)).size, 0);
}

function mb(bytes: number): string {
  return (bytes / 1e6).toFixed(1);
}

function held(delay: ReturnType<typeof monitorEventLoopDelay>): string {
  return (delay.max / 1e6).toFixed(1);
}
