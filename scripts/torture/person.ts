// A person at the bus who writes down what was acknowledged: submits the plan, approves, grants, retries, cancels, reads.
// What was once answered must never be unsaid: versions, heads and landings that were seen may only grow.

import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { type BusClient, connectBus } from "../../bus/client/client.ts";
import { readToken } from "../../bus/client/find.ts";
import { inCommonDir, readEndpoint } from "../../bus/paths.ts";
import { BusbarError, isCode } from "../../schemas/errors.ts";
import type { MethodName, Params, Result } from "../../schemas/methods.ts";
import type { Run, RunSpec, Task } from "../../schemas/task.ts";
import type { World } from "../../test/helpers/world.ts";

/** Errors that say nothing about the deed: the bus died, or starts. */
const AWAY = ["BUS_AWAY", "TIMEOUT", "SHUTTING_DOWN", "STORAGE"] as const;
const CALL_MS = 5_000;

export interface Ack {
  what: string;
  run: string;
  task?: string;
  requestId?: string;
}

export class Person {
  readonly acks: Ack[] = [];
  readonly faults: string[] = [];
  /** From the first call that the bus did not answer to the next that it did, in milliseconds. */
  readonly recoveries: number[] = [];
  readonly #world: World;
  #client: BusClient | undefined;
  #awaySince: number | undefined;
  readonly #versions = new Map<string, number>();
  readonly #landed = new Map<string, string[]>();
  readonly #reads = new Set<string>();

  constructor(world: World) {
    this.#world = world;
  }

  /** One call; undefined when the bus is away. */
  async ask<M extends MethodName>(method: M, params: Params<M>): Promise<Result<M> | undefined> {
    try {
      this.#client ??= await this.#connect();
      const answer = await this.#client.call(method, params, { timeoutMs: CALL_MS });
      if (this.#awaySince !== undefined) this.recoveries.push(performance.now() - this.#awaySince);
      this.#awaySince = undefined;
      return answer;
    } catch (error) {
      if (!isCode(error, ...AWAY)) throw error;
      this.#awaySince ??= performance.now();
      this.close();
      return undefined;
    }
  }

  /** Until the bus has taken it. */
  async submit(spec: RunSpec): Promise<string> {
    for (;;) {
      const answer = await this.ask("submit_run", { spec });
      if (answer === undefined) {
        await new Promise((resolve) => setTimeout(resolve, 50));
        continue;
      }
      if (answer.run !== spec.run)
        this.faults.push(`run ${spec.run} was submitted twice: as ${answer.run}, too`);
      this.acks.push({ what: "submit", run: answer.run });
      return answer.run;
    }
  }

  /** Looks at a run, and does what a person has to do. Undefined: the bus is away. */
  async look(run: string): Promise<{ run: Run; tasks: Task[] } | undefined> {
    const answer = await this.ask("get_run", { run });
    if (!answer) return undefined;
    this.#compare(answer.run, answer.tasks);
    for (const task of answer.tasks) await this.#decide(run, task);
    return answer;
  }

  close(): void {
    this.#client?.close();
    this.#client = undefined;
  }

  async #connect(): Promise<BusClient> {
    const endpoint = readEndpoint(inCommonDir(join(this.#world.repo, ".git")).endpoint);
    if (!endpoint) throw new BusbarError("BUS_AWAY", "there is no endpoint");
    let token: string;
    try {
      token = readToken(endpoint, "person");
    } catch {
      throw new BusbarError("BUS_AWAY", "there is no token");
    }
    return connectBus({
      socket: endpoint.socket,
      role: "person",
      token,
      client: "torture",
      timeoutMs: CALL_MS,
    });
  }

  #compare(run: Run, tasks: readonly Task[]): void {
    for (const task of tasks) {
      const key = `${run.run}/${task.spec.id}`;
      const known = this.#versions.get(key) ?? 0;
      if (task.state_version < known)
        this.faults.push(`${key} went back from version ${known} to ${task.state_version}`);
      this.#versions.set(key, task.state_version);
    }
    const before = this.#landed.get(run.run) ?? [];
    const now = run.landed.map(({ commit }) => commit);
    if (before.some((commit, i) => now[i] !== commit)) this.faults.push(`${run.run}: a landing was unsaid`);
    this.#landed.set(run.run, now);
  }

  async #decide(run: string, task: Task): Promise<void> {
    const { state, spec } = task;
    const at = { run, task: spec.id };
    if (state.name === "blocked" && state.needs.kind === "review") await this.#deed("approve", at);
    else if (state.name === "blocked" && state.needs.kind === "files") await this.#deed("grant_files", at);
    else if (spec.id === "slow" && state.name === "running" && state.phase === "agent")
      await this.#deed("cancel", at);
    else if (spec.id === "again" && state.name === "blocked" && state.needs.kind === "retries_used") {
      writeFileSync(join(this.#world.W, `allow-${run}`), "");
      await this.#deed("retry_task", at);
    } else if (state.name === "passed" && state.merged?.commit) await this.#read(at);
  }

  async #deed(
    method: "approve" | "grant_files" | "cancel" | "retry_task",
    at: { run: string; task: string },
  ): Promise<void> {
    try {
      const answer = await this.ask(method, at);
      if (answer) this.acks.push({ what: method, ...at });
      if (answer && "state_version" in answer)
        this.#versions.set(`${at.run}/${at.task}`, answer.state_version);
    } catch (error) {
      // An answer that was lost with the bus: the deed was done all the same.
      if (!isCode(error, "ILLEGAL_MOVE")) throw error;
    }
  }

  /** Once per task: what was read must be in the audit log. */
  async #read({ run, task }: { run: string; task: string }): Promise<void> {
    if (this.#reads.has(`${run}/${task}`)) return;
    const answer = await this.ask("get_file", { run, task_id: task, path: `${task}.txt` });
    if (!answer) return;
    this.#reads.add(`${run}/${task}`);
    this.acks.push({ what: "get_file", run, task, requestId: answer.request_id });
  }
}
