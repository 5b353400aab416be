import assert from "node:assert/strict";
import { test } from "node:test";
import { retryTask } from "../../bus/state/decide-person.ts";
import { countedLosses, type Loss, lossesOf, type Neighbour } from "../../bus/state/innocence.ts";
import { FREE_LOSSES, FREE_WAVES, WIDESPREAD_MS } from "../../schemas/limits.ts";
import type { AttemptRecord, Evidence } from "../../schemas/task.ts";
import { at, fails, go, said } from "../helpers/decide.ts";
import { draftWith, taskSpec } from "../helpers/state.ts";

const T = 1_000_000;
const loss = (at: number, explained = false): Loss => ({ at, explained });
/** The three ends of one task, a minute apart. */
const three = [loss(T), loss(T + 60_000), loss(T + 120_000)];
const busy: Neighbour = { started: 0, ended: undefined, innocent: false };
const ended = (at: number): Neighbour => ({ started: 0, ended: at, innocent: false });
const hit = (at: number): Neighbour => ({ started: at - 10_000, ended: at, innocent: true });
/** `n` ends a minute apart. */
const many = (n: number, explained = false) =>
  Array.from({ length: n }, (_, i) => loss(T + i * 60_000, explained));
/** Two others are hit at each of these. */
const waves = (losses: readonly Loss[]) => losses.flatMap(({ at }) => [hit(at + 500), hit(at + 600)]);
/** `n` others that are hit whenever the task is. */
const always = (n: number) => three.flatMap(({ at }) => Array.from({ length: n }, () => hit(at + 500)));

const TABLE: readonly (readonly [what: string, losses: Loss[], neighbours: Neighbour[], counted: number])[] =
  [
    ["nothing happened", [], [busy], 0],
    ["once", three.slice(0, 1), [busy], 0],
    ["twice", three.slice(0, 2), [busy], 0],
    ["three times alone", three, [], 1],
    ["three times while the others work on", three, [busy, busy, busy], 1],
    ["eleven times", Array.from({ length: 11 }, (_, n) => loss(T + n)), [busy], 9],
    ["three times, one of them explained", [loss(T), loss(T, true), loss(T)], [busy], 0],
    ["many explained", Array.from({ length: 8 }, () => loss(T, true)), [busy], 0],
    ["each time with two others", three, always(2), 0],
    ["each time with one other only", three, always(1), 1],
    [
      "each time with two others of many that work on",
      three,
      [...always(2), busy, busy, busy, busy, busy],
      1,
    ],
    ["each time with half of those at work", three, [...always(3), busy, busy, busy], 0],
    ["as many waves as are free", many(FREE_WAVES), waves(many(FREE_WAVES)), 0],
    ["two waves more", many(FREE_WAVES + 2), waves(many(FREE_WAVES + 2)), 2],
    ["two waves more that the machine explains", many(FREE_WAVES + 2, true), waves(many(FREE_WAVES + 2)), 0],
    ["all free waves, then alone", many(FREE_WAVES + FREE_LOSSES), waves(many(FREE_WAVES)), 0],
    [
      "all free waves, then once too often alone",
      many(FREE_WAVES + FREE_LOSSES + 1),
      waves(many(FREE_WAVES)),
      1,
    ],
    ["others were hit once only", three, [hit(T + 60_000), hit(T + 60_001)], 0],
    ["others were hit long before", three, [hit(T - 2 * WIDESPREAD_MS), hit(T - 2 * WIDESPREAD_MS)], 1],
    ["others began later", three, [hit(T + 300_000), hit(T + 300_000)], 1],
    ["others had ended well before that", three, [...always(2), ended(T - WIDESPREAD_MS - 1)], 0],
  ];

for (const [what, losses, neighbours, counted] of TABLE)
  test(`innocent ends of one task: ${what}: ${counted} count as failed tries`, () => {
    assert.equal(
      countedLosses(losses, () => neighbours),
      counted,
    );
  });

test("losses of a task: infra and lost since the last retry of a person, explained where the scheduler says so", () => {
  const proof = (machine?: string): Evidence => ({
    summary: "",
    log: "",
    paths: [],
    landed_since: [],
    ...(machine === undefined ? {} : { machine }),
  });
  const record = (result: AttemptRecord["result"], second: number, machine?: string) =>
    ({ result, ended: `2026-01-01T00:00:0${second}.000Z`, evidence: proof(machine) }) as AttemptRecord;
  const attempts = [
    record("lost", 1),
    record("agent_error", 2),
    record("infra", 3),
    record("lost", 4, "a restart"),
    record("rate_limited", 5),
  ];
  const time = (second: number) => Date.parse(`2026-01-01T00:00:0${second}.000Z`);
  assert.deepEqual(lossesOf({ attempts, counts: { lost: 1, infra: 1, rate_limited: 1 } }), [
    { at: time(3), explained: false },
    { at: time(4), explained: true },
  ]);
  assert.deepEqual(lossesOf({ attempts, counts: {} }), []);
});

test("S6: what nothing explains is free FREE_LOSSES times; then lost and infra count as failed tries, mixed as they come", () => {
  const d = draftWith([taskSpec("a", { retries: 1 }), taskSpec("b", {})]);
  go(d, "b");
  const causes = ["lost", "infra", "agent_error", "lost"] as const;
  for (const cause of causes) {
    assert.ok(["ready", "retrying"].includes(at(d, "a").name), cause);
    fails(d, "a", cause);
  }
  const state = at(d, "a");
  assert.ok(state.name === "blocked" && state.needs.kind === "retries_used", JSON.stringify(state));
  assert.equal(state.needs.cause, "lost");
  assert.match(state.needs.evidence.summary, /^lost; no fact of the machine explains it/);
  retryTask(d, { run: "r", task: "a" }, "me");
  for (let n = 0; n < FREE_LOSSES; n++) fails(d, "a", "lost");
  assert.equal(at(d, "a").name, "retrying", "a person's retry begins anew");
});

test("S6: an explained end stays free after others that counted", () => {
  const d = draftWith([taskSpec("a", { retries: 1 })]);
  for (let n = 0; n <= FREE_LOSSES; n++) fails(d, "a", "lost");
  fails(d, "a", "infra", { machine: "the disk is full" });
  assert.equal(at(d, "a").name, "retrying");
  fails(d, "a", "check");
  assert.equal(said(d, "a"), "blocked retries_used check");
});
