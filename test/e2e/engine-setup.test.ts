// The set-up of the gate: it runs in each workspace and in each clean place, and what it leaves is no change of the
// agent's.

import assert from "node:assert/strict";
import { test } from "node:test";
import type { Gate } from "../../schemas/task.ts";
import { engineWorld, shellTask } from "../helpers/engine.ts";

const SETUP =
  "echo node_modules/ > .gitignore; echo base > lock.txt; echo base > f.txt; git add -A; git commit -qm base";
const gate = {
  setup: [
    { run: "mkdir -p node_modules/dep; echo dep > node_modules/dep/i.js; echo locked >> lock.txt", key: [] },
  ],
  shallow: [],
  middle: [],
  deep: [],
} satisfies Partial<Gate> as unknown as Gate;
const hasSetup = "test -f node_modules/dep/i.js && grep -qx locked lock.txt";
// A check runs on exactly the tree that would land: what the set-up put beside it stays, its edits of the tree do not.
const hasFiles = "test -f node_modules/dep/i.js && ! grep -qx locked lock.txt";

test("S6: what the set-up of the gate writes is there for agents and checks, and is no part of the change", async (t) => {
  const world = await engineWorld(t, SETUP);
  const run = await world.submit(
    [
      shellTask("uses", `${hasSetup} && echo out > out.txt`, {
        allowed_files: ["out.txt"],
        acceptance: [{ run: `${hasFiles} && test -f out.txt` }],
      }),
      shellTask("edits", "echo mine >> lock.txt", { allowed_files: ["out2.txt"] }),
    ],
    { gate },
  );
  const { task } = await world.ended(run);
  const uses = task("uses");
  assert.equal(uses.state.name, "passed", JSON.stringify(uses.attempts.at(-1)));
  assert.equal(world.git("git diff --name-only main busbar/r"), "out.txt");
  // A file that the agent itself changed after the set-up counts.
  const edits = task("edits").attempts.at(-1);
  assert.equal(edits?.result, "scope");
  assert.deepEqual(edits?.evidence?.paths, ["lock.txt"]);
});
