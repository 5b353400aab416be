// What busctl says about records of the audit log that are gone: removed on purpose, or lost.

import assert from "node:assert/strict";
import { test } from "node:test";
import { run as tasks } from "../../bus/ctl/verbs/tasks.ts";
import { run as verify } from "../../bus/ctl/verbs/verify.ts";
import { args, fakeBus, fakeCtx, iso, makeSummary, makeTask, merged } from "../helpers/ctl-fakes.ts";

const ALL = [makeTask("done", merged())];

const busOf = (more: Parameters<typeof fakeBus>[0]) =>
  fakeBus({
    list_runs: () => ({ runs: [makeSummary(ALL)] }),
    list_tasks: () => ({ tasks: ALL }),
    ping: () => ({}),
    ...more,
  });

const REMOVED = { to: 7, newest: iso(0), at: iso(9_000), rule: "audit.keep_days 30" };

test("verify: what retention removed is said, and is no fault", async () => {
  const answer = { ok: true, records: 9, removed: REMOVED, replay: { same: true } };
  const ctx = fakeCtx(busOf({ verify: () => answer }));
  assert.equal(await verify(ctx, args([])), 0);
  assert.match(
    ctx.written(),
    /whole.*9 records.*\n {2}records 1 to 7 were removed by retention on 2026-01-02T03:04:14.000Z \(audit.keep_days 30\); what is proven begins with record 8\n/,
  );
});

test("tasks --audit says once that older records were removed, where they could belong to the answer", async () => {
  const said = async (values: Record<string, string>, next?: number) => {
    const page = { records: [], removed: REMOVED, ...(next !== undefined && { next }) };
    const ctx = fakeCtx(busOf({ query_audit: () => page }));
    await tasks(ctx, args([], { audit: true, ...values }));
    assert.equal(ctx.written(), "");
    return ctx.errors().match(/records 1 to 7, .*were removed/g)?.length ?? 0;
  };
  assert.equal(await said({}), 1);
  assert.equal(await said({ since: iso(0) }), 1);
  assert.equal(await said({ since: iso(1) }), 0);
  assert.equal(await said({}, 8), 0, "older ones that are there were not asked for");
});

test("tasks: lost records of the journal are said in one line, and in JSON", async () => {
  const gaps = [{ from: 5, to: 9, at: iso(0), why: "cut" }];
  const bus = () => busOf({ list_runs: () => ({ runs: [makeSummary(ALL)], gaps }) });
  const ctx = fakeCtx(bus());
  await tasks(ctx, args([]));
  assert.match(
    ctx.written(),
    /^records 5 to 9 of the audit log are lost, found on 2026-01-02; busctl verify says more\n/,
  );
  const json = fakeCtx(bus(), { json: true });
  await tasks(json, args([]));
  assert.deepEqual(JSON.parse(json.written()).gaps, gaps);
});
