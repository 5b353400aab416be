// The shim's contract: what stands round one process (an agent, or a command of the gate), in order. It outlives
// the bus and the scheduler, and knows how its process ended until the bus has taken that knowledge.
//
//  1. The job has been read (job.ts). `shim.json` says durably who the shim is and by which mark all that it
//     starts can be found.
//  2. Connect and `register`, and wait for the answer. Bus away for REGISTER_WAIT_MS: nothing is started, the
//     outcome is spawn_failed. FENCED: nothing is started and nothing reported; the attempt is somebody else's.
//  3. Task socket (agents), environment, limits, log, FIFO; the process starts in a session of its own.
//  4. Every SAMPLE_MS: usage of the tree, and the deadline once more (a timer alone is one insurance, S5).
//     Every HEARTBEAT_MS: heartbeat.
//  5. The end, in one place, first reason wins (process.ts): exit, signal, timeout, cancelled, lost. Nobody of
//     the tree is left, or is listed.
//  6. Its output is drained for at most DRAIN_MS after the last of the tree; the log is closed.
//  7. Outbox (durable), then the done file, then `complete` until the bus has taken it, then the outbox is marked
//     acknowledged. MUST be in this order: whoever sees the done file finds the outbox.
//
// The bus may go and come back at any time after 2; nothing of this waits for it but the last part of 7.

import { closeSync, openSync, readSync } from "node:fs";
import { join } from "node:path";
import type { ThinClient, ThinOptions } from "../bus/client/thin.ts";
import { faultPoint } from "../schemas/fault-points.ts";
import { attemptLabel } from "../schemas/ids.ts";
import type { Outcome, ShimJob } from "../schemas/job.ts";
import { DRAIN_MS, REGISTER_WAIT_MS, REPORT_GIVE_UP_MS, SAMPLE_MS } from "../schemas/limits.ts";
import type { Clock, Log, Random } from "../schemas/ports.ts";
import { DiskQuota } from "./disk.ts";
import { MARK_NAME, processEnvironment } from "./env.ts";
import { Group } from "./group.ts";
import { launchArgv } from "./launch.ts";
import { BusLink } from "./link.ts";
import { BoundedLog, type LogSummary } from "./log.ts";
import { killedForMemory } from "./oom.ts";
import { ackPath, doneOf, type PidFile, writeDurably } from "./outbox.ts";
import { makeOutcome, notStarted } from "./outcome.ts";
import { type Exit, startTime } from "./proc.ts";
import { type Ending, Supervision } from "./process.ts";
import { redactor, redactText } from "./redact.ts";
import { Sandbox } from "./sandbox.ts";
import type { Stage } from "./stage.ts";
import { type Output, startFault, startProcess } from "./start.ts";
import { openTaskSocket, type TaskSocket } from "./task-socket.ts";
import { Tree } from "./tree.ts";
import { Watch } from "./watch.ts";

/** What the shim takes from the edge. */
export interface ShimEdge {
  /** Aborted when the shim itself is asked to end: the process is cancelled. */
  cancel: AbortSignal;
  connect(options: ThinOptions): Promise<ThinClient>;
  log: Log;
  clock: Clock;
  random: Random;
}

/** Exit codes of the program beside 0 (reported) and 2 (no usable job). */
const EXIT_FENCED = 3;
const EXIT_UNREPORTED = 4;
const CLIENT = "bus-shim/0.1.0";
const SANDBOX_FAILED = "bubblewrap could not make the sandbox, nothing ran in it";

/** Runs a job to its end; the exit code of the program. Throws when not even the pid file can be written. */
export function runJob(job: ShimJob, edge: ShimEdge): Promise<number> {
  return new JobRun(job, edge).run();
}

class JobRun {
  readonly #job: ShimJob;
  readonly #edge: ShimEdge;
  readonly #self: PidFile;
  readonly #link: BusLink;
  readonly #mark = randomHex(16);
  readonly #began: number;
  #missing: string[] = [];
  #group: Group | undefined;
  #disk: DiskQuota | undefined;
  #sandbox: Sandbox | undefined;
  #supervision: Supervision | undefined;
  #watch: Watch | undefined;
  /** Asked to end before there was anything to end. */
  #tooEarly: string | undefined;

  constructor(job: ShimJob, edge: ShimEdge) {
    this.#job = job;
    this.#edge = edge;
    this.#began = edge.clock.now();
    const who = { kind: job.kind, name: job.name, pid: process.pid, start_time: startTime(process.pid) };
    this.#self = { v: 1, ...who, ref: job.ref, mark: `${MARK_NAME}=${this.#mark}` };
    const { socket, shim_token: token } = job.bus;
    this.#link = new BusLink({
      connect: (onNotify) => edge.connect({ socket, role: "shim", token, client: CLIENT, onNotify }),
      who,
      onCancel: (reason) => this.#cancel(reason),
      onFenced: () => this.#supervision?.stop("lost", "the bus has given the task to another attempt"),
      log: edge.log,
      clock: edge.clock,
      random: edge.random,
    });
  }

  async run(): Promise<number> {
    faultPoint("shim.start.before-pid-file");
    writeDurably(this.#pidPath(), this.#self);
    const { cancel } = this.#edge;
    if (cancel.aborted) this.#cancel(String(cancel.reason));
    else cancel.addEventListener("abort", () => this.#cancel(String(cancel.reason)));
    const answer = await this.#link.register(REGISTER_WAIT_MS, cancel);
    if (answer.kind === "fenced") {
      this.#edge.log.warn("the bus does not want this attempt; nothing is started", this.#ids());
      this.#link.close();
      return EXIT_FENCED;
    }
    const outcome =
      answer.kind === "failed"
        ? this.#outcome(this.#neverRan(answer.why))
        : await this.#runProcess(answer.heartbeatMs);
    return this.#report(outcome);
  }

  #cancel(reason: string): void {
    if (this.#supervision) this.#supervision.stop("cancelled", reason);
    else this.#tooEarly ??= reason;
  }

  #neverRan(why: string): Ending {
    return this.#tooEarly === undefined
      ? notStarted("spawn_failed", why)
      : notStarted("cancelled", this.#tooEarly);
  }

  /** Steps 3 to 6. */
  async #runProcess(heartbeatMs: number): Promise<Outcome> {
    const job = this.#job;
    const env = processEnvironment(job, this.#mark);
    let door: TaskSocket | undefined;
    let log: BoundedLog | undefined;
    try {
      const fault = this.#tooEarly ?? faultOf(job, env.PATH ?? "");
      if (fault !== undefined) return this.#outcome(this.#neverRan(fault));
      door = await this.#openDoor();
      log = new BoundedLog(join(job.dir, job.files.log));
      const book = log;
      const stage = redactor(job.secrets, (bytes) => book.write(bytes));
      const output = this.#start(env, stage, heartbeatMs);
      const ending = await (this.#supervision as Supervision).ended();
      this.#watch?.stop();
      await drain(output);
      stage.end();
      return this.#outcome(ending, log.close());
    } catch (error) {
      return this.#outcome(await this.#failed((error as Error).message), log?.close());
    } finally {
      door?.close();
      this.#sandbox?.close();
      await this.#group?.remove();
    }
  }

  /** A fault of ours: before the start it says why there is none; after it the process must not be left alone. */
  async #failed(why: string): Promise<Ending> {
    if (!this.#supervision) return this.#neverRan(why);
    this.#edge.log.error(why, this.#ids());
    this.#supervision.stop("lost", why);
    return this.#supervision.ended();
  }

  async #openDoor(): Promise<TaskSocket | undefined> {
    const { task_socket: path, bus } = this.#job;
    if (path === undefined || bus.agent_token === undefined) return undefined;
    const { secrets } = this.#job;
    return openTaskSocket({ path, bus: bus.socket, token: bus.agent_token, client: CLIENT, secrets });
  }

  #start(env: Record<string, string>, stage: Stage, heartbeatMs: number): Output {
    const { job, clock } = { job: this.#job, clock: this.#edge.clock };
    this.#missing = [...(job.lacking ?? []), ...job.launch.missing];
    this.#group = Group.make(job.groups, job.launch.writes, this.#missing);
    this.#sandbox = job.sandbox && new Sandbox(job.dir);
    if (job.limits.disk !== undefined)
      this.#disk = new DiskQuota(job.writes_in, job.limits.disk, clock.now(), () => clock.monotonic());
    const argv = launchArgv(job, this.#group?.doors);
    const started = startProcess(
      { argv, cwd: job.cwd, dir: job.dir, env, statusFd: this.#sandbox?.fd },
      (chunk) => stage.push(chunk),
      (code, signal) => this.#exited({ code, signal }),
    );
    this.#sandbox?.around(started.pid);
    const tree = new Tree(started.pid, this.#self.mark, this.#group, this.#sandbox);
    const supervision = new Supervision(tree, job.grace_ms, clock);
    this.#supervision = supervision;
    this.#watch = new Watch(tree, clock, {
      timeoutMs: job.timeout_ms,
      sampleMs: SAMPLE_MS,
      heartbeatMs,
      limits: job.limits,
      disk: this.#disk,
      onTimeout: () => supervision.stop("timeout", `not done within ${job.timeout_ms} ms`),
      onLimit: (reason, detail) => supervision.stop(reason, detail),
      onHeartbeat: (usage) => this.#link.heartbeat(usage),
    });
    this.#self.child = { pid: started.pid, start_time: startTime(started.pid) };
    faultPoint("shim.start.before-note-child");
    this.#write(this.#pidPath(), this.#self);
    return started.output;
  }

  #exited(exit: Exit): void {
    this.#watch?.processEnded();
    const inside = this.#sandbox ? this.#sandbox.exitOf(exit) : exit;
    if (inside === undefined) this.#supervision?.stop("spawn_failed", SANDBOX_FAILED);
    this.#supervision?.exited(inside ?? { code: null, signal: null });
  }

  #outcome(ending: Ending, log: LogSummary = { bytes: 0, dropped: 0, tail: "" }): Outcome {
    const now = this.#edge.clock.now();
    const measured = this.#watch?.measured() ?? {
      started: new Date(this.#began).toISOString(),
      ended: new Date(now).toISOString(),
      duration_ms: 0,
      peak_rss: 0,
      cpu_ms: 0,
    };
    const redact = (text: string) => redactText(this.#job.secrets, text);
    if (ending.detail === SANDBOX_FAILED) ending = { ...ending, detail: sandboxFailed(log.tail) };
    const group = this.#group?.facts() ?? {};
    const killed = group.memoryKills ? killedForMemory(this.#group?.names ?? []) : [];
    const disk = ending.reason === "disk" ? undefined : this.#disk?.last();
    const facts = { ...measured, group, killed, disk, limits_missing: this.#missing };
    return makeOutcome(this.#job, ending, log, facts, redact);
  }

  /** Step 7. */
  async #report(outcome: Outcome): Promise<number> {
    const outbox = join(this.#job.dir, this.#job.files.outbox);
    faultPoint("shim.report.before-outbox");
    this.#write(outbox, outcome);
    faultPoint("shim.report.before-done");
    this.#write(join(this.#job.dir, this.#job.files.done), doneOf(outcome));
    const taken = await this.#link.complete(outcome, REPORT_GIVE_UP_MS);
    faultPoint("shim.report.before-acknowledged");
    if (taken) this.#write(ackPath(outbox), { v: 1, at: new Date(this.#edge.clock.now()).toISOString() });
    this.#link.close();
    return taken ? 0 : EXIT_UNREPORTED;
  }

  #pidPath(): string {
    return join(this.#job.dir, this.#job.files.pid);
  }

  /** A full disk must not keep the outcome from the bus. */
  #write(path: string, value: unknown): void {
    try {
      faultPoint("shim.report.before-write");
      writeDurably(path, value);
    } catch (error) {
      this.#edge.log.error((error as Error).message, this.#ids());
    }
  }

  #ids(): Record<string, unknown> {
    return { attempt: attemptLabel(this.#job.ref), name: this.#job.name };
  }
}

/** Why the program of a job, or its sandbox, cannot be started. */
function faultOf({ argv, sandbox, cwd }: ShimJob, path: string): string | undefined {
  return startFault(argv, cwd, path) ?? (sandbox && startFault(sandbox.argv, cwd, path));
}

/** With what bwrap said last. */
function sandboxFailed(tail: string): string {
  const words = /^bwrap: .*$/m.exec(tail)?.[0];
  return words === undefined ? SANDBOX_FAILED : `${SANDBOX_FAILED} (${words})`;
}

/** From the kernel: node:crypto would cost a tenth of the shim's memory. */
function randomHex(bytes: number): string {
  const fd = openSync("/dev/urandom", "r");
  const out = Buffer.alloc(bytes);
  readSync(fd, out, 0, bytes, null);
  closeSync(fd);
  return out.toString("hex");
}

/** Step 6: what is still in the FIFO. A holder of its other end is not waited for. */
async function drain(output: Output): Promise<void> {
  let timer: NodeJS.Timeout | undefined;
  const enough = new Promise<void>((resolve) => {
    timer = setTimeout(resolve, DRAIN_MS);
  });
  await Promise.race([output.ended, enough]);
  clearTimeout(timer);
  output.socket.destroy();
}
