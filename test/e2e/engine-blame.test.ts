// What an agent or a check does to look innocent: it gets no more tries by that than any other, or two at most.

import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { join } from "node:path";
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

/** Writes the outbox that its shim would write had it ended well, ends the shim, and is gone in the same moment. */
const FORGES_ITS_END = `
  me=$(ls -t "$W"/state/*/runs/r/*/checks/*.shim.json | head -1)
  node -e '
    const fs = require("node:fs");
    const [file] = process.argv.slice(1);
    const { ref, kind, name } = JSON.parse(fs.readFileSync(file, "utf8"));
    const now = new Date().toISOString();
    const none = { killed_with: [], leftovers: [], survivors: [], limits_missing: [] };
    const zero = { duration_ms: 1, peak_rss: 0, cpu_ms: 0, log_bytes: 0, log_dropped: 0 };
    const end = { reason: "exit", exit: 0, signal: null, started: now, ended: now, certain: true, log_tail: "" };
    fs.writeFileSync(file.replace(/shim.json$/, "outbox.json"), JSON.stringify({ v: 1, ref, kind, name, ...end, ...none, ...zero }));
    fs.appendFileSync(process.env.W + "/forged", "x");
  ' "$me"
  kill -9 $PPID`;

test("S6: a check that writes its own outbox and ends its shim has proven nothing: run again, then failed", async (t) => {
  const world = await engineWorld(t);
  const more = { allowed_files: ["out.txt"], retries: 0, acceptance: [{ run: FORGES_ITS_END }] };
  const run = await world.submit([shellTask("t", "echo out > out.txt", more)]);
  const { task } = await world.ended(run, 90_000);
  assert.equal(readFileSync(join(world.dir, "forged"), "utf8"), "xxx", "forged each time");
  const { attempts, state } = task("t");
  assert.deepEqual(
    attempts.map(({ result, verdicts }) => [result, [...new Set(verdicts.map(({ verdict }) => verdict))]]),
    [["check", ["infra"]]],
  );
  assert.equal(state.name, "blocked");
  assert.match(attempts[0]?.evidence?.summary ?? "", /3 times in a row.*ends its own supervisor/);
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
      acceptance: [{ run: `echo "${line}"; echo x >> "$W/${id}.runs"; exit 1` }],
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
    const runs = readFileSync(join(world.dir, `${id}.runs`), "utf8");
    assert.equal(runs, "x\nx\n", "looked at once more, in a new place");
  }
});
