// What time brings about, and what says that an attempt lives.

import assert from "node:assert/strict";
import { type TestContext, test } from "node:test";
import { FaultyDisk } from "../helpers/faulty-disk.ts";
import { Bus, code, FakePeer, ref } from "../helpers/handlers.ts";
import { outcomeOf } from "../helpers/outcomes.ts";
import { BASE, FakeClock, openStore, runSpec, specsOf } from "../helpers/state.ts";
import { tempDir } from "../helpers/temp.ts";

/** A bus whose timers run on a clock of the test's own: `at` moves it on, and runs what was due by then. */
async function timedBus(t: TestContext, disk?: FaultyDisk) {
  const clock = new FakeClock();
  let monotonic = 0;
  clock.monotonic = () => monotonic;
  let end = async () => {};
  const store = await openStore(
    tempDir(t, "t", () => end()),
    { clock, ...(disk && { disk }) },
  );
  const due = new Map<() => void, number>();
  const b = new Bus(store, clock, {
    set: (fn, ms) => {
      due.set(fn, monotonic + ms);
      return fn;
    },
    clear: (fn) => void due.delete(fn as () => void),
  });
  await b.call("person", "submit_run", { spec: runSpec("r", specsOf({ a: [] })) });
  end = async () => {
    b.methods.stop();
    await store.close();
  };
  // After what the timers have asked for, whether it could be written or not.
  const settled = () => store.change({ actor: "test" }, () => {}).catch(() => {});
  const fire = async (now: number) => {
    clock.ms += now - monotonic;
    monotonic = now;
    for (const [fn, at] of [...due]) {
      if (at > now) continue;
      due.delete(fn);
      fn();
    }
    await settled();
    await settled();
  };
  /** Both clocks go on together, as they do, and what is due happens at its time; or all at once, when held up. */
  const after = async (ms: number, heldUp = false) => {
    const end = monotonic + ms;
    for (let next = 0; !heldUp && next < end; ) {
      next = Math.min(end, ...due.values());
      await fire(next);
    }
    await fire(end);
    return store.view.task("r", "a")?.state.name;
  };
  return { b, clock, store, after };
}

test("B7, S6: time moves tasks: a lease that runs out is lost and tried again when its pause is over", async (t) => {
  const { b, after } = await timedBus(t);
  const a = await b.claim("a");
  assert.equal(await after(59_000), "running");
  await b.call("shim", "heartbeat", { kind: "agent" }, { attempt: ref(a) });
  assert.equal(await after(59_900), "running");
  assert.equal(await after(200), "retrying");
  await assert.rejects(b.call("shim", "heartbeat", { kind: "agent" }, { attempt: ref(a) }), code("FENCED"));
  assert.equal(await after(800), "retrying");
  assert.equal(await after(200), "ready");
});

test("B7: a clock that is set, forward or back, loses no attempt and holds none", async (t) => {
  const { b, clock, after } = await timedBus(t);
  const a = await b.claim("a");
  await b.call("scheduler", "attempt_update", { ...ref(a), phase: "agent" });
  clock.ms += 3_600_000; // the machine slept, or its clock was set
  assert.equal(await after(10_000), "running");
  await b.call("shim", "heartbeat", { kind: "agent" }, { attempt: ref(a) });
  clock.ms -= 7_200_000;
  for (let s = 0; s < 120; s += 5) {
    assert.equal(await after(5_000), "running", `after ${s} s of heartbeats`);
    await b.call("shim", "heartbeat", { kind: "agent" }, { attempt: ref(a) });
  }
  assert.equal(await after(59_900), "running");
  assert.equal(await after(200), "retrying");
  clock.ms -= 3_600_000;
  assert.equal(await after(1_100), "ready", "a pause is not longer for a clock that was set back");
});

test("B7: a bus that was held up reads what the shims said meanwhile before it calls them lost", async (t) => {
  const { b, after } = await timedBus(t);
  const a = await b.claim("a");
  assert.equal(await after(600_000, true), "running", "stopped for ten minutes");
  await b.call("shim", "heartbeat", { kind: "agent" }, { attempt: ref(a) });
  assert.equal(await after(59_900), "running");
  assert.equal(await after(200), "retrying");
});

test("B7: held up again after a last call: counted anew once more, and the attempt still ends", async (t) => {
  const { b, after } = await timedBus(t);
  await b.claim("a");
  assert.equal(await after(60_010), "running", "within its last call");
  assert.equal(await after(600_000, true), "running", "held up within the last call");
  assert.equal(await after(60_010), "running", "a whole lease and a last call again");
  assert.equal(await after(600_000, true), "running", "held up a second time");
  assert.equal(await after(60_010), "running");
  assert.equal(await after(100), "retrying", "nobody has said a word");
});

test("B6: while the agent is at work only its own shim says that the attempt lives", async (t) => {
  const { b, after } = await timedBus(t);
  const a = await b.claim("a");
  await b.call("scheduler", "attempt_update", { ...ref(a), phase: "agent" });
  assert.equal(await after(50_000), "running");
  await b.call("shim", "heartbeat", { kind: "check" }, { attempt: ref(a) });
  await b.call("scheduler", "attempt_update", { ...ref(a), doubt: { pid: 7, why: "it is stopped" } });
  assert.equal(await after(10_100), "retrying");
  const { tasks } = await b.call("person", "list_tasks", { run: "r" });
  assert.match(
    tasks[0]?.attempts[0]?.evidence?.summary ?? "",
    /no sign of life.*its shim \(pid 7\): it is stopped/,
  );
});

test("a doubt about a shim is a fact of the running state; its heartbeat ends it", async (t) => {
  const { b, store } = await timedBus(t);
  const a = await b.claim("a");
  const doubt = () => {
    const state = store.view.task("r", "a")?.state;
    return state?.name === "running" ? state.doubt : undefined;
  };
  const told = { pid: 7, why: "it is stopped" };
  await b.call("scheduler", "attempt_update", { ...ref(a), doubt: told });
  const { state_version } = await b.call("scheduler", "attempt_update", { ...ref(a), doubt: told });
  assert.equal(state_version, store.view.task("r", "a")?.state_version, "told again it is no event");
  assert.deepEqual({ ...doubt(), since: "" }, { ...told, since: "" });
  await b.call("shim", "heartbeat", { kind: "check" }, { attempt: ref(a) });
  assert.ok(doubt());
  await b.call("shim", "heartbeat", { kind: "agent" }, { attempt: ref(a) });
  assert.equal(doubt(), undefined);
});

test("B6: a claim whose answer was lost gets it again; the same task for another workspace is refused", async (t) => {
  const { b, store } = await timedBus(t);
  const state_version = store.view.task("r", "a")?.state_version ?? 0;
  const wish = { run: "r", task: "a", state_version, worker: "w", base: BASE, workspace: "/w/1" };
  const first = await b.call("scheduler", "claim", wish);
  const { seq } = store;
  assert.deepEqual(await b.call("scheduler", "claim", wish), first);
  assert.equal(store.seq, seq);
  for (const other of [{ workspace: "/w/2" }, { worker: "v" }])
    await assert.rejects(b.call("scheduler", "claim", { ...wish, ...other }), code("STALE"));
});

test("case 70: while the disk refuses for minutes, no lease of whoever speaks runs down, and it is not said every second", async (t) => {
  const disk = new FaultyDisk();
  const { b, after } = await timedBus(t, disk);
  const a = await b.claim("a");
  await b.call("scheduler", "attempt_update", { ...ref(a), phase: "agent" });
  disk.only = "journal";
  disk.faults.set("write", "ENOSPC");
  for (let s = 0; s < 300; s += 10) {
    assert.equal(await after(10_000), "running");
    await b.call("shim", "heartbeat", { kind: "agent" }, { attempt: ref(a) }).catch(() => {});
  }
  disk.faults.clear();
  assert.equal(
    await after(30_000),
    "running",
    "there is room again: its lease counts from what was heard last",
  );
  await b.call("shim", "heartbeat", { kind: "agent" }, { attempt: ref(a) });
  assert.equal(await after(59_000), "running");
  disk.faults.set("write", "ENOSPC");
  assert.equal(await after(300_000), "running", "silent now, but that cannot be written");
  const said = b.log.lines.filter(({ message }) => message.startsWith("what was due"));
  assert.ok(said.length >= 2 && said.length <= 4, `said ${said.length} times in five minutes`);
  disk.faults.clear();
  assert.equal(await after(1_000), "retrying");
});

test("issue 3.1: an agent that ended and told it is not lost for want of a scheduler; a silent one has its bound", async (t) => {
  const { b, after } = await timedBus(t);
  const a = await b.claim("a");
  await b.call("scheduler", "attempt_update", { ...ref(a), phase: "agent" });
  await b.call(
    "shim",
    "register",
    { kind: "agent", name: "agent", pid: 7, start_time: "1" },
    { attempt: ref(a) },
  );
  await b.call("shim", "complete", { outcome: outcomeOf(ref(a)) }, { attempt: ref(a) });
  assert.equal(await after(3_600_000), "running", "nobody could settle it, and nobody else could try it");
  const peer = new FakePeer();
  const words = { worker: "w", host: "h", pid: 1, start_time: "1", slots: 1 };
  await b.call("scheduler", "register_worker", words, { peer });
  assert.equal(await after(4 * 60_000), "running", "it may be stopped and come back");
  await b.call("scheduler", "attempt_update", { ...ref(a), phase: "capture" });
  assert.equal(await after(5 * 60_000), "running", "a word of it begins the count anew");
  await after(3 * 60_000);
  assert.equal(b.store.view.task("r", "a")?.attempts[0]?.result, "lost");
});
