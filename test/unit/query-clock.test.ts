// Issue 3.4, a clock that jumps: questions for a time find what was written by the clock of then, wherever it stands in the
// journal, in files that are packed and in the one that is not; and no word that is no time.

import assert from "node:assert/strict";
import { test } from "node:test";
import { planHash, submit } from "../../bus/state/decide-run.ts";
import { METHODS } from "../../schemas/methods.ts";
import { MemoryDisk } from "../helpers/memory-disk.ts";
import { FakeClock, openStore, runSpec, specsOf, T0 } from "../helpers/state.ts";
import { until } from "../helpers/wait.ts";

const DIR = "/s/bus";
const HOUR = 3_600_000;
const iso = (ms: number) => new Date(ms).toISOString();

test("issue 3.4: since and until, over a journal whose clock went to 2038, to 1970, and back", async () => {
  const [disk, clock] = [new MemoryDisk("/s"), new FakeClock()];
  const store = await openStore(DIR, { disk, clock, segmentBytes: 4_000 });
  const times = [T0, Date.UTC(2038, 0, 19), 0, T0 + HOUR].flatMap((from) =>
    Array.from({ length: 30 }, (_, n) => from + n),
  );
  for (const [n, ms] of times.entries()) {
    clock.ms = ms;
    const access = { path: "x".repeat(100) };
    await store.access({
      actor: "person",
      method: "ping",
      request_id: `q${n}`,
      response_time_ms: 1,
      access,
    });
    if (n % 20 > 0) continue;
    const spec = runSpec(`r${n}`, specsOf({ a: [] }));
    await store.change({ actor: "person" }, (d) => submit(d, { spec }, "me", planHash(spec)));
  }
  await store.close();
  const again = await openStore(DIR, { disk, clock, segmentBytes: 4_000 });
  const count = (end: string) => disk.paths.filter((p) => p.includes("/journal/") && p.endsWith(end)).length;
  await until("packed", () => count(".gz") > 3 && count(".jsonl") === 1);
  const all = (await again.query({ kind: "access", limit: 10_000 })).records;
  assert.equal(all.length, times.length);
  const bounds = [0, 15, 1_000, T0 - 1, T0, T0 + 7, T0 + HOUR, T0 + HOUR + 29, Date.UTC(2038, 0, 19) + 3];
  for (const since of [undefined, ...bounds])
    for (const to of [undefined, ...bounds])
      for (const newest of [false, true]) {
        const filter = {
          ...(since !== undefined && { since: iso(since) }),
          ...(to !== undefined && { until: iso(to) }),
        };
        const { records } = await again.query({ ...filter, kind: "access", newest, limit: 10_000 });
        const right = all.filter(({ ts }) => {
          const at = Date.parse(ts);
          return (since === undefined || at >= since) && (to === undefined || at <= to);
        });
        assert.deepEqual(records, newest ? right.reverse() : right, JSON.stringify(filter));
      }
  await again.close();
});

test("issue 3.4: a word that is no time is refused, not answered with nothing", () => {
  const { params } = METHODS.query_audit;
  for (const name of ["since", "until"]) {
    assert.equal(params.safeParse({ [name]: "yesterday-ish" }).success, false);
    assert.equal(params.safeParse({ [name]: iso(T0) }).success, true);
    assert.equal(params.safeParse({ [name]: "2030-01-01T00:00:00+02:00" }).success, true);
  }
});
