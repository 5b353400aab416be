// What busctl says after a person steered a run: what follows, or that nothing does.

import assert from "node:assert/strict";
import { test } from "node:test";
import { run as pause } from "../../bus/ctl/verbs/pause.ts";
import { run as resume } from "../../bus/ctl/verbs/resume.ts";
import { run as retry } from "../../bus/ctl/verbs/retry.ts";
import { BusbarError, isCode } from "../../schemas/errors.ts";
import type { RunSummary } from "../../schemas/methods.ts";
import type { Run, Task, TaskState } from "../../schemas/task.ts";
import { args, fakeBus, fakeCtx, iso, makeRun, makeSummary, makeTask, merged } from "../helpers/ctl-fakes.ts";

const ready = (): TaskState => ({ name: "ready", since: iso(1_000) });
const cancelled = (): TaskState => ({ name: "cancelled", since: iso(3_000), by: "person" });

async function retried(after: TaskState, more: Partial<Run> = {}): Promise<string> {
  const before = makeTask("a", cancelled());
  const now = { ...before, state: after };
  const bus = fakeBus({
    list_runs: () => ({ runs: [makeSummary([before])] }),
    list_tasks: () => ({ tasks: [before] }),
    get_task: () => ({ task: before }),
    retry_task: () => ({ state_version: 2 }),
    get_run: () => ({ run: makeRun([now], more), tasks: [now], summary: makeSummary([now]) }),
  });
  const ctx = fakeCtx(bus);
  assert.equal(await retry(ctx, args(["r/a"])), 0);
  return ctx.written();
}

test("issue 2.6: retry says what the task still waits for: a cancelled upstream, a paused run, a dependency", async () => {
  assert.equal(await retried(ready()), "r/a: will be tried again\n");
  const needs = { kind: "upstream", root: "up", state: "cancelled", cause: "" } as const;
  assert.equal(
    await retried({ name: "blocked", since: iso(1_000), needs }),
    "r/a: will be tried again, but not before up, which is cancelled: busctl retry r/up\n",
  );
  assert.equal(
    await retried(ready(), { paused: true }),
    "r/a: will be tried again once its run goes on: busctl resume r\n",
  );
  assert.equal(
    await retried({ name: "pending", waits_for: ["up"] }),
    "r/a: will be tried again when up landed\n",
  );
});

test("issue 2.6: a refusal of the bus with advice of its own is told with that advice", async () => {
  const task = makeTask("a", cancelled());
  const bus = fakeBus({
    list_runs: () => ({ runs: [makeSummary([task])] }),
    list_tasks: () => ({ tasks: [task] }),
    get_task: () => ({ task }),
    retry_task: () => {
      throw new BusbarError("ILLEGAL_MOVE", "retry of r/a: no", { help: "busctl retry r/up" });
    },
  });
  await assert.rejects(
    retry(fakeCtx(bus), args(["r/a"])),
    (error) => isCode(error, "ILLEGAL_MOVE") && error.data.help === "busctl retry r/up",
  );
  assert.deepEqual(
    bus.calls.filter(({ method }) => method === "query_audit"),
    [],
  );
});

const busOf = (summary: Partial<RunSummary>, task: Task, changed: boolean) =>
  fakeBus({
    list_runs: () => ({ runs: [makeSummary([task], summary)] }),
    pause: () => ({ paused: true, changed }),
    resume: () => ({ paused: false, changed }),
  });

test("issue 2.6: pause and resume of a run that is over are refused with what to do; nothing is asked of the bus", async () => {
  for (const [status, state, help] of [
    ["merged", merged(), /--add-to r/],
    ["cancelled", cancelled(), /busctl retry r\/TASK/],
  ] as const)
    for (const verb of [pause, resume]) {
      const bus = busOf({ status }, makeTask("a", state), true);
      await assert.rejects(
        verb(fakeCtx(bus), args(["r"])),
        (error) =>
          isCode(error, "ILLEGAL_MOVE") &&
          /of r: it is over/.test(error.message) &&
          help.test(String(error.data.help)),
      );
      assert.deepEqual(
        bus.calls.map(({ method }) => method),
        ["list_runs"],
      );
    }
});

test("issue 2.6: pause of a paused run and resume of one that goes on say that it was so already", async () => {
  const said = async (verb: typeof pause, summary: Partial<RunSummary>, changed: boolean) => {
    const ctx = fakeCtx(busOf(summary, makeTask("a", ready()), changed));
    assert.equal(await verb(ctx, args(["r"])), 0);
    return ctx.written();
  };
  assert.match(
    await said(pause, {}, true),
    /^r: paused; what runs goes on, nothing new starts \(busctl resume r\)/,
  );
  assert.equal(
    await said(pause, { status: "paused", paused_why: "a\nb" }, false),
    "r: was paused already: a b (busctl resume r)\n",
  );
  assert.equal(await said(resume, { status: "paused" }, true), "r: goes on\n");
  assert.equal(await said(resume, {}, false), "r: was not paused; it is active\n");
});
