// A slow answer is said to be under way; a quick one says nothing, and nothing is said after the end.

import assert from "node:assert/strict";
import { test } from "node:test";
import { whileWaiting } from "../../bus/ctl/patience.ts";
import { until } from "../helpers/wait.ts";

test("while it lasts it is said again and again; then the result comes, and silence", async () => {
  let said = 0;
  let end: (value: string) => void = () => {};
  const work = new Promise<string>((resolve) => {
    end = resolve;
  });
  const result = whileWaiting(work, () => (said += 1), { firstMs: 1, everyMs: 1 });
  await until("it was said three times", () => said >= 3);
  end("done");
  assert.equal(await result, "done");
  const before = said;
  await new Promise((resolve) => setImmediate(resolve));
  assert.equal(said, before);
});

test("a quick answer and a quick failure say nothing", async () => {
  const silent = () => assert.fail("nothing is to be said");
  assert.equal(await whileWaiting(Promise.resolve(1), silent), 1);
  await assert.rejects(whileWaiting(Promise.reject(new Error("no")), silent), /no/);
});
