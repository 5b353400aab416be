// Which old files of the journal go: by age, by size, by both.

import assert from "node:assert/strict";
import { test } from "node:test";
import { type Keep, outlived } from "../../bus/state/outlived.ts";

const DAY = 24 * 3600_000;
const NOW = Date.UTC(2030, 5, 30);
const files = [30, 20, 10].map((days) => ({ bytes: 100, newest: new Date(NOW - days * DAY).toISOString() }));
const count = (keep: Keep, rest = 50) => outlived(keep, NOW, files, rest)?.count ?? 0;

test("nothing goes where nothing is said, and where nothing is too old or too much", () => {
  assert.equal(outlived({}, NOW, files, 1e12), undefined);
  assert.equal(outlived({ keep_days: 30, keep_bytes: 350 }, NOW, files, 50), undefined);
  assert.equal(outlived({ keep_days: 1, keep_bytes: 0 }, NOW, [], 1e12), undefined);
});

test("by age: the oldest files whose newest record is older, and none behind one that is not", () => {
  assert.deepEqual(
    [29, 19, 9].map((keep_days) => count({ keep_days })),
    [1, 2, 3],
  );
});

test("by age: a clock that jumped makes no file older than the one before it, and none younger than those behind it", () => {
  const ages = (...days: number[]) =>
    days.map((d) => ({ bytes: 100, newest: new Date(NOW - d * DAY).toISOString() }));
  const gone = (keep_days: number, list: ReturnType<typeof ages>) =>
    outlived({ keep_days }, NOW, list, 0)?.count ?? 0;
  assert.equal(gone(9, ages(30, 8, 20_000, 5)), 1, "the clock stood at the beginning of time");
  assert.equal(
    gone(9, ages(30, -4_000, 20, 5)),
    1,
    "the clock stood in the future: as old as what came after it",
  );
  assert.equal(gone(4, ages(30, -4_000, 20, 5)), 4);
  assert.equal(gone(1, ages(-4_000)), 0, "nothing came after it: it is of now");
});

test("by size: the oldest files until the rest is small enough; what stays counts too", () => {
  assert.deepEqual(
    [349, 250, 249, 0].map((keep_bytes) => count({ keep_bytes })),
    [1, 1, 2, 3],
  );
  assert.equal(count({ keep_bytes: 250 }, 1000), 3);
});

test("by both: the one that takes more is named", () => {
  assert.deepEqual(outlived({ keep_days: 19, keep_bytes: 349 }, NOW, files, 50), {
    count: 2,
    rule: "audit.keep_days 19",
  });
  assert.deepEqual(outlived({ keep_days: 29, keep_bytes: 0 }, NOW, files, 50), {
    count: 3,
    rule: "audit.keep_bytes 0",
  });
});
