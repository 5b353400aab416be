// What an agent or a check does to look innocent: it gets no more tries by that than any other, or two at most.

import assert from "node:assert/strict";
import { test } from "node:test";
import { FREE_LOSSES } from "../../schemas/limits.ts";
import { engineWorld, shellTask } from "../helpers/engine.ts";

/** Ends the shim that stands round the shell, then waits to be ended. */
const KILLS_ITS_SHIM = "kill -9 $PPID; sleep 60";

test("S6: an agent that kills its own shim is free of charge twice; then it counts, and a person is asked", async (t) => {
  const world = await engineWorld(t);
  const tasks = [
    shellTask("kills", KILLS_ITS_SHIM, { retries: 0 }),
    shellTask("works", "echo w > w.txt", { allowed_files: ["w.txt"] }),
  ];
  const run = await world.submit(tasks);
  const { task } = await world.ended(run, 90_000);
  assert.equal(task("works").state.name, "passed");
  const { state, attempts } = task("kills");
  assert.ok(state.name === "blocked" && state.needs.kind === "retries_used", JSON.stringify(state));
  assert.match(state.needs.evidence.summary, /no fact of the machine explains it/);
  assert.deepEqual(
    attempts.map(({ result }) => result),
    Array.from({ length: FREE_LOSSES + 1 }, () => "lost"),
  );
});

test("S6: a check that kills its own shim each time has failed; the agent is not run again for nothing", async (t) => {
  const world = await engineWorld(t);
  const more = { allowed_files: ["out.txt"], retries: 0, acceptance: [{ run: KILLS_ITS_SHIM }] };
  const run = await world.submit([shellTask("t", "echo out > out.txt", more)]);
  const { task } = await world.ended(run, 90_000);
  const [first, ...further] = task("t").attempts;
  assert.deepEqual([first?.result, further.length], ["check", 0]);
  assert.match(first?.evidence?.summary ?? "", /3 times in a row.*ends its own supervisor/);
});

test("S6: a red check that speaks of a full disk or a taken port is red; the line is told", async (t) => {
  const world = await engineWorld(t);
  const red = (id: string, line: string) =>
    shellTask(id, `echo ${id} > ${id}.txt`, {
      allowed_files: [`${id}.txt`],
      retries: 0,
      acceptance: [{ run: `echo "${line}"; exit 1` }],
    });
  const run = await world.submit([
    red("disk", "Error: ENOSPC: no space left on device"),
    red("port", "Error: listen EADDRINUSE: address already in use :::1"),
  ]);
  const { task } = await world.ended(run);
  for (const [id, word] of [
    ["disk", /ENOSPC: no space left/],
    ["port", /EADDRINUSE/],
  ] as const) {
    const { attempts } = task(id);
    assert.deepEqual(
      attempts.map(({ result }) => result),
      ["check"],
    );
    assert.match(attempts[0]?.evidence?.summary ?? "", word);
    assert.equal(attempts[0]?.verdicts.length, 2, "looked at once more, in a new place");
  }
});
