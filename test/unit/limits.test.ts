// Numbers that depend on each other (schemas/limits.ts says which and why).

import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { test } from "node:test";
import { answerTimeoutMs } from "../../bus/client/thin.ts";
import * as limits from "../../schemas/limits.ts";

const L = limits;

test("a blob of the largest size fits into a frame whichever way it is encoded", () => {
  assert.ok(Math.ceil((L.MAX_BLOB_BYTES / 3) * 4) < L.MAX_FRAME_BYTES, "as base64");
});

test("one answer of the largest size never cuts off its reader", () => {
  assert.ok(L.MAX_UNSENT_BYTES > L.MAX_FRAME_BYTES);
});

test("all readers together may be behind by more than one alone; waves of losses are bounded before losses are", () => {
  assert.ok(L.MAX_ALL_UNSENT_BYTES > 4 * L.MAX_UNSENT_BYTES);
  assert.ok(L.FREE_LOSSES < L.FREE_WAVES && L.FREE_WAVES < L.MAX_INNOCENT_RETRIES);
});

test("the blob cache holds several of the largest blobs", () => {
  assert.ok(L.BLOB_CACHE_BYTES >= 4 * L.MAX_BLOB_BYTES);
});

test("a lease survives three lost heartbeats and one slow reconnect", () => {
  assert.ok(L.LEASE_MS > 3 * L.HEARTBEAT_MS + L.RECONNECT_MAX_MS + L.HANDSHAKE_TIMEOUT_MS);
});

test("a client waits longer for an answer than the bus for a greeting", () => {
  assert.ok(L.CALL_TIMEOUT_MS > L.HANDSHAKE_TIMEOUT_MS);
});

test("whoever waits for a publish outlasts the bus, which waits for its snapshot", () => {
  assert.ok(answerTimeoutMs("publish") > L.PUBLISH_TIMEOUT_MS);
  assert.equal(answerTimeoutMs("get_file"), L.CALL_TIMEOUT_MS);
});

test("the shim looks for survivors for longer than it lets them end by themselves", () => {
  assert.ok(L.KILL_SETTLE_MS > L.KILL_GRACE_MS);
});

test("W10: the drain of the output leaves time for status.done within one second", () => {
  assert.ok(L.DRAIN_MS < 1_000);
});

test("S6: pauses grow, and the first is below the longest", () => {
  assert.ok(L.RETRY_FACTOR > 1 && L.RETRY_BASE_MS < L.RETRY_MAX_MS);
});

test("S5: the default time-out is within the largest", () => {
  assert.ok(L.DEFAULT_TIMEOUT_S <= L.MAX_TIMEOUT_S);
});

test("reads are flushed before they can be missed by a checkpoint at rest", () => {
  assert.ok(L.ACCESS_FLUSH_MS < L.CHECKPOINT_IDLE_MS);
});

test("socket names fit into sockaddr_un with the closing NUL", () => {
  assert.equal(L.MAX_SOCKET_PATH_BYTES + 1, 108);
});

test("evidence is a small part of what the log keeps", () => {
  assert.ok(L.EVIDENCE_BYTES < L.LOG_TAIL_BYTES / 10);
});

test("S2: the thresholds of the plan check leave room", () => {
  assert.ok(L.LINT.minGoalChars < L.LINT.maxGoalChars);
});

test("every number has a reason: a comment stands over it or over its group", () => {
  const text = readFileSync(new URL("../../schemas/limits.ts", import.meta.url), "utf8");
  const groups = text.split(/\n\n/).filter((group) => /^export const/m.test(group));
  for (const group of groups) assert.match(group, /\/\*\*/, group);
});

/** All numbers of a value, at any depth. */
function numbersOf(value: unknown): number[] {
  if (typeof value === "number") return [value];
  return typeof value === "object" && value !== null ? Object.values(value).flatMap(numbersOf) : [];
}

test("every number is positive and finite", () => {
  for (const [name, value] of Object.entries(limits)) {
    assert.ok(numbersOf(value).length > 0, `${name} holds a number`);
    for (const n of numbersOf(value)) assert.ok(Number.isFinite(n) && n > 0, name);
  }
});

test("the error that says that an answer is too large fits with its id, however that is escaped", () => {
  assert.ok(6 * L.MAX_ID_TEXT_CHARS + 1_000 * L.MAX_BATCH_CALLS < L.MAX_FRAME_BYTES);
});

test("a file of the largest size that a name allows can be captured", () => {
  assert.ok(L.MAX_CAPTURED_BYTES > L.MAX_ALLOWED_FILE_BYTES);
  assert.ok(L.MAX_ALLOWED_FILE_BYTES > L.MAX_CAPTURED_FILE_BYTES);
});
