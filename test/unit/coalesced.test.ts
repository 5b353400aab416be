// Requests to publish are answered by one capture at a time and one more, not by a queue.

import assert from "node:assert/strict";
import { test } from "node:test";
import { Coalesced } from "../../scheduler/coalesced.ts";

test("300 requests while one is being worked on are one more piece of work, begun after the last of them", async () => {
  const open: (() => void)[] = [];
  const begun: number[] = [];
  const work = (n: number) => () => {
    begun.push(n);
    return new Promise<void>((done) => open.push(done));
  };
  const line = new Coalesced();
  for (let n = 0; n < 300; n++) line.ask(work(n));
  assert.deepEqual(begun, [0]);
  open.shift()!();
  await new Promise(setImmediate);
  assert.deepEqual(begun, [0, 299]);
  const idle = line.idle();
  open.shift()!();
  await idle;
  line.ask(work(300));
  assert.deepEqual(begun, [0, 299, 300]);
  open.shift()!();
  await line.idle();
});
