// The outbox is only a file: an agent can write it, and its shim may be killed at any moment.

import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { mkdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { type TestContext, test } from "node:test";
import { identityOf, type PidFile, type Probed } from "../../scheduler/liveness.ts";
import { madeUp, readOutbox } from "../../scheduler/outcomes.ts";
import { ShimProcesses } from "../../scheduler/processes.ts";
import { BusbarError } from "../../schemas/errors.ts";
import type { Outcome, ShimJob } from "../../schemas/job.ts";
import type { ProcRecord, Task } from "../../schemas/task.ts";
import { isAlive } from "../helpers/processes.ts";
import { sh } from "../helpers/repo.ts";
import { tempDir } from "../helpers/temp.ts";
import { until } from "../helpers/wait.ts";

const CLOCK = { now: () => 0 } as ConstructorParameters<typeof ShimProcesses>[0]["clock"];
const LOG = { debug() {}, info() {}, warn() {}, error() {} } as never;
const REF = { run: "r", task: "a", attempt: 1 };
const AGENT = { ref: REF, kind: "agent", name: "agent" } as const;
/** Only checks are asked for. */
const taskOf = () => Promise.reject(new Error("the bus was asked about an agent"));
const WELL: Outcome = { ...madeUp(AGENT, "exit", "", CLOCK), exit: 0 };

/** The directory of an attempt whose shim is gone. */
function gone(t: TestContext, outbox?: unknown) {
  const dir = tempDir(t, "outbox");
  const files = { log: "agent.log", outbox: "outbox.json", done: "status.done", pid: "shim.json" };
  writeFileSync(
    join(dir, files.pid),
    JSON.stringify({ pid: 2 ** 22 + 1, start_time: "00000000-0000-0000-0000-000000000000:1" }),
  );
  if (outbox !== undefined) writeFileSync(join(dir, files.outbox), JSON.stringify(outbox));
  return { ...AGENT, dir, files };
}

async function outcomeOf(job: ReturnType<typeof gone>): Promise<Outcome> {
  const program = { node: "", args: [] };
  const processes = new ShimProcesses({
    program,
    env: {} as never,
    clock: CLOCK,
    log: LOG,
    graceMs: 2_000,
    taskOf,
  });
  const outcome = processes.watch(job, new AbortController().signal);
  processes.look();
  processes.look();
  return await outcome;
}

function living(t: TestContext, dir: string): number {
  const child = spawn("sleep", ["60"], { env: { ...process.env, BUSBAR_DIR: dir }, stdio: "ignore" });
  t.after(() => child.kill("SIGKILL"));
  return child.pid as number;
}

test("case 71 restart-mid-run: an outbox that says `ended well` while processes live is not believed; they are ended first", async (t) => {
  const job = gone(t, WELL);
  const pid = living(t, job.dir);
  await until("it runs", () => sh("/", `tr '\\0' '\\n' < /proc/${pid}/environ | grep BUSBAR_DIR || true`));
  const { reason, detail } = await outcomeOf(job);
  assert.equal(reason, "lost");
  assert.match(detail ?? "", /still ran/);
  assert.equal(isAlive(pid), false);
});

test("a failure in the outbox is believed, but what lives is ended before", async (t) => {
  const job = gone(t, { ...WELL, reason: "timeout", exit: null });
  const pid = living(t, job.dir);
  await until("it runs", () => sh("/", `tr '\\0' '\\n' < /proc/${pid}/environ | grep BUSBAR_DIR || true`));
  assert.equal((await outcomeOf(job)).reason, "timeout");
  assert.equal(isAlive(pid), false);
});

test("an outbox of a shim that ended by itself is believed", async (t) => {
  assert.deepEqual(await outcomeOf(gone(t, WELL)), WELL);
});

test("an outbox that is malformed or of another process counts as none: lost", async (t) => {
  const bad: [string, unknown][] = [
    ["unknown reason", { ...WELL, reason: "fine" }],
    ["exit as text", { ...WELL, exit: "0" }],
    ["exit without its code", { ...WELL, exit: null }],
    ["no log_tail", { ...WELL, log_tail: undefined }],
    ["other attempt", { ...WELL, ref: { ...REF, attempt: 2 } }],
    ["other task", { ...WELL, ref: { ...REF, task: "b" } }],
    ["a check", { ...WELL, kind: "check" }],
    ["other name", { ...WELL, name: "lint" }],
    ["null", null],
    ["minimal", { v: 1, reason: "exit", exit: 0 }],
  ];
  for (const [what, outbox] of bad) assert.equal((await outcomeOf(gone(t, outbox))).reason, "lost", what);
});

test("a FIFO, a link or a directory in place of the outbox does not hold the scheduler up", (t) => {
  const dir = tempDir(t, "outbox");
  writeFileSync(join(dir, "real"), JSON.stringify(WELL));
  sh(dir, "mkfifo fifo; ln -s real link");
  mkdirSync(join(dir, "folder"));
  assert.deepEqual(readOutbox(join(dir, "real"), AGENT), WELL);
  for (const name of ["fifo", "link", "folder"]) assert.equal(readOutbox(join(dir, name), AGENT), undefined);
});

test("unknown neither kills nor frees: it is told as a doubt, and the next answer decides", async (t) => {
  const job = gone(t);
  const pid = living(t, job.dir);
  await until("it runs", () => sh("/", `tr '\\0' '\\n' < /proc/${pid}/environ | grep BUSBAR_DIR || true`));
  let answer: Probed = { kind: "unknown", why: "it is hidden" };
  const program = { node: "", args: [] };
  const probe = () => answer;
  const processes = new ShimProcesses({
    program,
    env: {},
    clock: CLOCK,
    log: LOG,
    graceMs: 500,
    taskOf,
    probe,
  });
  let settled = false;
  const outcome = processes.watch(job, new AbortController().signal).finally(() => {
    settled = true;
  });
  for (let n = 0; n < 3; n++) processes.look();
  assert.deepEqual(processes.doubtOf(REF), { pid: 2 ** 22 + 1, why: "it is hidden" });
  answer = { kind: "alive", stopped: false };
  processes.look();
  assert.equal(processes.doubtOf(REF), undefined);
  assert.deepEqual([isAlive(pid), settled], [true, false]);
  answer = { kind: "dead" };
  processes.look();
  assert.equal((await outcome).reason, "lost");
  assert.equal(isAlive(pid), false);
});

test("the shim's number is a foreign process's by now: lost; the foreign one gets no signal, also by a cancel", async (t) => {
  const foreign = spawn("sleep", ["60"], { stdio: "ignore" });
  t.after(() => foreign.kill("SIGKILL"));
  const pid = foreign.pid as number;
  const self = await until("its identity", () => identityOf(pid));
  const [boot, ticks] = self.start_time.split(":");
  for (const start_time of [`${boot}:${Number(ticks) - 1}`, `${boot?.replace(/^./, "x")}:${ticks}`]) {
    const job = gone(t);
    const shim = { pid, start_time };
    writeFileSync(join(job.dir, "shim.json"), JSON.stringify({ ...shim, child: shim }));
    const cancel = new AbortController();
    const program = { node: "", args: [] };
    const processes = new ShimProcesses({ program, env: {}, clock: CLOCK, log: LOG, graceMs: 0, taskOf });
    const outcome = processes.watch(job, cancel.signal);
    cancel.abort();
    processes.look();
    await outcome;
    assert.ok(isAlive(pid));
  }
});

const CHECK = { ref: REF, kind: "check", name: "1-tests" } as const;
const GREEN: Outcome = { ...madeUp(CHECK, "exit", "", CLOCK), exit: 0, log_tail: "all well" };

/** A check whose shim writes `outbox` and is gone; `procs`: what the bus has heard, given who the shim was. */
async function endOfCheck(t: TestContext, outbox: unknown, procs: (shim: PidFile) => ProcRecord[]) {
  const dir = tempDir(t, "outbox");
  writeFileSync(join(dir, "forged"), JSON.stringify(outbox));
  sh(dir, "mkfifo go");
  const program = { node: "/bin/sh", args: ["-c", "read x < go; cp forged out.json"] };
  let shim: PidFile | undefined;
  const processes = new ShimProcesses({
    program,
    env: process.env,
    clock: CLOCK,
    log: LOG,
    graceMs: 500,
    taskOf: async () => ({ attempts: [{ attempt: 1, procs: procs(shim as PidFile) }] }) as unknown as Task,
  });
  const files = { log: "log", outbox: "out.json", done: "done", pid: "pid" };
  const job = { ...CHECK, v: 1, dir, files, env: {} } as unknown as ShimJob;
  let outcome: Outcome | undefined;
  void processes.run(job, new AbortController().signal).then((end) => {
    outcome = end;
  });
  shim = await until("the shim runs", () => identityOf(processes.pids[0] ?? 0));
  sh(dir, "echo > go");
  return await until("its end is known", () => outcome);
}

const registered = (shim: PidFile): ProcRecord => ({ kind: "check", name: CHECK.name, ...shim });
const heard = (shim: PidFile, more: Partial<Outcome> = {}): ProcRecord => {
  const { reason, exit, signal, started, ended, peak_rss, cpu_ms } = { ...GREEN, ...more };
  return { ...registered(shim), ended: { reason, exit, signal, started, ended, peak_rss, cpu_ms } };
};

test("a check's outbox alone proves nothing: only what its shim told the bus counts", async (t) => {
  const lost = await endOfCheck(t, GREEN, (shim) => [registered(shim)]);
  assert.deepEqual([lost.reason, lost.exit], ["lost", null]);
  assert.match(lost.detail ?? "", /outbox alone proves nothing/);
  assert.equal((await endOfCheck(t, GREEN, () => [])).reason, "spawn_failed", "no shim was let start it");
  assert.deepEqual(await endOfCheck(t, GREEN, (shim) => [heard(shim)]), GREEN);
});

test("a check whose shim told the bus of a red end is red, whatever its outbox says by now", async (t) => {
  const { reason, exit, log_tail } = await endOfCheck(t, GREEN, (shim) => [heard(shim, { exit: 3 })]);
  assert.deepEqual([reason, exit, log_tail], ["exit", 3, ""]);
});

test("what the bus heard from another shim of a check with the same name is not this one's end", async (t) => {
  const earlier = (shim: PidFile) =>
    heard({ pid: shim.pid, start_time: shim.start_time.replace(/:\d+:/, ":7:") });
  const outcome = await endOfCheck(t, GREEN, (shim) => [earlier(shim), registered(shim)]);
  assert.equal(outcome.reason, "lost");
  const blind = (shim: PidFile) =>
    heard({ pid: shim.pid, start_time: shim.start_time.replace(/:\d+:/, ":0:") });
  assert.deepEqual(
    await endOfCheck(t, GREEN, (shim) => [blind(shim)]),
    GREEN,
    "it could not read its start time",
  );
});

test("a bus that does not know the attempt any more: the check is lost", async (t) => {
  const gone = () => {
    throw new BusbarError("FENCED", "attempt 1 is over");
  };
  assert.equal((await endOfCheck(t, GREEN, gone)).reason, "lost");
});
