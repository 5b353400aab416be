// The handlers that change state, called as the dispatcher calls them: params parsed by the method table.

import type { TestContext } from "node:test";
import type { Call } from "../../bus/dispatch.ts";
import { makeMethods } from "../../bus/methods/index.ts";
import type { Store } from "../../bus/state/store.ts";
import type { TimerSetter } from "../../bus/state/timers.ts";
import type { Peer } from "../../bus/state/view.ts";
import { Config } from "../../schemas/config.ts";
import { isCode } from "../../schemas/errors.ts";
import type { AttemptRef } from "../../schemas/ids.ts";
import { METHODS, type MethodName, type Params, type Result, type Role } from "../../schemas/methods.ts";
import { BASE, FakeClock, HALF, MemoryLog, openStore, runSpec, specsOf } from "./state.ts";
import { tempDir } from "./temp.ts";

export class FakePeer implements Peer {
  readonly got: [string, unknown][] = [];
  readonly closers: (() => void)[] = [];
  notify = (method: string, params: unknown) => void this.got.push([method, params]);
  onClose = (fn: () => void) => void this.closers.push(fn);
  close = () => {
    for (const fn of this.closers) fn();
  };
}

export class Bus {
  readonly methods: ReturnType<typeof makeMethods>;
  readonly log = new MemoryLog();
  #calls = 0;
  constructor(
    readonly store: Store,
    clock = new FakeClock(),
    timer?: TimerSetter,
  ) {
    const parts = {
      store,
      clock,
      log: this.log,
      random: HALF,
      config: Config.parse({}),
      stateDir: "/state",
      runtimeDir: "/run",
      tokenFor: (role: string, ref: AttemptRef) => `${role}.${ref.task}.${ref.attempt}`,
    };
    this.methods = makeMethods(parts, timer);
  }

  async call<M extends MethodName>(
    role: Role,
    method: M,
    params: Params<M>,
    who: { peer?: Peer; attempt?: AttemptRef } = {},
  ): Promise<Result<M>> {
    const handler = this.methods.handlers[method]!;
    const call: Call = {
      actor: role,
      role,
      method,
      requestId: `q${this.#calls++}`,
      arrived: 0,
      access: {},
      peer: who.peer ?? new FakePeer(),
      ...(who.attempt && { attempt: who.attempt }),
    };
    const parsed = METHODS[method].params.parse(params) as never;
    return (await handler(call, parsed)) as Result<M>;
  }

  /** Claims a ready task of run r. */
  async claim(task: string): Promise<AttemptRef & { answer: Result<"claim"> }> {
    const { state_version } = this.store.view.task("r", task)!;
    const params = { run: "r", task, state_version, worker: "w", base: BASE, workspace: "/w" };
    const answer = await this.call("scheduler", "claim", params);
    return { run: "r", task, attempt: answer.attempt, answer };
  }
}

export async function bus(t: TestContext): Promise<Bus> {
  const dir = tempDir(t, "t", async () => {
    made.methods.stop();
    await made.store.close();
  });
  const made = new Bus(await openStore(dir));
  await made.call("person", "submit_run", { spec: runSpec("r", specsOf({ a: [], b: ["a"], c: [] })) });
  return made;
}
export const ref = ({ run, task, attempt }: AttemptRef): AttemptRef => ({ run, task, attempt });
export const code = (name: Parameters<typeof isCode>[1]) => (e: unknown) => isCode(e, name);
