// Issue 3.4, a clock that jumps: an attempt that lives is said to live in time, whatever the wall clock does.

import assert from "node:assert/strict";
import { test } from "node:test";
import { LeaseWatch } from "../../scheduler/lease-watch.ts";

const LEASE = 60_000;

/** A lease written at 0 of both clocks; `at(passed, set)`: so long after, with the wall clock set by so much. */
function watch() {
  let [now, monotonic] = [0, 0];
  const leases = new LeaseWatch({ now: () => now, monotonic: () => monotonic });
  const whose = {};
  return (passed: number, set = 0, until = LEASE) => {
    [now, monotonic] = [passed + set, passed];
    return leases.isLow(whose, new Date(until).toISOString(), LEASE);
  };
}

test("issue 3.4: a lease is renewed when half of it is gone", () => {
  const at = watch();
  assert.deepEqual([at(0), at(29_999), at(30_000)], [false, false, true]);
});

test("issue 3.4: a wall clock that was set back, by years or by seconds, delays nothing", () => {
  const years = watch();
  assert.deepEqual([years(0), years(1_000, -1e11)], [false, true]);
  assert.equal(years(2_000, -1e11, 2_000 - 1e11 + LEASE), false, "renewed with the new time");
  const seconds = watch();
  assert.deepEqual([seconds(0), seconds(25_000, -20_000), seconds(30_000, -20_000)], [false, false, true]);
});

test("issue 3.4: a wall clock far ahead renews at once, and once", () => {
  const at = watch();
  assert.deepEqual([at(0), at(1_000, 1e11)], [false, true]);
  assert.equal(at(2_000, 1e11, 2_000 + 1e11 + LEASE), false);
});
