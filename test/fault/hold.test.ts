// Case 70: a step whose writing fails although every place can be written (a bound of the process, a quota, room that
// came back): done again a few times, then the error is told as it is. An attempt that is stopped waits for nothing.

import assert from "node:assert/strict";
import { mkdirSync, readdirSync } from "node:fs";
import { join } from "node:path";
import { type TestContext, test } from "node:test";
import { whileUnwritable } from "../../scheduler/hold.ts";
import type { Bus } from "../../scheduler/kit.ts";
import { Mirror } from "../../scheduler/mirror.ts";
import { BusbarError, ioError } from "../../schemas/errors.ts";
import type { MethodName, Params, Result } from "../../schemas/methods.ts";
import type { TaskState } from "../../schemas/task.ts";
import { MemoryLog } from "../helpers/state.ts";
import { AT, running, runOf, runSpecOf, specOf, taskOf } from "../helpers/tasks.ts";
import { tempDir } from "../helpers/temp.ts";
import { until } from "../helpers/wait.ts";

/** Keeps what it was told of holds; its disk is full for the first `refusals`. */
class HoldBus implements Bus {
  readonly told: unknown[] = [];
  refusals = 0;

  async call<M extends MethodName>(method: M, params: Params<M>): Promise<Result<M>> {
    assert.equal(method, "hold_attempt");
    if (this.refusals-- > 0) throw new BusbarError("STORAGE", "the disk is full", {});
    this.told.push((params as Params<"hold_attempt">).why);
    return { state_version: 1 } as Result<M>;
  }
}

function bench(t: TestContext, objects?: string) {
  const dir = tempDir(t);
  const log = new MemoryLog();
  const kit = {
    log,
    stateDir: dir,
    control: { gitDir: dir, objectDir: objects ?? dir },
    bus: new HoldBus(),
    mirror: new Mirror(),
  };
  const attempt = { ref: { run: "r", task: "a", attempt: 1 }, abort: new AbortController() };
  return { dir, log, kit, attempt };
}

const errno = (code: string) => Object.assign(new Error(`${code}: write`), { code });

test("case 70: EFBIG of a bound that is gone at the second try costs nothing; one that stays is told", async (t) => {
  const { dir, kit, attempt, log } = bench(t);
  let tries = 0;
  const once = async () => {
    tries += 1;
    if (tries === 1) throw ioError("writing", "index", errno("EFBIG"));
    return tries;
  };
  assert.equal(await whileUnwritable(kit, attempt, once), 2);
  let always = 0;
  const failing = whileUnwritable(kit, attempt, async () => {
    always += 1;
    throw errno("EFBIG");
  });
  await assert.rejects(failing, /EFBIG/);
  assert.equal(always, 4);
  assert.deepEqual(log.lines, []);
  assert.deepEqual(readdirSync(dir), [], "nothing is left of the looks");
});

test("case 70: what is no matter of the disk is told at once", async (t) => {
  const { kit, attempt } = bench(t);
  for (const error of [errno("EMFILE"), new BusbarError("STALE", "x", {})]) {
    let tries = 0;
    const deed = async () => {
      tries += 1;
      throw error;
    };
    await assert.rejects(whileUnwritable(kit, attempt, deed), error);
    assert.equal(tries, 1);
  }
});

test("case 70: an attempt that is stopped waits no longer", async (t) => {
  const { kit, attempt, log } = bench(t, "/nonexistent/objects");
  const waiting = whileUnwritable(kit, attempt, async () => {
    throw errno("ENOSPC");
  });
  log.error = () => attempt.abort.abort(new Error("cancelled"));
  await assert.rejects(waiting, (error: Error) => error.name === "AbortError");
});

test("case 70: a hold is told to the bus once it takes it, and taken back before the work goes on", async (t) => {
  const objects = join(tempDir(t), "objects");
  const { kit, attempt } = bench(t, objects);
  kit.bus.refusals = 2;
  let tries = 0;
  const waiting = whileUnwritable(kit, attempt, async () => {
    tries += 1;
    if (tries === 1) throw errno("EROFS");
    return [...kit.bus.told];
  });
  await until("it is told", () => kit.bus.told.length > 0);
  mkdirSync(objects);
  const [why, back, ...rest] = await waiting;
  assert.match(String(why), /objects cannot be written \(ENOENT\): make it writable/);
  assert.deepEqual([back, rest], [null, []]);
});

test("case 70: what a scheduler that died had told of a hold is taken back by the next one that goes on", async (t) => {
  const { kit, attempt } = bench(t);
  const spec = runSpecOf("r", [specOf("a")]);
  const held = { why: "the disk is full", since: AT };
  const [task] = spec.tasks;
  assert.ok(task);
  kit.mirror.load([runOf(spec)], [taskOf(task, { ...running(), held } as TaskState, { run: "r" })]);
  assert.equal(await whileUnwritable(kit, attempt, async () => kit.bus.told.length), 1);
  assert.deepEqual(kit.bus.told, [null]);
});
