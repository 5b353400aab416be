// The line to the bus gives up where it says so, and only there. Time is the test's.

import assert from "node:assert/strict";
import test from "node:test";
import type { ThinClient } from "../../bus/client/thin.ts";
import { BusbarError, type ErrorCode } from "../../schemas/errors.ts";
import type { Outcome } from "../../schemas/job.ts";
import { jsonLog } from "../../schemas/ports.ts";
import { BusLink } from "../../shim/link.ts";

/** A link to a bus that answers every call with an error; each look at the clock costs 10 s. */
function link(code: ErrorCode, spoken: string[] = []) {
  let now = 0;
  const tries: string[] = [];
  const client: ThinClient = {
    call: async (method) => {
      tries.push(method);
      throw new BusbarError(code, `${method}: ${code}`);
    },
    close: () => {},
    closed: new Promise(() => {}),
  };
  const made = new BusLink({
    connect: async () => client,
    who: { kind: "agent", name: "agent", pid: 2, start_time: "1@x" },
    onCancel: () => {},
    onFenced: () => {},
    log: jsonLog((line) => spoken.push(line)),
    clock: { now: () => now, monotonic: () => (now += 10_000) },
    random: () => 0,
  });
  return { made, tries };
}
const never = new AbortController().signal;

test("register gives up after its time, and says that the bus was away", async () => {
  const { made, tries } = link("SHUTTING_DOWN");
  assert.deepEqual(await made.register(25_000, never), {
    kind: "failed",
    why: "bus away: register: SHUTTING_DOWN",
  });
  assert.equal(tries.length, 3);
});

test("register does not try again where that is no use", async () => {
  const { made, tries } = link("FORBIDDEN");
  assert.deepEqual(await made.register(25_000, never), { kind: "failed", why: "register: FORBIDDEN" });
  assert.equal(tries.length, 1);
});

test("complete gives up after its time and says once that it waits", async () => {
  const spoken: string[] = [];
  const { made } = link("BUS_AWAY", spoken);
  assert.equal(await made.complete({} as Outcome, 25_000), false);
  assert.equal(spoken.length, 1);
});
