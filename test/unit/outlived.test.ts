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
  const jumped = files.with(0, { bytes: 100, newest: new Date(NOW + DAY).toISOString() });
  assert.equal(outlived({ keep_days: 1 }, NOW, jumped, 0), undefined);
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
