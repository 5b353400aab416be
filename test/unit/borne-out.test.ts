// Issue 3.4, a clock that jumps: how much of the wall clock the records bear out.

import assert from "node:assert/strict";
import { test } from "node:test";
import { BorneOut } from "../../bus/state/borne-out.ts";

const HOUR = 3_600_000;
const DAY = 24 * HOUR;
const NOW = Date.UTC(2030, 5, 30);
const IN_2038 = Date.UTC(2038, 0, 19);

async function* back(times: number[]) {
  yield times.map((at) => ({ ts: new Date(at).toISOString() }));
}
const clockAt = (now: number, monotonic = 0) => ({ now: () => now, monotonic: () => monotonic });
const believed = (now: number, ...times: number[]) => new BorneOut(clockAt(now)).now(back(times));

test("issue 3.4: records in ordinary steps bear the clock out, and so does a log that is younger than a day", async () => {
  assert.equal(await believed(NOW, NOW - HOUR, NOW - 3 * DAY, NOW - 400 * DAY), NOW);
  assert.equal(await believed(NOW, NOW - HOUR, NOW - 2 * HOUR), NOW);
  assert.equal(await believed(NOW), NOW);
});

test("issue 3.4: a clock in 2038 is believed for eight days, until records have come with it for a day", async () => {
  const old = [NOW, NOW - HOUR, NOW - DAY];
  assert.equal(await believed(IN_2038, ...old), NOW + 8 * DAY);
  const since = (hours: number) => Array.from({ length: hours + 1 }, (_, n) => IN_2038 + (hours - n) * HOUR);
  assert.equal(await believed(IN_2038 + 23 * HOUR, ...since(23), ...old), NOW + 8 * DAY);
  assert.equal(await believed(IN_2038 + 24 * HOUR, ...since(24), ...old), IN_2038 + 24 * HOUR);
});

test("issue 3.4: a clock that was set right again is believed over the records of the time when it was ahead", async () => {
  assert.equal(await believed(NOW, NOW - HOUR, IN_2038, IN_2038 - HOUR, NOW - 2 * HOUR, NOW - 2 * DAY), NOW);
});

test("issue 3.4: records from 1970 before those of now: nothing is old until a day has passed", async () => {
  assert.equal(await believed(NOW, NOW - HOUR, HOUR, 0), HOUR + 8 * DAY);
  assert.equal(await believed(0, NOW, NOW - DAY), 0, "with the clock in 1970 itself nothing is old");
});

test("issue 3.4: what was believed holds while the clocks go alike, and is looked at anew after a jump", async () => {
  let [now, monotonic] = [NOW, 1_000];
  const borne = new BorneOut({ now: () => now, monotonic: () => monotonic });
  assert.equal(await borne.now(back([NOW, NOW - DAY])), NOW);
  [now, monotonic] = [NOW + 20 * DAY, 1_000 + 20 * DAY];
  assert.equal(await borne.now(back([NOW])), now, "twenty quiet days in one life");
  now = IN_2038;
  assert.equal(await borne.now(back([NOW, NOW - DAY])), NOW + 8 * DAY);
});

test("issue 3.4: a bus that ends does not wait for the look back", async () => {
  const ending = await new BorneOut(clockAt(NOW)).now(back([NOW]), () => true);
  assert.equal(ending, Number.NEGATIVE_INFINITY);
});
